#include "gluond/autograd.h"

#include <utility>

#include "client/cpp/session/core.h"
#include "client/cpp/session/mode.h"
#include "client/cpp/session/pipeline.h"
#include "client/cpp/session/wire.h"
#include "gluond/v1/command.pb.h"

namespace gluond::client {

thread_local Mode mode_of_thread;
thread_local std::function<void(bool begins)> around_wait;

namespace autograd {
namespace {

// The command, and the session of the heads; an error poisons nothing that exists.
absl::StatusOr<std::shared_ptr<SessionCore>> Fill(absl::Span<const NDArray> heads, absl::Span<const NDArray> head_gradients,
                                                  v1::Command::Backward* backward) {
  std::vector<NDArray> all(heads.begin(), heads.end());
  for (const NDArray& gradient : head_gradients) {
    if (gradient.is_defined()) all.push_back(gradient);
  }
  auto session = SessionOf("Backward", all);
  if (!session.ok()) return session;
  if (heads.empty() || (!head_gradients.empty() && head_gradients.size() != heads.size())) {
    return absl::InvalidArgumentError("Backward wants heads, and one head gradient for each or none at all");
  }
  for (const NDArray& head : heads) backward->add_heads(head.state()->name);
  for (const NDArray& gradient : head_gradients) backward->add_head_gradients(gradient.is_defined() ? gradient.state()->name : 0);
  return session;
}

}  // namespace

bool IsRecording() { return mode_of_thread.recording; }
bool IsTraining() { return mode_of_thread.training; }

Scope::Scope(bool recording, bool training) : recording_(mode_of_thread.recording), training_(mode_of_thread.training) {
  mode_of_thread.recording = recording;
  mode_of_thread.training = training;
}

Scope::~Scope() {
  mode_of_thread.recording = recording_;
  mode_of_thread.training = training_;
}

void Backward(absl::Span<const NDArray> heads, absl::Span<const NDArray> head_gradients, BackwardOptions options, Place place) {
  v1::Command::Backward backward;
  backward.set_retain_graph(options.retain_graph);
  backward.set_training(options.train_mode);
  const auto session = Fill(heads, head_gradients, &backward);
  // An error of this program's own is that of a head, which whoever asks for the head's value is told.
  if (!session.ok()) return;
  (*session)->pipeline().Submit(CommandOf(v1::Command::kBackwardFieldNumber, backward), place).IgnoreError();
}

std::vector<NDArray> Grad(absl::Span<const NDArray> heads, absl::Span<const NDArray> variables, const GradOptions& options,
                          Place place) {
  v1::Command::Backward backward;
  backward.set_retain_graph(options.retain_graph || options.create_graph);
  backward.set_create_graph(options.create_graph);
  backward.set_training(options.train_mode);
  auto session = Fill(heads, options.head_gradients, &backward);
  absl::Status error = session.status();
  if (error.ok()) error = SessionOf("Grad", variables).status();
  std::vector<NDArray> gradients;
  for (const NDArray& variable : variables) {
    if (!error.ok()) {
      gradients.push_back(NDArray::Failed(error, place));
      continue;
    }
    gradients.push_back(NewArray(*session));
    backward.add_variables(variable.state()->name);
    backward.add_outputs(gradients.back().state()->name);
  }
  if (error.ok() && !variables.empty()) {
    (*session)->pipeline().Submit(CommandOf(v1::Command::kBackwardFieldNumber, backward), place).IgnoreError();
  }
  return gradients;
}

}  // namespace autograd
}  // namespace gluond::client
