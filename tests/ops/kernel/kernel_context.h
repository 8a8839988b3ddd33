// The context in which a kernel test runs a CPU kernel: two threads, scratch space, and numbers to compute with.

#ifndef TESTS_OPS_KERNEL_KERNEL_CONTEXT_H_
#define TESTS_OPS_KERNEL_KERNEL_CONTEXT_H_

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/core/kernel_cache.h"
#include "engine/core/op_context.h"
#include "engine/runtime/team.h"
#include "ops/kernel/convert.h"

namespace gluond::ops {

class HeapScratch final : public Scratch {
 public:
  absl::StatusOr<void*> Get(size_t bytes) override {
    // Kernels must not rely on zeros; NaNs show it.
    const size_t n = bytes / sizeof(double) + 9;
    blocks_.push_back(std::make_unique<double[]>(n));
    std::fill_n(blocks_.back().get(), n, std::nan(""));
    const uintptr_t at = reinterpret_cast<uintptr_t>(blocks_.back().get());
    return reinterpret_cast<void*>((at + 63) / 64 * 64);
  }

 private:
  std::vector<std::unique_ptr<double[]>> blocks_;
};

// Constants that know one tensor, and keep all its forms.
class OneConstant final : public Constants {
 public:
  explicit OneConstant(const void* data) : data_(data) {}
  bool Contains(const void* data) override { return data == data_; }
  absl::StatusOr<const void*> Find(const void* data, absl::string_view form, size_t bytes,
                                   absl::FunctionRef<absl::Status(void*)> make) override {
    if (data != data_) return nullptr;
    const auto [place, is_new] = forms_.try_emplace(std::string(form), bytes / sizeof(Line) + 1);
    if (is_new) RETURN_IF_ERROR(make(place->second.data()));
    return place->second.data();
  }
  size_t forms() const { return forms_.size(); }

 private:
  struct alignas(64) Line {
    char bytes[64];
  };
  const void* const data_;
  std::map<std::string, std::vector<Line>> forms_;
};

struct KernelContext {
  Team threads{2};
  HeapScratch scratch;
  KernelCache kernels{64};
  OpContext ctx;

  KernelContext() {
    ctx.threads = &threads;
    ctx.scratch = &scratch;
    ctx.kernels = &kernels;
  }
};

// n multiples of 1/16 in [-2, 2], the same ones for the same seed: exact in every floating type.
inline std::vector<double> Numbers(int64_t n, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<double> numbers(n);
  for (double& x : numbers) x = (static_cast<int>(random() % 65) - 32) / 16.0;
  return numbers;
}

// A tensor of `type` with those values.
class Values {
 public:
  Values(DType type, const std::vector<double>& numbers)
      : type_(type), n_(static_cast<int64_t>(numbers.size())), bytes_(numbers.size() * 8 + 64) {
    for (int64_t i = 0; i < n_; ++i) StoreAs(type_, data(), i, numbers[i], false);
  }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  TBlob blob(const Shape& shape) { return {data(), shape, type_, Device()}; }
  TBlob blob() { return blob(Shape({n_})); }
  double operator[](int64_t i) const { return LoadAs<double>(type_, bytes_.data(), i); }

  // Every element within `tolerance` of the largest expected magnitude (or of 1).
  void ExpectNear(const std::vector<double>& want, double tolerance, const std::string& what) const {
    double scale = 1;
    for (double w : want) scale = std::max(scale, std::abs(w));
    ASSERT_EQ(want.size(), static_cast<size_t>(n_)) << what;
    for (int64_t i = 0; i < n_; ++i) {
      ASSERT_NEAR((*this)[i], want[i], tolerance * scale) << what << ", element " << i;
    }
  }

 private:
  DType type_;
  int64_t n_;
  std::vector<char> bytes_;
};

inline double Tolerance(DType type) {
  switch (type) {
    case DType::kFloat64: return 1e-12;
    case DType::kFloat16: return 2e-3;
    case DType::kBfloat16: return 1.6e-2;
    default: return 2e-6;
  }
}

inline constexpr DType kFloats[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBfloat16};

}  // namespace gluond::ops

#endif  // TESTS_OPS_KERNEL_KERNEL_CONTEXT_H_
