#include "server/session/arrays.h"

#include <utility>

#include "engine/core/dtype.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"

namespace gluond::server {

absl::Status TooManyOfSession(absl::string_view what, size_t count) {
  return OverLimit("--max_session_arrays", "the session holds ", count, " ", what,
                   ", the limit of --max_session_arrays; free some");
}

absl::StatusOr<Array*> SessionArrays::Find(uint64_t name) {
  if (Array* const found = FindOrNull(name)) return found;
  return Invalid("there is no array ", name, ": it was freed, or never made");
}

Array* SessionArrays::FindOrNull(uint64_t name) {
  const auto it = arrays_.find(name);
  return it != arrays_.end() && it->second ? &it->second : nullptr;
}

absl::StatusOr<std::vector<Array>> SessionArrays::Get(const Names& names) {
  std::vector<Array> arrays;
  arrays.reserve(static_cast<size_t>(names.size()));
  for (const uint64_t name : names) {
    ASSIGN_OR_RETURN(const Array* array, Find(name));
    arrays.push_back(*array);
  }
  return arrays;
}

absl::StatusOr<std::vector<Array>> SessionArrays::Take(const Names& names, const Names& replaced,
                                                       const std::vector<uint32_t>& written, bool recording) {
  std::vector<Array> arrays;
  arrays.reserve(static_cast<size_t>(names.size()));
  taken_.clear();
  for (const uint64_t name : names) {
    Array* const array = FindOrNull(name);
    if (array == nullptr) return Find(name).status();
    taken_.push_back(array);
    if (recording) imperative_.tape().Put(array);
    Array& taken = arrays.emplace_back();
    taken.value = array->value;
    if (!recording) continue;
    taken.entry = array->entry;
    taken.mark = array->mark;
  }
  const auto leave = [](Array* array) {
    array->value.reset();
    array->entry = {};
  };
  for (const uint64_t name : replaced) {
    if (Array* const array = FindOrNull(name)) leave(array);
  }
  for (const uint32_t i : written) {
    if (i >= arrays.size()) continue;
    arrays[i].state = names[static_cast<int>(i)];
    leave(taken_[i]);
  }
  return arrays;
}

SessionArrays::Before SessionArrays::BeforeCall(uint64_t name) const {
  const auto it = arrays_.find(name);
  if (it == arrays_.end() || it->second.value == nullptr) return {};
  const ValuePtr& value = it->second.value;
  const auto kind_of = [](const Value& known) {
    return known.failure() != nullptr ? Kind() : Kind{known.tensor().shape(), known.tensor().dtype()};
  };
  if (value->known()) return {.is_new = false, .kind = kind_of(*value)};
  const auto later = std::make_shared<Kind>();
  value->Await([value, later, kind_of] { *later = kind_of(*value); });
  return {.is_new = false, .unknown = value, .later = later};
}

void SessionArrays::Set(uint64_t name, Array array, uint64_t command) {
  if (name == 0) return;
  const auto it = arrays_.find(name);
  if (it != arrays_.end()) {
    array.mark = it->second.mark;
    if (array.mark != nullptr) array.entry = {};
    it->second = std::move(array);
    return;
  }
  array.mark = nullptr;
  if (arrays_.size() >= most_) {
    if (arrays_.size() >= 2 * most_) return;  // Mistakes take names, too, but not for ever.
    array = {imperative_.scheduler().Failed(TooManyOfSession("arrays", arrays_.size()), command), {}, nullptr};
  }
  arrays_.emplace(name, std::move(array));
}

namespace {

// The value, if it is of `kind`. Requires: both are known.
ValuePtr Checked(const ValuePtr& value, const SessionArrays::Kind& kind, Scheduler& scheduler, uint64_t command) {
  if (value->failure() != nullptr || !kind.shape.rank_known()) return value;
  const Tensor& tensor = value->tensor();
  if (tensor.shape() == kind.shape && tensor.dtype() == kind.dtype) return value;
  return scheduler.Failed(Invalid("the array for the output is ", Name(kind.dtype), kind.shape.ToString(), ", expected ",
                                  Name(tensor.dtype()), tensor.shape().ToString(), " as the result is"),
                          command);
}

// The same when both are known.
void CheckLater(ValuePtr value, const SessionArrays::Before& before, ValuePtr checked, std::shared_ptr<Scheduler> scheduler,
                uint64_t command) {
  const ValuePtr earlier = before.unknown.lock();
  if (const ValuePtr& unknown = value->known() ? earlier : value; unknown != nullptr && !unknown->known()) {
    return unknown->Await([=] { CheckLater(value, before, checked, scheduler, command); });
  }
  const ValuePtr result = Checked(value, before.later != nullptr ? *before.later : before.kind, *scheduler, command);
  if (result->failure() != nullptr) {
    Value::Fail(checked, result->failure(), scheduler->queue());
  } else {
    Value::Set(checked, result->tensor(), scheduler->queue());
  }
}

}  // namespace

void SessionArrays::Replace(uint64_t name, const Before& before, Array array, uint64_t command) {
  if (!before.is_new && before.later == nullptr && array.value->known()) {
    array.value = Checked(array.value, before.kind, imperative_.scheduler(), command);
  } else if (!before.is_new) {
    auto checked = std::make_shared<Value>();
    CheckLater(std::move(array.value), before, checked, imperative_.scheduler().shared_from_this(), command);
    array.value = std::move(checked);
  }
  Set(name, std::move(array), command);
}

}  // namespace gluond::server
