// Gemm against three nested loops, for every transposition, type and request, with a bias and without. The BUILD file runs it with
// code for several sets of instructions.

#include "ops/kernel/gemm.h"

#include "tests/ops/kernel/kernel_context.h"

namespace gluond::ops {
namespace {

std::vector<double> Naive(const GemmSize& s, const std::vector<double>& a, const std::vector<double>& b,
                          const std::vector<double>& bias, std::vector<double> c) {
  for (int64_t batch = 0; batch < s.batch; ++batch) {
    for (int64_t i = 0; i < s.m; ++i) {
      for (int64_t j = 0; j < s.n; ++j) {
        double sum = 0;
        for (int64_t k = 0; k < s.k; ++k) {
          sum += a[batch * s.m * s.k + (s.transpose_a ? k * s.m + i : i * s.k + k)] *
                 b[batch * s.k * s.n + (s.transpose_b ? j * s.k + k : k * s.n + j)];
        }
        c[(batch * s.m + i) * s.n + j] += s.alpha * sum + (bias.empty() ? 0 : bias[j]);
      }
    }
  }
  return c;
}

class GemmTest : public testing::TestWithParam<GemmSize> {};

TEST_P(GemmTest, EqualsThreeLoops) {
  KernelContext context;
  GemmSize size = GetParam();
  for (DType type : kFloats) {
    for (int bits = 0; bits < 16; ++bits) {
      size.transpose_a = bits & 1;
      size.transpose_b = bits & 2;
      const OpReqType req = bits & 4 ? kAddTo : kWriteTo;
      const std::vector<double> a = Numbers(size.batch * size.m * size.k, 1), b = Numbers(size.batch * size.k * size.n, 2);
      const std::vector<double> before = Numbers(size.batch * size.m * size.n, 3);
      const std::vector<double> bias = Numbers(bits & 8 ? size.n : 0, 4);
      Values x(type, a), y(type, b), row(type, bias), c(type, before);
      const void* const to_add = bias.empty() ? nullptr : row.data();
      ASSERT_EQ(Gemm<cpu>(context.ctx, type, size, x.data(), y.data(), req, c.data(), to_add), absl::OkStatus());
      const std::vector<double> start = req == kAddTo ? before : std::vector<double>(before.size());
      c.ExpectNear(Naive(size, a, b, bias, start), Tolerance(type), absl::StrCat(Name(type), " bits ", bits));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, GemmTest,
    testing::Values(GemmSize{.m = 1, .n = 1, .k = 1}, GemmSize{.m = 5, .n = 7, .k = 3}, GemmSize{.m = 64, .n = 10, .k = 33},
                    GemmSize{.m = 1, .n = 129, .k = 65}, GemmSize{.m = 70, .n = 1, .k = 17}, GemmSize{.m = 0, .n = 4, .k = 4},
                    GemmSize{.m = 3, .n = 4, .k = 0}, GemmSize{.m = 9, .n = 8, .k = 31, .batch = 3},
                    GemmSize{.m = 4, .n = 6, .k = 8, .batch = 2, .alpha = -0.5},
                    // Few rows are products of dots: of whole vectors and parts, of tiles of columns and single ones.
                    GemmSize{.m = 1, .n = 1, .k = 4099}, GemmSize{.m = 2, .n = 17, .k = 15}, GemmSize{.m = 3, .n = 70, .k = 100},
                    GemmSize{.m = 4, .n = 3, .k = 16}, GemmSize{.m = 8, .n = 35, .k = 129},
                    GemmSize{.m = 7, .n = 90, .k = 150, .batch = 3}, GemmSize{.m = 1, .n = 30, .k = 64, .alpha = 0.25},
                    // These are cut into pieces: of rows, of columns, of matrices, of both rows and columns, and a row's columns.
                    GemmSize{.m = 300, .n = 70, .k = 300}, GemmSize{.m = 70, .n = 301, .k = 330},
                    GemmSize{.m = 65, .n = 64, .k = 120, .batch = 13}, GemmSize{.m = 130, .n = 513, .k = 260, .alpha = 0.5},
                    GemmSize{.m = 1, .n = 1300, .k = 900, .batch = 2}));

class ConstantMatrixTest : public testing::TestWithParam<GemmSize> {};

TEST_P(ConstantMatrixTest, IsReadOnceForAllNumbersOfRows) {
  KernelContext context;
  GemmSize size = GetParam();
  for (const bool transpose : {false, true}) {
    size.transpose_b = transpose;
    const std::vector<double> b = Numbers(size.k * size.n, 2);
    Values matrix(DType::kFloat32, b);
    OneConstant constant(matrix.data());
    context.ctx.constants = &constant;
    for (const int64_t rows : {size.m, int64_t{5}, int64_t{17}, int64_t{128}}) {
      size.m = rows;
      const std::vector<double> a = Numbers(size.m * size.k, 1), before = Numbers(size.m * size.n, 3);
      for (const bool has_bias : {false, true}) {
        for (const OpReqType req : {kWriteTo, kAddTo}) {
          const std::vector<double> bias = Numbers(has_bias ? size.n : 0, 4);
          Values x(DType::kFloat32, a), row(DType::kFloat32, bias), c(DType::kFloat32, before);
          const void* const to_add = has_bias ? row.data() : nullptr;
          ASSERT_EQ(Gemm<cpu>(context.ctx, DType::kFloat32, size, x.data(), matrix.data(), req, c.data(), to_add),
                    absl::OkStatus());
          const std::vector<double> start = req == kAddTo ? before : std::vector<double>(before.size());
          c.ExpectNear(Naive(size, a, b, bias, start), Tolerance(DType::kFloat32),
                       absl::StrCat(rows, " rows, req ", req, ", bias ", has_bias));
        }
      }
      EXPECT_EQ(constant.forms(), 1u);
      std::memset(matrix.data(), 0, b.size() * sizeof(float));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, ConstantMatrixTest,
                         testing::Values(GemmSize{.m = 5, .n = 16, .k = 1}, GemmSize{.m = 6, .n = 23, .k = 3},
                                         GemmSize{.m = 12, .n = 64, .k = 33}, GemmSize{.m = 13, .n = 65, .k = 16},
                                         GemmSize{.m = 14, .n = 500, .k = 800}, GemmSize{.m = 33, .n = 1030, .k = 100},
                                         // Sums of a part of the depth are put by.
                                         GemmSize{.m = 25, .n = 41, .k = 2100}));

// Constants that are not kept yet, or find no memory.
class UnkeptConstant final : public Constants {
 public:
  bool Contains(const void*) override { return true; }
  absl::StatusOr<const void*> Find(const void*, absl::string_view, size_t, absl::FunctionRef<absl::Status(void*)>) override {
    return nullptr;
  }
};

TEST(ConstantMatrix, HasTheSameBitsKeptAndNot) {
  KernelContext context;
  for (const int64_t rows : {1, 3, 5, 40}) {
    const GemmSize size = {.m = rows, .n = 77, .k = 1300, .transpose_b = true};
    std::vector<double> a, b;
    for (int64_t i = 0; i < rows * size.k; ++i) a.push_back(std::sin(0.7 * static_cast<double>(i)));
    for (int64_t i = 0; i < size.n * size.k; ++i) b.push_back(std::sin(1.3 * static_cast<double>(i)));
    Values x(DType::kFloat32, a), matrix(DType::kFloat32, b), kept(DType::kFloat32, std::vector<double>(rows * size.n)),
        unkept = kept;
    OneConstant constant(matrix.data());
    UnkeptConstant none;
    context.ctx.constants = &constant;
    ASSERT_EQ(Gemm<cpu>(context.ctx, DType::kFloat32, size, x.data(), matrix.data(), kWriteTo, kept.data()), absl::OkStatus());
    context.ctx.constants = &none;
    ASSERT_EQ(Gemm<cpu>(context.ctx, DType::kFloat32, size, x.data(), matrix.data(), kWriteTo, unkept.data()), absl::OkStatus());
    EXPECT_EQ(std::memcmp(kept.data(), unkept.data(), static_cast<size_t>(rows * size.n) * sizeof(float)), 0) << rows << " rows";
    EXPECT_EQ(constant.forms(), rows < 5 ? 0u : 1u);  // Few rows read the matrix as it lies.
  }
}

// Space for little at once.
class LittleScratch final : public Scratch {
 public:
  explicit LittleScratch(size_t most) : most_(most) {}
  absl::StatusOr<void*> Get(size_t bytes) override {
    if (bytes > most_) return absl::ResourceExhaustedError("no space");
    return heap_.Get(bytes);
  }

 private:
  const size_t most_;
  HeapScratch heap_;
};

TEST(ConstantMatrix, HasTheSameBitsWithLittleSpace) {
  KernelContext context;
  const GemmSize size = {.m = 9, .n = 330, .k = 500, .transpose_b = true};
  const auto sines = [](int64_t n, double step) {
    std::vector<double> values;
    for (int64_t i = 0; i < n; ++i) values.push_back(std::sin(step * static_cast<double>(i)));
    return values;
  };
  Values x(DType::kFloat32, sines(size.m * size.k, 0.7)), matrix(DType::kFloat32, sines(size.n * size.k, 1.3)),
      bias(DType::kFloat32, sines(size.n, 0.3)), all(DType::kFloat32, sines(size.m * size.n, 0.1)), parts = all;
  UnkeptConstant constant;
  context.ctx.constants = &constant;
  for (const OpReqType req : {kWriteTo, kAddTo}) {
    const auto multiply = [&](Scratch& scratch, Values& c) {
      context.ctx.scratch = &scratch;
      return Gemm<cpu>(context.ctx, DType::kFloat32, size, x.data(), matrix.data(), req, c.data(), bias.data());
    };
    LittleScratch little(32 * 500 * sizeof(float)), none(0);
    ASSERT_EQ(multiply(context.scratch, all), absl::OkStatus());
    ASSERT_EQ(multiply(little, parts), absl::OkStatus());
    EXPECT_EQ(std::memcmp(all.data(), parts.data(), static_cast<size_t>(size.m * size.n) * sizeof(float)), 0);
    EXPECT_EQ(multiply(none, parts).code(), absl::StatusCode::kResourceExhausted);
  }
}

TEST(ConstantMatrix, ANarrowOneIsNotKeptInAFormOfManyTimesItsBytes) {
  KernelContext context;
  for (const bool transpose : {false, true}) {
    const GemmSize size = {.m = 40, .n = 3, .k = 70, .transpose_b = transpose};
    const std::vector<double> a = Numbers(size.m * size.k, 1), b = Numbers(size.n * size.k, 2), zeros(size.m * size.n);
    Values x(DType::kFloat32, a), matrix(DType::kFloat32, b), c(DType::kFloat32, zeros);
    OneConstant constant(matrix.data());
    context.ctx.constants = &constant;
    ASSERT_EQ(Gemm<cpu>(context.ctx, DType::kFloat32, size, x.data(), matrix.data(), kWriteTo, c.data()), absl::OkStatus());
    c.ExpectNear(Naive(size, a, b, {}, zeros), Tolerance(DType::kFloat32), transpose ? "transposed" : "as it lies");
    EXPECT_EQ(constant.forms(), 0u);
  }
}

TEST(ConstantMatrix, OthersAreReadEachTime) {
  KernelContext context;
  Values a(DType::kFloat32, {1, 2}), b(DType::kFloat32, {3, 4}), c(DType::kFloat32, {0});
  OneConstant constant(a.data());
  context.ctx.constants = &constant;
  const GemmSize size = {.m = 1, .n = 1, .k = 2};
  for (const float first : {3.f, 5.f}) {
    static_cast<float*>(b.data())[0] = first;
    ASSERT_EQ(Gemm<cpu>(context.ctx, DType::kFloat32, size, a.data(), b.data(), kWriteTo, c.data()), absl::OkStatus());
    EXPECT_EQ(c[0], first + 8);
  }
}

TEST(GemmTest, NullRequestWritesNothing) {
  KernelContext context;
  Values a(DType::kFloat32, {1}), b(DType::kFloat32, {1}), c(DType::kFloat32, {7});
  ASSERT_TRUE(Gemm<cpu>(context.ctx, DType::kFloat32, {.m = 1, .n = 1, .k = 1}, a.data(), b.data(), kNullOp, c.data()).ok());
  EXPECT_EQ(c[0], 7);
}

}  // namespace
}  // namespace gluond::ops
