#include "gluond/trainer.h"

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "client/cpp/gluon/parameter_state.h"
#include "client/cpp/session/core.h"
#include "client/cpp/session/pipeline.h"
#include "client/cpp/session/wire.h"
#include "client/cpp/value_message.h"
#include "gluond/status_macros.h"
#include "gluond/v1/command.pb.h"

namespace gluond::client {

struct TrainerState {
  TrainerState(gluon::ParameterDict parameters, Component optimizer)
      : parameters(std::move(parameters)), optimizer(std::move(optimizer)) {}
  ~TrainerState() {
    if (session != nullptr) session->pipeline().FreeOptimizer(name);
  }
  TrainerState(const TrainerState&) = delete;

  const gluon::ParameterDict parameters;
  const Component optimizer;

  std::mutex mutex;
  std::shared_ptr<SessionCore> session;  // Guarded by mutex, as all from here on. Null: the server does not know it yet.
  uint64_t name = 0;
  std::string key;  // Tells the arrays and multipliers that the server was told.
  std::optional<double> learning_rate;
  std::function<double(int64_t)> scheduler;
  int64_t steps = 0;
};

namespace gluon {
namespace {

// The parameters that the optimizer updates, and a text that differs where the server must be told anew.
struct Updated {
  std::vector<std::pair<std::string, std::shared_ptr<ParameterState>>> parameters;
  std::vector<NDArray> arrays;
  std::string key;
};

absl::StatusOr<Updated> UpdatedBy(const TrainerState& trainer, Place place) {
  Updated updated;
  for (const auto& [path, parameter] : trainer.parameters) {
    ParameterState& state = *parameter.state();
    std::unique_lock<std::mutex> lock(state.mutex);
    if (state.is_auxiliary || state.options.grad_req == GradReq::kNull) continue;
    if (!state.data.is_defined()) {
      lock.unlock();
      return parameter.data(place).local_error();
    }
    AppendVarint(state.data.state()->name, &updated.key);
    for (const double each : {state.options.lr_mult, state.options.wd_mult}) {
      updated.key.append(reinterpret_cast<const char*>(&each), sizeof(each));
    }
    updated.arrays.push_back(state.data);
    updated.parameters.emplace_back(path, parameter.state());
  }
  return updated;
}

// Defines the optimizer where the server does not know it, or not with these arrays and multipliers.
absl::Status Define(TrainerState& trainer, Place place) {
  GLUOND_ASSIGN_OR_RETURN(Updated updated, UpdatedBy(trainer, place));
  GLUOND_ASSIGN_OR_RETURN(const std::shared_ptr<SessionCore> session, SessionOf("the trainer", updated.arrays));
  if (session == nullptr) return absl::FailedPreconditionError("the trainer has no parameters with a gradient");
  if (trainer.session == session && trainer.key == updated.key) return absl::OkStatus();
  if (trainer.session != session) {
    if (trainer.session != nullptr) trainer.session->pipeline().FreeOptimizer(trainer.name);
    trainer.session = session;
    trainer.name = session->NewCall();
  }
  v1::Command::DefineOptimizer define;
  define.set_optimizer(trainer.name);
  define.mutable_definition()->set_name(trainer.optimizer.name);
  Fill(trainer.optimizer.attributes, define.mutable_definition()->mutable_attributes());
  for (size_t i = 0; i < updated.parameters.size(); ++i) {
    const auto& [path, parameter] = updated.parameters[i];
    std::lock_guard<std::mutex> lock(parameter->mutex);
    v1::Command::DefineOptimizer::Weight& weight = *define.add_weights();
    weight.set_array(updated.arrays[i].state()->name);
    weight.set_name(path);
    if (parameter->options.lr_mult != 1) weight.set_lr_mult(parameter->options.lr_mult);
    if (parameter->options.wd_mult != 1) weight.set_wd_mult(parameter->options.wd_mult);
  }
  trainer.key = std::move(updated.key);
  return session->pipeline().Submit(CommandOf(v1::Command::kDefineOptimizerFieldNumber, define), place);
}

double OfOptimizer(const Component& optimizer) {
  const Value* const given = Find(optimizer.attributes, "learning_rate");
  if (given == nullptr) return 0;
  if (const double* number = std::get_if<double>(&given->is)) return *number;
  double number = 0;
  if (const std::string* text = std::get_if<std::string>(&given->is)) (void)absl::SimpleAtod(*text, &number);
  return number;
}

}  // namespace

Trainer::Trainer(const ParameterDict& parameters, const Component& optimizer)
    : state_(std::make_shared<TrainerState>(parameters, optimizer)) {}

void Trainer::Step(double batch_size, bool ignore_stale_grad, Place place) {
  TrainerState& trainer = *state_;
  std::lock_guard<std::mutex> lock(trainer.mutex);
  absl::Status status = Define(trainer, place);
  if (status.ok()) {
    v1::Command::StepOptimizer step;
    step.set_optimizer(trainer.name);
    if (trainer.scheduler) trainer.learning_rate = trainer.scheduler(trainer.steps);
    if (trainer.learning_rate.has_value()) step.add_learning_rates(*trainer.learning_rate);
    step.set_rescale_grad(1 / batch_size);
    step.set_stale(ignore_stale_grad ? v1::Command::StepOptimizer::SKIPPED : v1::Command::StepOptimizer::REFUSED);
    status = trainer.session->pipeline().Submit(CommandOf(v1::Command::kStepOptimizerFieldNumber, step), place, /*hurries=*/true);
    ++trainer.steps;
  }
  if (status.ok()) return;
  const auto session = SessionCore::Current();
  if (session.ok()) (*session)->pipeline().Note(Located(status, place));
}

void Trainer::set_learning_rate(double learning_rate) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->learning_rate = learning_rate;
}

double Trainer::learning_rate() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->learning_rate.value_or(OfOptimizer(state_->optimizer));
}

void Trainer::set_lr_scheduler(std::function<double(int64_t step)> scheduler) {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->scheduler = std::move(scheduler);
}

int64_t Trainer::steps() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->steps;
}

const Component& Trainer::optimizer() const { return state_->optimizer; }

}  // namespace gluon
}  // namespace gluond::client
