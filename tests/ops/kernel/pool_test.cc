// Pooling and its gradient against the definition, window by window.

#include "ops/kernel/pool.h"

#include <limits>

#include "tests/ops/kernel/kernel_context.h"

namespace gluond::ops {
namespace {

struct Geometry {
  const char* name;
  int64_t planes;
  int64_t in[2], kernel[2], stride[2], pad[2];
  bool full;
};

PoolSize SizeOf(const Geometry& g, PoolType type, bool count_include_pad) {
  PoolSize s = {type, count_include_pad, g.planes, {}, {}, {}, {}, {}};
  for (int i = 0; i < 2; ++i) {
    s.in[i] = g.in[i];
    s.kernel[i] = g.kernel[i];
    s.stride[i] = g.stride[i];
    s.pad[i] = g.pad[i];
    s.out[i] = (g.in[i] + 2 * g.pad[i] - g.kernel[i] + (g.full ? g.stride[i] - 1 : 0)) / g.stride[i] + 1;
  }
  return s;
}

struct Pooled {
  std::vector<double> y, dx;
  std::vector<int32_t> index;
};

Pooled Naive(const PoolSize& s, const std::vector<double>& x, const std::vector<double>& dy) {
  Pooled r = {{}, std::vector<double>(x.size()), {}};
  for (int64_t plane = 0; plane < s.planes; ++plane) {
    for (int64_t oy = 0; oy < s.out[0]; ++oy) {
      for (int64_t ox = 0; ox < s.out[1]; ++ox) {
        const int64_t y0 = oy * s.stride[0] - s.pad[0], x0 = ox * s.stride[1] - s.pad[1];
        const int64_t y1 = std::min(y0 + s.kernel[0], s.in[0] + s.pad[0]),
                      x1 = std::min(x0 + s.kernel[1], s.in[1] + s.pad[1]);
        std::vector<int64_t> inside;
        for (int64_t iy = y0; iy < y1; ++iy) {
          for (int64_t ix = x0; ix < x1; ++ix) {
            if (iy >= 0 && iy < s.in[0] && ix >= 0 && ix < s.in[1]) inside.push_back(iy * s.in[1] + ix);
          }
        }
        const double* from = &x[plane * s.in_plane()];
        double* to = &r.dx[plane * s.in_plane()];
        const double g = dy[r.y.size()];
        if (s.type == PoolType::kMax) {
          int64_t best = -1;
          for (int64_t i : inside) if (best < 0 || from[i] > from[best]) best = i;
          r.y.push_back(best < 0 ? 0 : from[best]);
          r.index.push_back(static_cast<int32_t>(best));
          if (best >= 0) to[best] += g;
          continue;
        }
        const double count = s.type == PoolType::kSum || inside.empty() ? 1
                             : s.count_include_pad                      ? static_cast<double>((y1 - y0) * (x1 - x0))
                                                                        : static_cast<double>(inside.size());
        double sum = 0;
        for (int64_t i : inside) sum += from[i], to[i] += g / count;
        r.y.push_back(sum / count);
        r.index.push_back(-1);
      }
    }
  }
  return r;
}

class PoolTest : public testing::TestWithParam<Geometry> {};

TEST_P(PoolTest, EqualsItsDefinition) {
  KernelContext context;
  for (PoolType pool : {PoolType::kMax, PoolType::kAvg, PoolType::kSum}) {
    for (bool count_include_pad : {true, false}) {
      const PoolSize s = SizeOf(GetParam(), pool, count_include_pad);
      const Shape in = {s.planes, s.in[0], s.in[1]}, out = {s.planes, s.out[0], s.out[1]};
      const std::vector<double> x = Numbers(in.Size(), 1), dy = Numbers(out.Size(), 2);
      const Pooled want = Naive(s, x, dy);
      for (DType type : kFloats) {
        for (OpReqType req : {kWriteTo, kAddTo}) {
          Values x_values(type, x), dy_values(type, dy);
          Values y(type, std::vector<double>(dy.size(), 1)), dx(type, std::vector<double>(x.size(), 1));
          Values index(DType::kInt32, std::vector<double>(dy.size(), -1));
          ASSERT_TRUE(
              PoolForward<cpu>(context.ctx, s, x_values.blob(in), req, y.blob(out), kWriteTo, index.blob(out)).ok());
          ASSERT_TRUE(PoolBackward<cpu>(context.ctx, s, dy_values.blob(out), index.blob(out), req, dx.blob(in)).ok());
          Pooled r = want;
          if (req == kAddTo) {
            for (double& v : r.y) v += 1;
            for (double& v : r.dx) v += 1;
          }
          const std::string what =
              absl::StrCat(Name(type), " type ", static_cast<int>(pool), " pad ", count_include_pad, " req ", req);
          y.ExpectNear(r.y, Tolerance(type), what);
          dx.ExpectNear(r.dx, 2 * Tolerance(type), what + " dx");
          for (int64_t i = 0; i < out.Size(); ++i) ASSERT_EQ(index[i], want.index[i]) << what;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Geometries, PoolTest, testing::ValuesIn<Geometry>({
    {"TwoByTwo", 3, {8, 8}, {2, 2}, {2, 2}, {0, 0}, false},
    {"Remainder", 2, {7, 9}, {2, 2}, {2, 2}, {0, 0}, false},
    {"FullRemainder", 2, {7, 9}, {2, 2}, {2, 2}, {0, 0}, true},
    {"Overlapping", 2, {9, 7}, {3, 3}, {2, 2}, {1, 1}, false},
    {"FullOverlapping", 2, {8, 8}, {3, 3}, {2, 2}, {1, 1}, true},
    {"DenseWindows", 1, {6, 5}, {3, 2}, {1, 1}, {2, 1}, false},
    {"Global", 4, {5, 6}, {5, 6}, {1, 1}, {0, 0}, false},
    {"WindowsBeyondTheEdge", 1, {4, 4}, {2, 2}, {3, 3}, {1, 1}, true},
    {"WideRow", 1, {2, 300}, {2, 3}, {1, 1}, {0, 1}, false},
    {"OneDimensional", 2, {1, 11}, {1, 3}, {1, 2}, {0, 1}, false},
}), [](const auto& info) { return info.param.name; });

TEST(PoolTest, ANanIsTheMaximumOfItsWindow) {
  KernelContext context;
  const PoolSize s = {PoolType::kMax, true, 1, {1, 4}, {1, 2}, {1, 2}, {1, 2}, {0, 0}};
  Values x(DType::kFloat32, {std::nan(""), 5, 1, 2}), y(DType::kFloat32, {0, 0});
  ASSERT_TRUE(PoolForward<cpu>(context.ctx, s, x.blob({1, 4}), kWriteTo, y.blob({1, 2}), kNullOp, {}).ok());
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 2);
}

TEST(PoolTest, OfEqualElementsTheFirstGetsTheGradient) {
  KernelContext context;
  const PoolSize s = {PoolType::kMax, true, 1, {2, 2}, {1, 1}, {2, 2}, {2, 2}, {0, 0}};
  const double inf = std::numeric_limits<double>::infinity();
  for (double v : {3.0, -inf}) {
    Values x(DType::kFloat64, {v, v, v, v}), y(DType::kFloat64, {0}), index(DType::kInt32, {-1});
    ASSERT_TRUE(
        PoolForward<cpu>(context.ctx, s, x.blob({2, 2}), kWriteTo, y.blob({1}), kWriteTo, index.blob({1})).ok());
    EXPECT_EQ(y[0], v);
    EXPECT_EQ(index[0], 0);
  }
}

}  // namespace
}  // namespace gluond::ops
