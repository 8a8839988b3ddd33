#include "server/session/gradients.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/custom_spec.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/imperative/backward_walk.h"

namespace gluond::server {
namespace {

// A client that stops backward passes and never goes on with them keeps their values.
constexpr size_t kMostStopped = 64;

uint64_t FunctionOf(const Node& node) {
  const absl::StatusOr<CustomSpec> spec = CustomSpec::Of(node.attrs.dict);
  return spec.ok() && spec->function.has_value() ? spec->function->number : 0;
}

}  // namespace

absl::Status StaleGradients(const std::vector<uint64_t>& arrays) {
  constexpr size_t kMostNamed = 16;
  const auto end = arrays.begin() + static_cast<std::ptrdiff_t>(std::min(arrays.size(), kMostNamed));
  const std::string others = absl::StrJoin(arrays.begin() + 1, end, ", ");
  return WithInfo(FailedPrecondition("the gradient of array ", arrays[0], others.empty() ? "" : " and of ", others,
                                     " has not been updated by backward since the last step"),
                  reason::kStaleGradient, {{"arrays", absl::StrJoin(arrays.begin(), end, ",")}});
}

struct SessionGradients::Ongoing {
  Imperative::BackwardWalk walk;
  const std::vector<uint64_t> outputs;
  const uint64_t command;
};

SessionGradients::SessionGradients(Imperative& imperative, SessionArrays& arrays, SessionAnswers& answers)
    : imperative_(imperative), arrays_(arrays), answers_(answers) {}

SessionGradients::~SessionGradients() = default;

absl::Status SessionGradients::Mark(const v1::Command::Mark& mark, uint64_t command) {
  for (const v1::Command::Mark::Marked& marked : mark.arrays()) {
    if (!v1::Variable::GradReq_IsValid(marked.request())) {
      return Invalid("there is no request ", static_cast<int>(marked.request()));
    }
    ASSIGN_OR_RETURN(Array * array, arrays_.Find(marked.variable()));
    array->entry = {};
    array->mark = nullptr;
    if (marked.request() == v1::Variable::NULL_) continue;
    const uint64_t gradient = marked.gradient();
    if (gradient == 0) {
      return Invalid("the gradient of array ", marked.variable(), " has no name");
    }
    array->mark = std::make_shared<gluond::Mark>();
    array->mark->gradient = gradient;
    array->mark->request = marked.request() == v1::Variable::ADD ? gluond::Mark::kAdd : gluond::Mark::kWrite;
    if (arrays_.Contains(gradient)) continue;
    if (zeros_like_ == nullptr) {
      ASSIGN_OR_RETURN(zeros_like_, PrepareOp("zeros_like", {}, 1));
    }
    Array zeros = imperative_.Invoke(zeros_like_, {{array->value, {}, nullptr}}, {.command = command}).outputs[0];
    answers_.Watch(zeros.value);
    arrays_.Set(gradient, std::move(zeros), command);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::Freshness> SessionGradients::Fresh(const v1::Command::Fresh& fresh) {
  v1::Freshness told;
  std::vector<uint64_t> stale;
  for (const uint64_t name : fresh.variables()) {
    ASSIGN_OR_RETURN(const Array* array, arrays_.Find(name));
    const bool is_fresh = array->mark != nullptr && array->mark->fresh;
    told.add_fresh(is_fresh);
    if (!is_fresh) stale.push_back(name);
    if (fresh.clear() && array->mark != nullptr) array->mark->fresh = false;
  }
  if (!fresh.require() || stale.empty()) return told;
  for (const uint64_t name : fresh.variables()) {
    ASSIGN_OR_RETURN(const Array* array, arrays_.Find(name));
    if (array->mark != nullptr) array->mark->fresh = false;
  }
  return StaleGradients(stale);
}

absl::StatusOr<v1::BackwardState> SessionGradients::Backward(const v1::Command::Backward& backward, uint64_t command) {
  ASSIGN_OR_RETURN(OngoingPtr ongoing, Differentiate(backward, command));
  return Run(std::move(ongoing), backward.out_grads(), command);
}

absl::StatusOr<v1::BackwardState> SessionGradients::Continue(const v1::Command::ContinueBackward& go_on, uint64_t command) {
  const auto it = stopped_.find(go_on.backward());
  if (it == stopped_.end()) {
    return FailedPrecondition("no Backward of the number ", go_on.backward(),
                              " waits for gradients; it has ended, or it has failed");
  }
  OngoingPtr ongoing = std::move(it->second);
  stopped_.erase(it);
  if (go_on.gradients().empty()) return v1::BackwardState();
  ASSIGN_OR_RETURN(std::vector<Array> gradients, arrays_.Get(go_on.gradients()));
  RETURN_IF_ERROR(ongoing->walk.Continue(std::move(gradients)));
  return Run(std::move(ongoing), go_on.out_grads(), command);
}

absl::StatusOr<v1::BackwardState> SessionGradients::Run(OngoingPtr ongoing, const Names& out_grads, uint64_t command) {
  v1::BackwardState state;
  ASSIGN_OR_RETURN(const Node* stopped, ongoing->walk.Run());
  if (stopped == nullptr) {
    RETURN_IF_ERROR(End(*ongoing, command));
    return state;
  }
  const uint64_t function = FunctionOf(*stopped);
  if (function == 0) {
    return absl::InvalidArgumentError("a _CustomFunction was recorded without the attribute 'function', a number from 1 on");
  }
  // The inputs of the node are the function's inputs and the gradients of its results.
  const std::vector<Array>& inputs = ongoing->walk.inputs();
  const size_t begin = stopped->num_outputs(), n = inputs.size() - begin;
  if (static_cast<size_t>(out_grads.size()) < n) {
    return Invalid("function ", function, " has ", n, " results, and out_grads names ", out_grads.size(),
                   "; name as many as any function has");
  }
  if (stopped_.size() >= kMostStopped) {
    return absl::ResourceExhaustedError(
        absl::StrCat(kMostStopped, " Backwards of this session wait for gradients; go on with one of them, or give it up"));
  }
  for (size_t i = 0; i < n; ++i) {
    Array gradient = inputs[begin + i];
    answers_.Watch(gradient.value);
    arrays_.Set(out_grads[static_cast<int>(i)], std::move(gradient), command);
  }
  state.set_function(function);
  stopped_[ongoing->command] = std::move(ongoing);
  return state;
}

absl::StatusOr<SessionGradients::OngoingPtr> SessionGradients::Differentiate(const v1::Command::Backward& backward,
                                                                             uint64_t command) {
  if (backward.outputs_size() != backward.variables_size()) {
    return Invalid("Backward has ", backward.variables_size(), " variables and ", backward.outputs_size(),
                   " outputs; name one for each");
  }
  if (backward.head_gradients_size() > backward.heads_size()) {
    return Invalid("Backward has ", backward.heads_size(), " heads and ", backward.head_gradients_size(), " head gradients");
  }
  if (backward.out_grads_size() > 0 && !backward.create_graph()) {
    return absl::InvalidArgumentError("Backward has out_grads and not create_graph; leave them out, or set it");
  }
  ASSIGN_OR_RETURN(const std::vector<Array> heads, arrays_.Get(backward.heads()));
  ASSIGN_OR_RETURN(const std::vector<Array> variables, arrays_.Take(backward.variables(), {}, {}, /*recording=*/true));
  std::vector<Array> head_gradients;
  for (const uint64_t name : backward.head_gradients()) {
    head_gradients.emplace_back();
    if (name == 0) continue;
    ASSIGN_OR_RETURN(const Array* array, arrays_.Find(name));
    head_gradients.back() = *array;
  }
  Imperative::BackwardOptions options;
  options.retain_graph = backward.retain_graph();
  options.create_graph = backward.create_graph();
  options.training = backward.training();
  options.skip_constants = backward.skip_constants();
  if (backward.out_grads_size() > 0) options.stop_at = "_backward_CustomFunction";
  options.find_state = [this](uint64_t name) -> Array* {
    const absl::StatusOr<Array*> array = arrays_.Find(name);
    return array.ok() ? *array : nullptr;
  };
  options.command = command;
  auto found = std::make_unique<Ongoing>(Imperative::BackwardWalk(imperative_, options),
                                         std::vector<uint64_t>(backward.outputs().begin(), backward.outputs().end()), command);
  RETURN_IF_ERROR(found->walk.Begin(heads, head_gradients, variables));
  return found;
}

// Gives the gradients their names.
absl::Status SessionGradients::End(Ongoing& ongoing, uint64_t command) {
  ASSIGN_OR_RETURN(std::vector<Imperative::Gradient> gradients, ongoing.walk.Take());
  absl::Status status;
  for (size_t i = 0; i < gradients.size(); ++i) {
    auto& [mark, gradient] = gradients[i];
    answers_.Watch(gradient.value);
    if (mark == nullptr) {
      arrays_.Set(ongoing.outputs[i], std::move(gradient), command);
    } else {
      status.Update(Accumulate(*mark, std::move(gradient), command));
    }
  }
  return status;
}

absl::Status SessionGradients::Accumulate(gluond::Mark& mark, Array gradient, uint64_t command) {
  if (!arrays_.Contains(mark.gradient)) return absl::OkStatus();  // Nobody wants it any more.
  mark.fresh = true;
  if (mark.request == gluond::Mark::kAdd) {
    ASSIGN_OR_RETURN(Array * sum, arrays_.Find(mark.gradient));
    if (add_ == nullptr) {
      ASSIGN_OR_RETURN(add_, PrepareOp("elemwise_add", {}, 2));
    }
    std::vector<Array> terms(2);
    terms[0].value = std::exchange(sum->value, nullptr);
    terms[1].value = std::move(gradient.value);
    gradient = imperative_.Invoke(add_, std::move(terms), {.command = command}).outputs[0];
    answers_.Watch(gradient.value);
  }
  arrays_.Set(mark.gradient, std::move(gradient), command);
  return absl::OkStatus();
}

}  // namespace gluond::server
