// Types of the attributes of operators (gluond/op.h).
//
//   op::Convolution(x, weight, bias, {.kernel = {3, 3}, .num_filter = 8});
//
// Tuple holds numbers of each axis; a single number makes a tuple of one. Required says that an attribute has no default: the
// result of a call without it is an error.

#ifndef GLUOND_OP_TYPES_H_
#define GLUOND_OP_TYPES_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "gluond/export.h"

namespace gluond::client::op {

// Numbers, or none: an absent tuple is MXNet's None where that is allowed, else the attribute was not given.
template <class T>
class Tuple {
 public:
  Tuple() = default;
  Tuple(std::nullopt_t) {}
  Tuple(T value) : is_set_(true), values_{std::move(value)} {}
  Tuple(std::initializer_list<T> values) : is_set_(true), values_(values) {}
  Tuple(std::vector<T> values) : is_set_(true), values_(std::move(values)) {}

  bool has_value() const { return is_set_; }
  const std::vector<T>& values() const { return values_; }

  friend bool operator==(const Tuple& a, const Tuple& b) { return a.is_set_ == b.is_set_ && a.values_ == b.values_; }
  friend bool operator!=(const Tuple& a, const Tuple& b) { return !(a == b); }

 private:
  bool is_set_ = false;
  std::vector<T> values_;
};

using Ints = Tuple<int64_t>;
using Floats = Tuple<double>;
// Indices of which each may be absent, as in Python's x[1:None]: {1, std::nullopt}.
using Bounds = Tuple<std::optional<int64_t>>;

// A value that has to be given. It begins as not given.
template <class T>
class Required {
 public:
  Required() = default;
  template <class U, std::enable_if_t<std::is_convertible_v<U&&, T>, int> = 0>
  Required(U&& value) : value_(std::in_place, std::forward<U>(value)) {}

  bool has_value() const { return value_.has_value(); }
  // Requires: has_value().
  const T& value() const { return *value_; }

 private:
  std::optional<T> value_;
};

// Outputs of a call whose attributes say how many there are. The only output may be taken as it is: NDArray y = op::BatchNorm(...).
template <class X>
class GLUOND_EXPORT Outputs : public std::vector<X> {
 public:
  Outputs(std::vector<X> outputs) : std::vector<X>(std::move(outputs)) {}

  // An error as a value, where there are several.
  operator X() const;
};

}  // namespace gluond::client::op

#endif  // GLUOND_OP_TYPES_H_
