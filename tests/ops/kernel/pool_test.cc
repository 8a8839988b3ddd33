// Pooling and its gradient against the definition, window by window.

#include "ops/kernel/pool.h"

#include <limits>

#include "tests/ops/kernel/kernel_context.h"

namespace gluond::ops {
namespace {

struct Geometry {
  const char* name;
  int64_t planes;
  int64_t in[3], kernel[3], stride[3], pad[3];
  bool full;
};

PoolSize SizeOf(const Geometry& g, PoolType type, bool count_include_pad) {
  PoolSize s = {type, count_include_pad, g.planes, {}, {}, {}, {}, {}};
  for (int i = 0; i < 3; ++i) {
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

// The part [first, second) of the input, with its padding, that output o sees along an axis.
std::pair<int64_t, int64_t> WindowOf(const PoolSize& s, int axis, int64_t o) {
  const int64_t start = o * s.stride[axis] - s.pad[axis];
  return {start, std::min(start + s.kernel[axis], s.in[axis] + s.pad[axis])};
}

Pooled Naive(const PoolSize& s, const std::vector<double>& x, const std::vector<double>& dy) {
  Pooled r = {{}, std::vector<double>(x.size()), {}};
  for (int64_t i = 0; i < s.planes * s.out_plane(); ++i) {
    const int64_t o = i % s.out_plane();
    const auto [z0, z1] = WindowOf(s, 0, o / (s.out[1] * s.out[2]));
    const auto [y0, y1] = WindowOf(s, 1, o / s.out[2] % s.out[1]);
    const auto [x0, x1] = WindowOf(s, 2, o % s.out[2]);
    std::vector<int64_t> inside;
    const auto is_inside = [&](int axis, int64_t p) { return p >= 0 && p < s.in[axis]; };
    for (int64_t iz = z0; iz < z1; ++iz) {
      for (int64_t iy = y0; iy < y1; ++iy) {
        for (int64_t ix = x0; ix < x1; ++ix) {
          if (!is_inside(0, iz) || !is_inside(1, iy) || !is_inside(2, ix)) continue;
          inside.push_back((iz * s.in[1] + iy) * s.in[2] + ix);
        }
      }
    }
    const double* from = &x[i / s.out_plane() * s.in_plane()];
    double* to = &r.dx[i / s.out_plane() * s.in_plane()];
    if (s.type == PoolType::kMax) {
      int64_t best = -1;
      for (int64_t p : inside)
        if (best < 0 || from[p] > from[best]) best = p;
      r.y.push_back(best < 0 ? 0 : from[best]);
      r.index.push_back(static_cast<int32_t>(best));
      if (best >= 0) to[best] += dy[i];
      continue;
    }
    const double count = s.type == PoolType::kSum || inside.empty() ? 1
                         : s.count_include_pad                      ? static_cast<double>((z1 - z0) * (y1 - y0) * (x1 - x0))
                                                                    : static_cast<double>(inside.size());
    double sum = 0;
    for (int64_t p : inside) sum += from[p], to[p] += dy[i] / count;
    r.y.push_back(sum / count);
    r.index.push_back(-1);
  }
  return r;
}

class PoolTest : public testing::TestWithParam<Geometry> {};

TEST_P(PoolTest, EqualsItsDefinition) {
  KernelContext context;
  for (PoolType pool : {PoolType::kMax, PoolType::kAvg, PoolType::kSum}) {
    for (bool count_include_pad : {true, false}) {
      const PoolSize s = SizeOf(GetParam(), pool, count_include_pad);
      const Shape in = {s.planes, s.in_plane()}, out = {s.planes, s.out_plane()};
      const std::vector<double> x = Numbers(in.Size(), 1), dy = Numbers(out.Size(), 2);
      const Pooled want = Naive(s, x, dy);
      for (DType type : kFloats) {
        for (OpReqType req : {kWriteTo, kAddTo}) {
          Values x_values(type, x), dy_values(type, dy);
          Values y(type, std::vector<double>(dy.size(), 1)), dx(type, std::vector<double>(x.size(), 1));
          Values index(DType::kInt32, std::vector<double>(dy.size(), -1));
          ASSERT_TRUE(PoolForward<cpu>(context.ctx, s, x_values.blob(in), req, y.blob(out), kWriteTo, index.blob(out)).ok());
          ASSERT_TRUE(PoolBackward<cpu>(context.ctx, s, dy_values.blob(out), index.blob(out), req, dx.blob(in)).ok());
          Values alone(type, std::vector<double>(dy.size(), 1));  // Nobody asks for the positions of the maxima.
          ASSERT_TRUE(PoolForward<cpu>(context.ctx, s, x_values.blob(in), req, alone.blob(out), kNullOp, {}).ok());
          Pooled r = want;
          if (req == kAddTo) {
            for (double& v : r.y) v += 1;
            for (double& v : r.dx) v += 1;
          }
          const std::string what =
              absl::StrCat(Name(type), " type ", static_cast<int>(pool), " pad ", count_include_pad, " req ", req);
          y.ExpectNear(r.y, Tolerance(type), what);
          alone.ExpectNear(r.y, Tolerance(type), what + " alone");
          dx.ExpectNear(r.dx, 2 * Tolerance(type), what + " dx");
          for (int64_t i = 0; i < out.Size(); ++i) ASSERT_EQ(index[i], want.index[i]) << what;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Geometries, PoolTest,
                         testing::ValuesIn<Geometry>({
                             {"TwoByTwo", 3, {1, 8, 8}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, false},
                             {"Remainder", 2, {1, 7, 9}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, false},
                             {"FullRemainder", 2, {1, 7, 9}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}, true},
                             {"Overlapping", 2, {1, 9, 7}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, false},
                             {"FullOverlapping", 2, {1, 8, 8}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, true},
                             {"DenseWindows", 1, {1, 6, 5}, {1, 3, 2}, {1, 1, 1}, {0, 2, 1}, false},
                             {"Global", 4, {1, 5, 6}, {1, 5, 6}, {1, 1, 1}, {0, 0, 0}, false},
                             {"WindowsBeyondTheEdge", 1, {1, 4, 4}, {1, 2, 2}, {1, 3, 3}, {0, 1, 1}, true},
                             {"DenseInManyBlocks", 2, {1, 150, 60}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, false},
                             {"DenseWiderThanTheInput", 2, {1, 3, 2}, {1, 5, 6}, {1, 1, 1}, {0, 2, 3}, false},
                             {"WideRow", 1, {1, 2, 300}, {1, 2, 3}, {1, 1, 1}, {0, 0, 1}, false},
                             {"SpanOfManyChunks", 2, {1, 1, 1400}, {1, 1, 300}, {1, 1, 7}, {0, 0, 9}, false},
                             {"WiderThanASpan", 2, {1, 2, 1500}, {1, 2, 600}, {1, 1, 1}, {0, 1, 20}, false},
                             {"SpanInRows", 1, {1, 3, 2000}, {1, 2, 450}, {1, 1, 600}, {0, 1, 100}, true},
                             {"OneDimensional", 2, {1, 1, 11}, {1, 1, 3}, {1, 1, 2}, {0, 0, 1}, false},
                             {"OneDimensionalFull", 2, {1, 1, 12}, {1, 1, 3}, {1, 1, 2}, {0, 0, 0}, true},
                             {"OneDimensionalGlobal", 3, {1, 1, 37}, {1, 1, 37}, {1, 1, 1}, {0, 0, 0}, false},
                             {"OneElement", 3, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}, false},
                             {"WideWindows", 2, {1, 3, 40}, {1, 2, 20}, {1, 1, 9}, {0, 1, 7}, false},
                             {"WideWindowsBeyondTheEdge", 2, {1, 2, 9}, {1, 2, 6}, {1, 2, 11}, {0, 1, 5}, true},
                             {"WholeRows", 2, {1, 7, 5}, {1, 3, 5}, {1, 2, 1}, {0, 1, 0}, true},
                             {"Volume", 2, {4, 6, 8}, {2, 2, 2}, {2, 2, 2}, {0, 0, 0}, false},
                             {"VolumeFullOverlapping", 2, {5, 6, 7}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, true},
                             {"VolumeDense", 1, {3, 4, 9}, {2, 3, 3}, {1, 1, 1}, {1, 1, 1}, false},
                             {"VolumeDenseLarge", 2, {6, 30, 31}, {4, 5, 2}, {1, 1, 1}, {2, 2, 1}, false},
                             {"VolumeStrideThree", 1, {7, 5, 11}, {2, 3, 4}, {3, 1, 3}, {1, 0, 2}, true},
                             {"VolumeGlobal", 3, {3, 4, 5}, {3, 4, 5}, {1, 1, 1}, {0, 0, 0}, false},
                             {"VolumeWholeSlices", 2, {6, 3, 4}, {2, 3, 4}, {2, 1, 1}, {1, 0, 0}, false},
                             {"VolumeWindowsBeyondTheEdge", 1, {4, 4, 4}, {2, 2, 2}, {3, 3, 3}, {1, 1, 1}, true},
                         }),
                         [](const auto& info) { return info.param.name; });

TEST(PoolTest, TheFirstNanIsTheMaximumOfItsWindow) {
  KernelContext context;
  const double nan = std::nan("");
  const PoolSize pairs = {PoolType::kMax, true, 1, {1, 1, 4}, {1, 1, 2}, {1, 1, 2}, {1, 1, 2}, {0, 0, 0}};
  const PoolSize whole = {PoolType::kMax, true, 1, {1, 2, 2}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}};
  const struct {
    PoolSize size;
    std::vector<double> x, y, at;
  } cases[] = {
      {pairs, {nan, 5, 1, 2}, {nan, 2}, {0, 3}},
      {pairs, {5, nan, nan, nan}, {nan, nan}, {1, 2}},
      {whole, {5, nan, nan, 7}, {nan}, {1}},
      {whole, {5, 1, 2, nan}, {nan}, {3}},
  };
  for (const auto& c : cases) {
    for (const OpReqType index_req : {kNullOp, kWriteTo}) {
      const Shape in = {4}, out = {static_cast<int64_t>(c.y.size())};
      Values x(DType::kFloat32, c.x), y(DType::kFloat32, std::vector<double>(c.y.size()));
      Values at(DType::kInt32, std::vector<double>(c.y.size(), -2));
      const absl::Status status = PoolForward<cpu>(context.ctx, c.size, x.blob(in), kWriteTo, y.blob(out), index_req, at.blob(out));
      ASSERT_TRUE(status.ok()) << status;
      for (size_t i = 0; i < c.y.size(); ++i) {
        EXPECT_TRUE(std::isnan(c.y[i]) ? std::isnan(y[i]) : y[i] == c.y[i]) << y[i];
        EXPECT_EQ(at[i], index_req == kNullOp ? -2 : c.at[i]);
      }
    }
  }
}

TEST(PoolTest, OfEqualElementsTheFirstGetsTheGradient) {
  KernelContext context;
  const PoolSize s = {PoolType::kMax, true, 1, {1, 2, 2}, {1, 1, 1}, {1, 2, 2}, {1, 2, 2}, {0, 0, 0}};
  const double inf = std::numeric_limits<double>::infinity();
  for (double v : {3.0, -inf}) {
    Values x(DType::kFloat64, {v, v, v, v}), y(DType::kFloat64, {0}), index(DType::kInt32, {-1});
    ASSERT_TRUE(PoolForward<cpu>(context.ctx, s, x.blob({2, 2}), kWriteTo, y.blob({1}), kWriteTo, index.blob({1})).ok());
    EXPECT_EQ(y[0], v);
    EXPECT_EQ(index[0], 0);
  }
}

TEST(PoolTest, TheFirstOfEqualElementsWinsInOverlappingWindows) {
  KernelContext context;
  const Geometry geometries[] = {
      {"Plane", 2, {1, 9, 8}, {1, 3, 5}, {1, 1, 1}, {0, 1, 2}, false},
      {"Volume", 1, {4, 5, 6}, {3, 2, 3}, {1, 1, 1}, {1, 1, 1}, false},
      {"Strided", 1, {4, 5, 6}, {3, 3, 3}, {2, 2, 2}, {1, 1, 1}, false},
  };
  const double inf = std::numeric_limits<double>::infinity();
  for (const Geometry& g : geometries) {
    const PoolSize s = SizeOf(g, PoolType::kMax, true);
    const Shape in = {s.planes, s.in_plane()}, out = {s.planes, s.out_plane()};
    std::vector<double> x(in.Size());
    for (size_t i = 0; i < x.size(); ++i) x[i] = i % 4 == 1 ? -inf : static_cast<double>(i * i / 3 % 3);
    std::fill_n(x.begin(), x.size() / 3, -inf);
    const Pooled want = Naive(s, x, std::vector<double>(out.Size()));
    Values x_values(DType::kFloat32, x), y(DType::kFloat32, std::vector<double>(out.Size()));
    Values index(DType::kInt32, std::vector<double>(out.Size(), -2));
    ASSERT_TRUE(PoolForward<cpu>(context.ctx, s, x_values.blob(in), kWriteTo, y.blob(out), kWriteTo, index.blob(out)).ok());
    for (int64_t i = 0; i < out.Size(); ++i) {
      ASSERT_EQ(y[i], want.y[i]) << g.name << " " << i;
      ASSERT_EQ(index[i], want.index[i]) << g.name << " " << i;
    }
  }
}

TEST(PoolTest, TheFirstNanWinsInOverlappingWindows) {
  KernelContext context;
  const double nan = std::nan("");
  const PoolSize s = {PoolType::kMax, true, 1, {1, 3, 4}, {1, 2, 3}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}};
  Values x(DType::kFloat32, {1, nan, 3, 4, nan, 9, 7, nan, 2, 2, 8, 1});
  const std::vector<int32_t> at = {1, 1, 7, 4, 5, 7};
  for (const OpReqType index_req : {kNullOp, kWriteTo}) {
    Values y(DType::kFloat32, std::vector<double>(6)), index(DType::kInt32, std::vector<double>(6, -2));
    ASSERT_TRUE(PoolForward<cpu>(context.ctx, s, x.blob({3, 4}), kWriteTo, y.blob({2, 3}), index_req, index.blob({2, 3})).ok());
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(std::isnan(y[i]), i != 4) << i;
      EXPECT_EQ(index[i], index_req == kNullOp ? -2 : at[i]) << i;
    }
    EXPECT_EQ(y[4], 9);
  }
}

}  // namespace
}  // namespace gluond::ops
