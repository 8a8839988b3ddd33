// Equal rows of a product and equal images of a convolution have equal results, to the bit, wherever in the batch they are:
// what `batch_invariant` stands on (docs/decisions.md, "What has equal bits"). Without AVX-512, up to rounding. The BUILD file
// runs it with oneDNN's code for several sets of instructions.

#include "ops/kernel/equal_rows.h"
#include "ops/kernel/conv_volume.h"
#include "ops/kernel/gemm.h"
#include "tests/ops/kernel/kernel_context.h"

namespace gluond::ops {
namespace {

// Numbers of which sums in another order have other bits.
std::vector<double> Rough(int64_t n, double step) {
  std::vector<double> numbers;
  for (int64_t i = 0; i < n; ++i) numbers.push_back(std::sin(step * static_cast<double>(i) + 1));
  return numbers;
}

std::vector<double> Repeated(const std::vector<double>& one, int64_t times) {
  std::vector<double> all;
  for (int64_t i = 0; i < times; ++i) all.insert(all.end(), one.begin(), one.end());
  return all;
}

// All of the `count` parts of y, of `size` numbers each, are equal.
void ExpectEqualParts(const Values& y, int64_t count, int64_t size, const std::string& where) {
  const double allowed = HasEqualRows() ? 0 : 1e-5 * std::sqrt(1000);
  for (int64_t i = size; i < count * size; ++i) {
    ASSERT_NEAR(y[i], y[i % size], allowed) << where << ", part " << i / size << ", number " << i % size;
  }
}

TEST(EqualRows, OfAProductHaveEqualResults) {
  KernelContext context;
  for (const int64_t m : {2, 3, 5, 7, 8, 9, 16, 31, 33, 64, 130}) {
    for (const int64_t n : {1, 3, 10, 64, 129, 500}) {
      for (const int64_t k : {1, 16, 37, 257, 784}) {
        for (const bool constant : {false, true}) {
          const GemmSize size = {.m = m, .n = n, .k = k, .transpose_b = true};
          Values x(DType::kFloat32, Repeated(Rough(k, 0.7), m)), w(DType::kFloat32, Rough(k * n, 1.3));
          Values y(DType::kFloat32, std::vector<double>(static_cast<size_t>(m * n)));
          OneConstant panels(w.data());
          context.ctx.constants = constant ? &panels : nullptr;
          ASSERT_TRUE(Gemm<cpu>(context.ctx, DType::kFloat32, size, x.data(), w.data(), kWriteTo, y.data()).ok());
          ExpectEqualParts(y, m, n, absl::StrCat(m, " rows, ", n, " columns, ", k, " products"));
        }
      }
    }
  }
}

void ExpectEqualImages(const ConvSize& s, const std::string& where) {
  KernelContext context;
  Values x(DType::kFloat32, Repeated(Rough(s.x_size() / s.batch, 0.7), s.batch)), w(DType::kFloat32, Rough(s.w_size(), 1.3));
  Values y(DType::kFloat32, std::vector<double>(static_cast<size_t>(s.y_size())));
  ASSERT_TRUE(VolumeForward<cpu>(context.ctx, s, x.blob(), w.blob(), nullptr, {y.blob(), kWriteTo}).ok());
  ExpectEqualParts(y, s.batch, s.y_size() / s.batch, absl::StrCat(s.batch, " images, ", where));
}

TEST(EqualRows, OfAConvolutionAreImages) {
  for (const int64_t batch : {3, 8, 16}) {
    for (const int64_t in : {1, 3, 16}) {
      for (const int64_t out : {5, 16, 64}) {
        for (const int64_t kernel : {1, 3}) {
          ExpectEqualImages(
              {batch, 1, in, out, {1, 14, 14}, {1, 14, 14}, {1, kernel, kernel}, {1, 1, 1}, {1, 1, 1}, {0, kernel / 2, kernel / 2}},
              absl::StrCat(in, " to ", out, ", kernel ", kernel));
        }
      }
    }
  }
}

// By Winograd's algorithm: pieces have one, two, three or four images, and the last one fewer.
TEST(EqualRows, OfAConvolutionInTilesAreImages) {
  const auto expect = [](int64_t batch, int64_t channels, int64_t side) {
    const std::array<int64_t, 3> area = {1, side, side}, ones = {1, 1, 1};
    ExpectEqualImages({batch, 1, channels, channels, area, area, {1, 3, 3}, ones, ones, {0, 1, 1}}, absl::StrCat("side ", side));
  };
  for (const int64_t channels : {64, 128}) {
    for (const int64_t batch : {2, 3, 8}) expect(batch, channels, 40);
    for (const int64_t batch : {17, 33}) expect(batch, channels, 28);
    expect(25, channels, 24);
    expect(35, channels, 20);
  }
}

}  // namespace
}  // namespace gluond::ops
