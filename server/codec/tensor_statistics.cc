#include "server/codec/tensor_statistics.h"

#include <cmath>
#include <cstring>
#include <string>

#include "engine/core/convert.h"
#include "engine/runtime/fair_semaphore.h"
#include "engine/runtime/tuning.h"

namespace gluond::server {
namespace {

// Welford's algorithm: one pass, and no cancellation where the mean is large.
struct Moments {
  double min = 0, max = 0, mean = 0, m2 = 0;
  int64_t finite = 0, nonfinite = 0;

  void Add(double x) {
    if (!std::isfinite(x)) {
      ++nonfinite;
      return;
    }
    if (finite++ == 0) min = max = x;
    min = std::min(min, x);
    max = std::max(max, x);
    const double delta = x - mean;
    mean += delta / static_cast<double>(finite);
    m2 += delta * (x - mean);
  }
};

template <class T>
void AddAll(const char* data, size_t size, Moments* moments) {
  const auto elements = static_cast<int64_t>(size / sizeof(T));
  FairSemaphore::OfLongWork().DoInPieces(elements, tuning::kLongWorkPiece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      T value;
      std::memcpy(&value, data + static_cast<size_t>(i) * sizeof(T), sizeof(T));
      moments->Add(Convert<double>(value));
    }
  });
}

}  // namespace

v1::Statistics TensorStatistics(DType dtype, const Bytes& bytes) {
  Moments moments;
  DispatchType(dtype, [&](auto t) {
    if (bytes.contiguous() != nullptr) {
      AddAll<decltype(t)>(bytes.contiguous(), bytes.size(), &moments);
    } else {
      std::string joined(bytes.size(), '\0');
      bytes.CopyTo(joined.data());
      AddAll<decltype(t)>(joined.data(), joined.size(), &moments);
    }
  });
  v1::Statistics statistics;
  statistics.set_min(moments.min);
  statistics.set_max(moments.max);
  statistics.set_mean(moments.mean);
  statistics.set_std(moments.finite == 0 ? 0 : std::sqrt(moments.m2 / static_cast<double>(moments.finite)));
  statistics.set_nonfinite(moments.nonfinite);
  statistics.set_crc32c(bytes.Crc32c());
  return statistics;
}

}  // namespace gluond::server
