#include "server/session_arrays.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/dtype.h"
#include "engine/core/status_macros.h"

namespace gluond::server {

absl::StatusOr<Array*> SessionArrays::Find(uint64_t name) {
  const auto it = arrays_.find(name);
  if (it != arrays_.end() && it->second) return &it->second;
  return absl::InvalidArgumentError(absl::StrCat("there is no array ", name, ": it was freed, or never made"));
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
                                                       const std::vector<uint32_t>& written, bool on_tape) {
  if (on_tape) {
    for (const uint64_t name : names) {
      ASSIGN_OR_RETURN(Array * array, Find(name));
      imperative_.PutOnTape(array);
    }
  }
  ASSIGN_OR_RETURN(std::vector<Array> arrays, Get(names));
  const auto leave = [this](uint64_t name) {
    const auto it = arrays_.find(name);
    if (it == arrays_.end()) return;
    it->second.value.reset();
    it->second.entry = {};
  };
  for (const uint64_t name : replaced) leave(name);
  for (const uint32_t i : written) if (i < arrays.size()) leave(names[static_cast<int>(i)]);
  return arrays;
}

SessionArrays::Kind SessionArrays::KindOf(uint64_t name) const {
  const auto it = arrays_.find(name);
  if (it == arrays_.end() || it->second.value == nullptr) return {};
  const Value& value = *it->second.value;
  if (!value.known() || value.failure() != nullptr) return {};
  return {true, value.tensor().shape(), value.tensor().dtype()};
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
    array = {imperative_.Failed(absl::ResourceExhaustedError(absl::StrCat(
                 "the session holds ", arrays_.size(), " arrays, the limit of --max_session_arrays; free some")),
                                command), {}, nullptr};
    if (arrays_.size() >= 2 * most_) return;  // A name for each mistake, but not for ever.
  }
  arrays_.emplace(name, std::move(array));
}

void SessionArrays::Replace(uint64_t name, const Kind& kind, Array array, uint64_t command) {
  if (kind.known) array.value = Checked(array.value, kind, command);
  Set(name, std::move(array), command);
}

ValuePtr SessionArrays::Checked(const ValuePtr& value, const Kind& kind, uint64_t command) {
  const auto check = [imperative = imperative_.shared_from_this(), kind, command](const ValuePtr& made) {
    if (made->failure() != nullptr) return made;
    const Tensor& tensor = made->tensor();
    if (tensor.shape() == kind.shape && tensor.dtype() == kind.dtype) return made;
    return imperative->Failed(
        absl::InvalidArgumentError(absl::StrCat("the array for the output is ", Name(kind.dtype), kind.shape.ToString(),
                                                ", expected ", Name(tensor.dtype()), tensor.shape().ToString(),
                                                " as the result is")),
        command);
  };
  if (value->known()) return check(value);
  auto checked = std::make_shared<Value>();
  value->Await([value, checked, check, imperative = imperative_.shared_from_this()] {
    const ValuePtr result = check(value);
    result->failure() != nullptr ? checked->Fail(result->failure(), imperative->queue())
                                 : checked->Set(result->tensor(), imperative->queue());
  });
  return checked;
}

}  // namespace gluond::server
