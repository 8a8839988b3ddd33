// NDArray is an array on the server. A copy of the object is the same array, as of a torch::Tensor; `Copy()` makes another one.
//
//   NDArray x = NDArray::Of<float>({2, 2}, {1, 2, 3, 4});
//   NDArray y = 2 * x + op::Exp(x);                                // Sent, not waited for.
//   absl::StatusOr<std::vector<float>> values = y.Values<float>();  // Waits.
//
// Only functions that wait return a Status or StatusOr. Another call that fails poisons its result, and all that is computed from it.
// The error comes with the value that is asked for, and names the line of the call that failed.

#ifndef GLUOND_NDARRAY_H_
#define GLUOND_NDARRAY_H_

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gluond/dtype.h"
#include "gluond/export.h"
#include "gluond/place.h"
#include "gluond/tensor.h"
#include "gluond/value.h"

namespace gluond::client {

class NDArray;
class SessionCore;
struct ArrayState;

// The way in which Backward stores a gradient.
enum class GradReq : int { kWrite = 0, kAdd = 1, kNull = 2 };

// Elements begin, begin + step, ... before end of one axis, as of Python's begin:end:step; an absent bound is the axis's own.
struct Range {
  std::optional<int64_t> begin = {};
  std::optional<int64_t> end = {};
  std::optional<int64_t> step = {};
};

// One place of an axis, which the result has not, or a range of it.
struct Index {
  Index(int64_t at) : at(at) {}         // NOLINT
  Index(int at) : at(at) {}             // NOLINT
  Index(Range range) : range(range) {}  // NOLINT

  std::optional<int64_t> at = {};
  Range range = {};
};

struct ArrayOptions {
  DType dtype = DType::kFloat32;
  std::string device = "";  // `cpu` or `gpu:0`. Default: the session's.
};

class GLUOND_EXPORT NDArray {
 public:
  // No array, as an optional argument that is left out.
  NDArray() = default;
  bool is_defined() const { return state_ != nullptr; }

  // The values are copied before this returns.
  explicit NDArray(const Tensor& values, const std::string& device = "", Place place = Place::Here());
  template <class T>
  static NDArray Of(Shape shape, const std::vector<T>& values, Place place = Place::Here()) {
    return FromMemory(DTypeOf<T>(), std::move(shape), values.data(), values.size() * sizeof(T), "", place);
  }
  static NDArray Of(Shape shape, const std::vector<bool>& values, Place place = Place::Here());
  // Row-major elements at `data`. Poisoned: `bytes` are not those of the shape.
  static NDArray FromMemory(DType dtype, Shape shape, const void* data, size_t bytes, const std::string& device = "",
                            Place place = Place::Here());

  static NDArray Zeros(const Shape& shape, const ArrayOptions& options = {}, Place place = Place::Here());
  static NDArray Ones(const Shape& shape, const ArrayOptions& options = {}, Place place = Place::Here());
  static NDArray Full(const Shape& shape, double value, const ArrayOptions& options = {}, Place place = Place::Here());
  // begin, begin + step, ... before end.
  static NDArray Arange(double begin, double end, double step = 1, const ArrayOptions& options = {}, Place place = Place::Here());
  // A poisoned array: whatever asks for its value gets the error.
  static NDArray Failed(absl::Status error, Place place = Place::Here());

  // These wait.
  absl::StatusOr<Tensor> ToTensor(Place place = Place::Here()) const;
  // The elements. INVALID_ARGUMENT: T is not the array's dtype.
  template <class T>
  absl::StatusOr<std::vector<T>> Values(Place place = Place::Here()) const {
    absl::StatusOr<Tensor> tensor = ToTensor(place);
    if (!tensor.ok()) return tensor.status();
    return tensor->Values<T>();
  }
  // The value of an array that has one element, of any dtype, as T.
  template <class T = float>
  absl::StatusOr<T> Item(Place place = Place::Here()) const {
    const absl::StatusOr<double> value = Number(place);
    if (!value.ok()) return value.status();
    return static_cast<T>(*value);
  }
  // Writes the elements to `data`, which has room for so many bytes.
  absl::Status CopyTo(void* data, size_t bytes, Place place = Place::Here()) const;
  absl::StatusOr<Shape> shape(Place place = Place::Here()) const;
  absl::StatusOr<DType> dtype(Place place = Place::Here()) const;
  absl::Status Wait(Place place = Place::Here()) const;
  // Why it was poisoned in this program, before a command was sent. OK: the server knows more.
  absl::Status local_error() const;

  // New arrays.
  NDArray Copy(Place place = Place::Here()) const;
  NDArray AsType(DType dtype, Place place = Place::Here()) const;
  NDArray To(const std::string& device, Place place = Place::Here()) const;
  NDArray Reshape(const Shape& shape, Place place = Place::Here()) const;  // With MXNet's -1, 0, -2, -3, -4.
  NDArray T(Place place = Place::Here()) const;
  NDArray Sum(Place place = Place::Here()) const;
  NDArray Mean(Place place = Place::Here()) const;
  NDArray At(std::initializer_list<Index> indices, Place place = Place::Here()) const;
  NDArray operator[](int64_t index) const { return At({Index(index)}, Place{}); }
  NDArray operator[](Range range) const { return At({Index(range)}, Place{}); }

  // Write this array's values, in its dtype. Poisons it while autograd records: a value that Backward needs would be lost.
  void Assign(const NDArray& values, Place place = Place::Here());
  void Assign(double value, Place place = Place::Here());
  void Set(std::initializer_list<Index> indices, const NDArray& values, Place place = Place::Here());
  void Set(std::initializer_list<Index> indices, double value, Place place = Place::Here());

  // Asks that Backward computes its gradient, and cuts it off its history.
  void AttachGrad(GradReq request = GradReq::kWrite, Place place = Place::Here());
  // The gradient; not defined before AttachGrad.
  NDArray grad() const;
  // The same value as a constant for Backward.
  NDArray Detach(Place place = Place::Here()) const;
  // The gradients of this array, times `head_gradient` (default: ones), by all that have one attached.
  void Backward(const NDArray& head_gradient = {}, bool retain_graph = false, bool train_mode = true,
                Place place = Place::Here()) const;

  // Whether the two are the same array.
  bool Is(const NDArray& other) const { return state_ == other.state_; }

  // For the library itself.
  explicit NDArray(std::shared_ptr<ArrayState> state) : state_(std::move(state)) {}
  const std::shared_ptr<ArrayState>& state() const { return state_; }

 private:
  absl::StatusOr<double> Number(Place place) const;

  std::shared_ptr<ArrayState> state_;
};

// An operand of arithmetic, with the line that it stands in.
struct GLUOND_EXPORT Operand {
  Operand(const NDArray& array, Place place = Place::Here()) : array(array), place(place) {}  // NOLINT
  Operand(double number, Place place = Place::Here()) : number(number), place(place) {}       // NOLINT
  Operand(int number, Place place = Place::Here()) : number(number), place(place) {}          // NOLINT

  NDArray array = {};
  double number = 0;
  Place place;
};

// Shapes broadcast as NumPy's do. Comparisons give ones and zeros of the first operand's dtype.
GLUOND_EXPORT NDArray operator+(const NDArray& a, const Operand& b);
GLUOND_EXPORT NDArray operator-(const NDArray& a, const Operand& b);
GLUOND_EXPORT NDArray operator*(const NDArray& a, const Operand& b);
GLUOND_EXPORT NDArray operator/(const NDArray& a, const Operand& b);
GLUOND_EXPORT NDArray operator==(const NDArray& a, const Operand& b);
GLUOND_EXPORT NDArray operator!=(const NDArray& a, const Operand& b);
GLUOND_EXPORT NDArray operator<(const NDArray& a, const Operand& b);
GLUOND_EXPORT NDArray operator<=(const NDArray& a, const Operand& b);
GLUOND_EXPORT NDArray operator>(const NDArray& a, const Operand& b);
GLUOND_EXPORT NDArray operator>=(const NDArray& a, const Operand& b);
GLUOND_EXPORT NDArray operator+(double a, const Operand& b);
GLUOND_EXPORT NDArray operator-(double a, const Operand& b);
GLUOND_EXPORT NDArray operator*(double a, const Operand& b);
GLUOND_EXPORT NDArray operator/(double a, const Operand& b);
GLUOND_EXPORT NDArray operator-(const NDArray& a);
// In place, as Assign.
GLUOND_EXPORT NDArray& operator+=(NDArray& a, const Operand& b);
GLUOND_EXPORT NDArray& operator-=(NDArray& a, const Operand& b);
GLUOND_EXPORT NDArray& operator*=(NDArray& a, const Operand& b);
GLUOND_EXPORT NDArray& operator/=(NDArray& a, const Operand& b);

// The operator's number of outputs is asked for, once for each kind of call.
inline constexpr int kAskOutputs = -1;

// Calls any operator that the server has, by its name. outputs: how many it has. `out`: the arrays that get the results, with their
// shapes and dtypes; without, the results are new arrays. Arrays that the operator writes (auxiliary states) have new values.
GLUOND_EXPORT std::vector<NDArray> Invoke(absl::string_view op, absl::Span<const NDArray> inputs, const Attributes& attributes = {},
                                          int outputs = kAskOutputs, Place place = Place::Here());
GLUOND_EXPORT NDArray Invoke1(absl::string_view op, absl::Span<const NDArray> inputs, const Attributes& attributes = {},
                              Place place = Place::Here());
GLUOND_EXPORT void InvokeInto(absl::string_view op, absl::Span<const NDArray> inputs, const Attributes& attributes,
                              absl::Span<const NDArray> out, Place place = Place::Here());
// A call without inputs, on a device.
GLUOND_EXPORT NDArray Create(absl::string_view op, const Attributes& attributes, const std::string& device = "",
                             Place place = Place::Here());

}  // namespace gluond::client

#endif  // GLUOND_NDARRAY_H_
