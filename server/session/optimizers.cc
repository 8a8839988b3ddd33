#include "server/session/optimizers.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "server/codec/components.h"
#include "server/session/gradients.h"

namespace gluond::server {
namespace {

// Bytes that an optimizer, a weight and a state take at least.
constexpr int64_t kOptimizerBytes = 512, kWeightBytes = 256, kStateBytes = 256;
// Weights whose update takes long to prepare.
constexpr size_t kManyWeights = 256;

// Whether updates draw random numbers: other steps leave the session's random state alone.
absl::StatusOr<bool> IsRandom(const Optimizer& optimizer) {
  ASSIGN_OR_RETURN(const ArrayUpdate update, ArrayUpdate::Make(optimizer, {{"w", {1, 1}, DType::kFloat32}}));
  bool is_random = false;
  for (const ArrayUpdate::ArrayCall& call : update.calls()) {
    PostOrderVisit(call.outputs, [&](const NodePtr& node) { is_random = is_random || node->facts().random; });
  }
  return is_random;
}

template <class Numbers>
absl::Status CheckCount(absl::string_view what, const Numbers& numbers, size_t weights, bool one_for_all) {
  const auto n = static_cast<size_t>(numbers.size());
  if (n == 0 || n == weights || (one_for_all && n == 1)) return absl::OkStatus();
  return Invalid("StepOptimizer.", what, " has ", n, " elements for ", weights, " arrays to update; give ",
                 one_for_all ? "one for all, " : "", "one for each, or none");
}

// The number for an array: that of all, its own, or `otherwise`.
template <class Numbers, class T>
T NumberOf(const Numbers& numbers, size_t i, T otherwise) {
  if (numbers.empty()) return otherwise;
  return static_cast<T>(numbers[numbers.size() == 1 ? 0 : static_cast<int>(i)]);
}

}  // namespace

absl::Status SessionOptimizers::Define(const v1::Command::DefineOptimizer& define) {
  if (define.optimizer() == 0) return Invalid("DefineOptimizer.optimizer is 0; name it by another number");
  Erase(define.optimizer());
  if (std::ssize(optimizers_) >= limits_.max_session_arrays) return TooManyOfSession("optimizers", optimizers_.size());
  Defined& defined = optimizers_[define.optimizer()];
  defined.definition = std::make_shared<Definition>();
  defined.status = Fill(define, defined.definition.get());
  const auto num_weights = static_cast<int64_t>(define.weights_size());
  const auto num_states = static_cast<int64_t>(defined.definition->states.size());
  const int64_t bytes =
      kOptimizerBytes + static_cast<int64_t>(define.ByteSizeLong()) + num_weights * (kWeightBytes + num_states * kStateBytes);
  if (defined.status.ok() && bytes_ + bytes > limits_.max_session_queue_bytes) {
    defined.status = OverLimit("--max_session_queue_bytes", "the session's optimizers take ", bytes_ + bytes,
                               " bytes, more than --max_session_queue_bytes=", limits_.max_session_queue_bytes, "; free some");
  }
  if (!defined.status.ok()) return defined.status;
  defined.bytes = bytes;
  bytes_ += bytes;
  return absl::OkStatus();
}

absl::Status SessionOptimizers::Fill(const v1::Command::DefineOptimizer& define, Definition* definition) {
  for (const v1::Command::DefineOptimizer::Weight& weight : define.weights()) {
    definition->weights.emplace_back();
    definition->weights.back().array = weight.array();
    definition->weights.back().name = weight.name();
  }
  ASSIGN_OR_RETURN(const Spec spec, SpecFromProto(define.definition(), Optimizers()));
  if (spec.type.empty()) return Invalid("DefineOptimizer.definition needs a name, as \"sgd\"");
  ASSIGN_OR_RETURN(definition->optimizer, Optimizers().Make(spec.type, spec.attrs));
  for (const OptimizerState& state : definition->optimizer->states()) definition->states.emplace_back(state.name);
  if (definition->optimizer->param().multi_precision) definition->states.emplace_back(kWeight32);
  ASSIGN_OR_RETURN(definition->is_random, IsRandom(*definition->optimizer));
  absl::flat_hash_set<uint64_t> named;
  const auto add = [&](uint64_t array) -> absl::Status {
    if (array == 0) return Invalid("an array of DefineOptimizer is 0; name it by another number");
    if (named.insert(array).second) return absl::OkStatus();
    return Invalid("DefineOptimizer names array ", array, " twice; a step writes each of its arrays once");
  };
  for (int i = 0; i < define.weights_size(); ++i) {
    const v1::Command::DefineOptimizer::Weight& weight = define.weights(i);
    Definition::Weight& to = definition->weights[static_cast<size_t>(i)];
    RETURN_IF_ERROR(add(weight.array()));
    if (weight.has_lr_mult()) to.lr_mult = weight.lr_mult();
    if (weight.has_wd_mult()) to.wd_mult = weight.wd_mult();
    to.states.resize(definition->states.size());
    to.own.resize(definition->states.size());
    for (const auto& [name, array] : weight.states()) {
      const auto found = std::find(definition->states.begin(), definition->states.end(), name);
      if (found == definition->states.end()) {
        return Invalid("state '", Excerpt(name), "' of ", definition->NameOf(static_cast<uint32_t>(i)), " is none of ", spec.type,
                       definition->states.empty() ? ", which has none" : "'s: ", absl::StrJoin(definition->states, ", "));
      }
      RETURN_IF_ERROR(add(array));
      to.states[static_cast<size_t>(found - definition->states.begin())] = array;
    }
  }
  return absl::OkStatus();
}

absl::Status SessionOptimizers::Step(const v1::Command::StepOptimizer& step, uint64_t command) {
  const auto it = optimizers_.find(step.optimizer());
  if (it == optimizers_.end()) return Invalid("there is no optimizer ", step.optimizer(), ": it was freed, or never defined");
  const std::shared_ptr<Definition> definition = it->second.definition;
  const auto fail = [&](const absl::Status& status) { return Poison(*definition, status, command) ? absl::OkStatus() : status; };
  if (!it->second.status.ok()) return fail(it->second.status);
  const absl::StatusOr<std::vector<uint32_t>> places = PlacesOf(*definition, step);
  if (!places.ok()) return fail(places.status());
  if (step.when_fresh() != 0) {
    ASSIGN_OR_RETURN(const Array* const array, arrays_.Find(step.when_fresh()));
    if (array->mark == nullptr || !array->mark->fresh) return absl::OkStatus();
  }
  if (step.stale() == v1::Command::StepOptimizer::REFUSED) RETURN_IF_ERROR(CheckFresh(*definition, *places));
  const absl::Status found = Find(*definition, *places, step);
  if (found.ok()) {
    if (step.stale() != v1::Command::StepOptimizer::USED) ClearFresh(*definition, *places);
    if (!stepped_.empty()) Run(definition, step.has_rescale_grad() ? step.rescale_grad() : 1, command);
  }
  stepped_.clear();
  return found.ok() ? found : fail(found);
}

absl::StatusOr<std::vector<uint32_t>> SessionOptimizers::PlacesOf(const Definition& definition,
                                                                  const v1::Command::StepOptimizer& step) {
  std::vector<uint32_t> places(step.weights().begin(), step.weights().end());
  const size_t n = definition.weights.size();
  if (places.empty()) {
    for (uint32_t i = 0; i < n; ++i) places.push_back(i);
  } else if (places.back() >= n || !std::is_sorted(places.begin(), places.end(), std::less_equal<>())) {
    return Invalid("StepOptimizer.weights are ",
                   absl::StrJoin(places.begin(), places.begin() + std::min<size_t>(places.size(), 16), ", "),
                   places.size() > 16 ? ", ..." : "", "; give places below ", n, " in rising order, each once");
  }
  RETURN_IF_ERROR(CheckCount("learning_rates", step.learning_rates(), places.size(), /*one_for_all=*/true));
  RETURN_IF_ERROR(CheckCount("updates", step.updates(), places.size(), /*one_for_all=*/true));
  RETURN_IF_ERROR(CheckCount("gradients", step.gradients(), places.size(), /*one_for_all=*/false));
  if (!v1::Command::StepOptimizer::Stale_IsValid(step.stale())) return Invalid("StepOptimizer.stale has no value ", step.stale());
  if (std::any_of(step.updates().begin(), step.updates().end(), [](uint64_t t) { return t == 0 || t > INT64_MAX; })) {
    return Invalid("StepOptimizer.updates has a number that is none; updates are counted from 1 on");
  }
  return places;
}

absl::Status SessionOptimizers::CheckFresh(const Definition& definition, const std::vector<uint32_t>& places) {
  std::vector<uint64_t> stale;
  for (const uint32_t place : places) {
    ASSIGN_OR_RETURN(const Array* array, arrays_.Find(definition.weights[place].array));
    if (array->mark == nullptr || !array->mark->fresh) stale.push_back(definition.weights[place].array);
  }
  if (stale.empty()) return absl::OkStatus();
  ClearFresh(definition, places);
  return StaleGradients(stale);
}

void SessionOptimizers::ClearFresh(const Definition& definition, const std::vector<uint32_t>& places) {
  for (const uint32_t place : places) {
    const Array* const array = arrays_.FindOrNull(definition.weights[place].array);
    if (array != nullptr && array->mark != nullptr) array->mark->fresh = false;
  }
}

absl::Status SessionOptimizers::Find(Definition& definition, const std::vector<uint32_t>& places,
                                     const v1::Command::StepOptimizer& step) {
  const OptimizerParam& param = definition.optimizer->param();
  stepped_.reserve(places.size());
  for (size_t i = 0; i < places.size(); ++i) {
    Definition::Weight& weight = definition.weights[places[i]];
    ASSIGN_OR_RETURN(Array* const array, arrays_.Find(weight.array));
    const Mark* const mark = array->mark.get();
    if (step.stale() == v1::Command::StepOptimizer::SKIPPED && (mark == nullptr || !mark->fresh)) continue;
    if (step.gradients().empty() && mark == nullptr) {
      return Invalid(definition.NameOf(places[i]), " has no gradient; ask for one with Mark, or give StepOptimizer.gradients");
    }
    ASSIGN_OR_RETURN(const Array* const gradient,
                     arrays_.Find(step.gradients().empty() ? mark->gradient : step.gradients(static_cast<int>(i))));
    const double rate = NumberOf(step.learning_rates(), i, param.learning_rate);
    SteppedWeight& stepped = stepped_.emplace_back();
    stepped.place = places[i];
    stepped.rates = {.t = NumberOf(step.updates(), i, weight.updates + 1),
                     .learning_rate = rate,
                     .lr = rate * weight.lr_mult,
                     .wd = param.wd * weight.wd_mult};
    stepped.array = array;
    stepped.gradient = gradient->value;
    for (size_t s = 0; s < weight.states.size(); ++s) {
      Array* const state = weight.states[s] == 0 ? nullptr : arrays_.FindOrNull(weight.states[s]);
      stepped.states.push_back(state != nullptr ? &state->value : weight.states[s] == 0 ? &weight.own[s] : nullptr);
    }
  }
  return absl::OkStatus();
}

void SessionOptimizers::Run(const std::shared_ptr<Definition>& definition, double rescale, uint64_t command) {
  for (const SteppedWeight& stepped : stepped_) {
    definition->weights[stepped.place].updates = stepped.rates.t;
    stepped.array->entry = {};
  }
  absl::Status status;
  if (StepInPlace(*definition, stepped_, rescale, imperative_.scheduler(), &status)) {
    if (!status.ok()) Poison(*definition, status, command);
    return;
  }
  const uint32_t draw = definition->is_random ? imperative_.TakeDraw() : 0;
  const auto step = std::make_shared<OptimizerStep>(definition, rescale, draw, command);
  // The step is to be the only holder of what it overwrites.
  for (SteppedWeight& stepped : stepped_) {
    OptimizerStep::Weight& weight = step->weights().emplace_back();
    weight.place = stepped.place;
    weight.rates = stepped.rates;
    weight.weight = std::move(stepped.array->value);
    weight.gradient = std::move(stepped.gradient);
    for (ValuePtr* state : stepped.states) weight.states.push_back(state == nullptr ? nullptr : std::move(*state));
    weight.new_states.resize(stepped.states.size());
  }
  step->Run(imperative_, pay_, alive_);
  const auto set = [this](ValuePtr* to, const ValuePtr& value) {
    *to = value;
    answers_.Watch(value);
  };
  for (size_t i = 0; i < stepped_.size(); ++i) {
    set(&stepped_[i].array->value, step->weights()[i].new_weight);
    for (size_t s = 0; s < stepped_[i].states.size(); ++s) {
      const ValuePtr& state = step->weights()[i].new_states[s];
      if (stepped_[i].states[s] != nullptr && state != nullptr) set(stepped_[i].states[s], state);
    }
  }
  // New names come last: the arrays move.
  for (size_t i = 0; i < stepped_.size(); ++i) {
    for (size_t s = 0; s < stepped_[i].states.size(); ++s) {
      const ValuePtr& state = step->weights()[i].new_states[s];
      if (stepped_[i].states[s] != nullptr || state == nullptr) continue;
      answers_.Watch(state);
      arrays_.Set(definition->weights[stepped_[i].place].states[s], {state, {}, nullptr}, command);
    }
  }
}

bool SessionOptimizers::Poison(const Definition& definition, const absl::Status& status, uint64_t command) {
  ValuePtr failed;
  for (const Definition::Weight& weight : definition.weights) {
    if (arrays_.FindOrNull(weight.array) == nullptr) continue;
    if (failed == nullptr) failed = imperative_.scheduler().Failed(status, command);
    arrays_.Set(weight.array, {failed, {}, nullptr}, command);
  }
  return failed != nullptr;
}

void SessionOptimizers::Free(const v1::Command::Free& free) {
  for (const uint64_t name : free.optimizers()) Erase(name);
}

void SessionOptimizers::Erase(uint64_t name) {
  if (const auto node = optimizers_.extract(name); !node.empty()) bytes_ -= node.mapped().bytes;
}

bool SessionOptimizers::IsLong(uint64_t optimizer) const {
  const auto it = optimizers_.find(optimizer);
  return it != optimizers_.end() && it->second.definition->plan == nullptr && it->second.definition->weights.size() > kManyWeights;
}

}  // namespace gluond::server
