// Calls of operators by the functions of gluond/op.h.

#ifndef GLUOND_CLIENT_CPP_OP_CALL_H_
#define GLUOND_CLIENT_CPP_OP_CALL_H_

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "gluond/ndarray.h"
#include "gluond/op_types.h"
#include "gluond/place.h"
#include "gluond/symbol.h"
#include "gluond/value.h"

namespace gluond::client::op {

template <class X>
Outputs<X>::operator X() const {
  if (this->size() == 1) return this->front();
  return X::Failed(
      absl::InvalidArgumentError(absl::StrCat("the call has ", this->size(), " outputs; take one of them by its index")));
}

// Inputs that are left out are not defined.
template <class X>
std::vector<X> Given(std::initializer_list<const X*> inputs) {
  std::vector<X> given;
  for (const X* input : inputs) {
    if (input->is_defined()) given.push_back(*input);
  }
  return given;
}

// The number of outputs that an attribute holds; where it is missing or no such number, the server says so.
inline int CountOf(int64_t count) { return count > 0 && count <= std::numeric_limits<int>::max() ? static_cast<int>(count) : 1; }
inline int CountOf(const Required<int64_t>& count) { return count.has_value() ? CountOf(count.value()) : 1; }

template <class X>
std::vector<X> Several(const char* op, absl::Span<const X> inputs, const Attributes& attributes, int outputs, Place place) {
  return Invoke(op, inputs, attributes, outputs, place);
}
template <class X>
std::vector<X> Several(const char* op, std::initializer_list<const X*> inputs, const Attributes& attributes, int outputs,
                       Place place) {
  return Invoke(op, Given(inputs), attributes, outputs, place);
}

template <class X>
X One(const char* op, absl::Span<const X> inputs, const Attributes& attributes, Place place) {
  return Several<X>(op, inputs, attributes, 1, place)[0];
}
template <class X>
X One(const char* op, std::initializer_list<const X*> inputs, const Attributes& attributes, Place place) {
  return Several<X>(op, inputs, attributes, 1, place)[0];
}

// A call without inputs. A symbol's device is its graph's.
template <class X>
X Made(const char* op, const Attributes& attributes, const std::string& device, Place place) {
  if constexpr (std::is_same_v<X, NDArray>) {
    return Create(op, attributes, device, place);
  } else {
    return One<X>(op, absl::Span<const X>(), attributes, place);
  }
}

}  // namespace gluond::client::op

#endif  // GLUOND_CLIENT_CPP_OP_CALL_H_
