#include "server/codec/tensor_fill.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "engine/core/convert.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/fair_semaphore.h"
#include "engine/runtime/random_stream.h"
#include "engine/runtime/tuning.h"

namespace gluond::server {
namespace {

// Whether every value in [low, high] fits T once its fraction is cut off.
template <class T>
bool Fits(double low, double high) {
  if (!std::isfinite(low) || !std::isfinite(high)) return false;
  if constexpr (std::is_integral_v<T>) {
    // 2^63 - 1 is not a double; the next double above it is out of range.
    const double top = std::ldexp(1.0, std::numeric_limits<T>::digits);
    return low > static_cast<double>(std::numeric_limits<T>::min()) - 1 && high < top;
  }
  return true;
}

template <class T, class Value>
absl::Status Generate(const Tensor& tensor, double low, double high, Value value) {
  const int64_t n = tensor.Size();
  if (n > 0 && !Fits<T>(low, high)) {
    return Invalid("fill: values from ", low, " to ", high, " do not fit ", Name(tensor.dtype()),
                   "; choose another range or dtype");
  }
  T* out = tensor.data<T>();
  FairSemaphore::OfLongWork().DoInPieces(n, tuning::kLongWorkPiece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const double v = value(i);
      out[i] = std::is_same_v<T, bool> ? T(v >= 1) : Convert<T>(v);
    }
  });
  return absl::OkStatus();
}

// Uniform words of a Philox stream, four at a time.
class Words {
 public:
  explicit Words(uint64_t seed) : philox_(RandomStream(seed, RandomDomain::kTensor, 0)) {}
  float Uniform() {
    if (next_ % 4 == 0) block_ = philox_(next_ / 4);
    return Philox::ToUniform(block_.word[next_++ % 4]);
  }

 private:
  const Philox philox_;
  Philox::Block block_ = {};
  uint64_t next_ = 0;
};

absl::Status FillUniform(const v1::Fill::Uniform& uniform, const Tensor& tensor) {
  const double low = uniform.low();
  const double high = uniform.has_high() ? uniform.high() : 1;
  if (!(low < high)) return Invalid("fill: uniform wants low < high, got ", low, " and ", high);
  Words words(uniform.seed());
  return DispatchType(tensor.dtype(), [&](auto t) {
    return Generate<decltype(t)>(tensor, low, high, [&](int64_t) { return low + (high - low) * words.Uniform(); });
  });
}

absl::Status FillNormal(const v1::Fill::Normal& normal, const Tensor& tensor) {
  const double sigma = normal.has_sigma() ? normal.sigma() : 1;
  if (!(sigma >= 0)) return Invalid("fill: normal wants sigma of 0 or more, got ", sigma);
  Words words(normal.seed());
  // Box and Muller's transformation; 24 random bits reach no further than 6 deviations.
  const auto value = [&](int64_t) {
    const double u = 1 - words.Uniform();
    return normal.mean() + sigma * std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * words.Uniform());
  };
  return DispatchType(tensor.dtype(), [&](auto t) {
    return Generate<decltype(t)>(tensor, normal.mean() - 6 * sigma, normal.mean() + 6 * sigma, value);
  });
}

absl::Status FillArange(const v1::Fill::Arange& arange, const Tensor& tensor) {
  const double step = arange.has_step() ? arange.step() : 1;
  const double last = arange.start() + step * static_cast<double>(std::max<int64_t>(tensor.Size() - 1, 0));
  const bool rises = arange.start() <= last;  // Where `last` is no number, one end of the range is none.
  return DispatchType(tensor.dtype(), [&](auto t) {
    return Generate<decltype(t)>(tensor, rises ? arange.start() : last, rises ? last : arange.start(),
                                 [&](int64_t i) { return arange.start() + step * static_cast<double>(i); });
  });
}

}  // namespace

absl::Status FillTensor(const v1::Fill& fill, const Tensor& tensor) {
  switch (fill.values_case()) {
    case v1::Fill::kUniform: return FillUniform(fill.uniform(), tensor);
    case v1::Fill::kNormal: return FillNormal(fill.normal(), tensor);
    case v1::Fill::kArange: return FillArange(fill.arange(), tensor);
    case v1::Fill::kConstant:
    case v1::Fill::VALUES_NOT_SET: break;
  }
  const double constant = fill.constant();
  return DispatchType(tensor.dtype(), [&](auto t) {
    using T = decltype(t);
    if (std::is_integral_v<T> && constant != std::floor(constant)) {
      return Invalid("fill: ", Name(tensor.dtype()), " cannot hold the constant ", constant);
    }
    if (!std::is_integral_v<T> && !std::isfinite(constant)) {  // A NaN or an infinity that is asked for.
      T* out = tensor.data<T>();
      std::fill_n(out, tensor.Size(), Convert<T>(constant));
      return absl::OkStatus();
    }
    return Generate<T>(tensor, constant, constant, [constant](int64_t) { return constant; });
  });
}

}  // namespace gluond::server
