#include "ops/kernel/gemm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <unordered_map>

#include "cblas.h"
#include "ops/kernel/onednn.h"
#include "ops/kernel/primitive_cache.h"
#include "ops/kernel/widen.h"

namespace gluond::ops {
namespace {

using dnnl::memory;

// One size's product, with its arguments: binding pointers to them allocates nothing.
struct Product {
  dnnl::matmul primitive;
  std::unordered_map<int, memory> arguments;
};

memory::desc RowMajor(int64_t batch, int64_t rows, int64_t cols, bool transposed) {
  const memory::dims strides = transposed ? memory::dims{rows * cols, 1, rows} : memory::dims{rows * cols, cols, 1};
  return {{batch, rows, cols}, memory::data_type::f32, strides};
}

std::unique_ptr<Product> MakeProduct(const GemmSize& s, bool add) {
  dnnl::primitive_attr attr = UserScratchpad();
  if (s.alpha != 1) attr.set_output_scales(0, {static_cast<float>(s.alpha)});
  if (add) {
    dnnl::post_ops ops;
    ops.append_sum();
    attr.set_post_ops(ops);
  }
  const memory::desc a = RowMajor(s.batch, s.m, s.k, s.transpose_a);
  const memory::desc b = RowMajor(s.batch, s.k, s.n, s.transpose_b);
  const memory::desc c = RowMajor(s.batch, s.m, s.n, false);
  const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c), attr, CpuEngine());
  auto product = std::make_unique<Product>(Product{dnnl::matmul(desc), {}});
  product->arguments = {{DNNL_ARG_SRC, Unbound(a)},
                        {DNNL_ARG_WEIGHTS, Unbound(b)},
                        {DNNL_ARG_DST, Unbound(c)},
                        {DNNL_ARG_SCRATCHPAD, Unbound(desc.scratchpad_desc())}};
  return product;
}

absl::Status GemmFloat(const OpContext& ctx, const GemmSize& s, const void* a, const void* b, bool add, void* c) {
  using Key = std::array<int64_t, 8>;
  thread_local PrimitiveCache<Key, Product> cache;
  const Key key = {s.m, s.n, s.k, s.batch, s.transpose_a, s.transpose_b, add, BitCast<int64_t>(s.alpha)};
  return CallOneDnn("matrix product", [&]() -> absl::Status {
    ASSIGN_OR_RETURN(Product* product,
                     cache.Get(key, [&]() -> absl::StatusOr<std::unique_ptr<Product>> { return MakeProduct(s, add); }));
    auto& arguments = product->arguments;
    Bind(arguments.at(DNNL_ARG_SRC), a);
    Bind(arguments.at(DNNL_ARG_WEIGHTS), b);
    Bind(arguments.at(DNNL_ARG_DST), c);
    RETURN_IF_ERROR(BindScratch(ctx, arguments.at(DNNL_ARG_SCRATCHPAD)));
    product->primitive.execute(CpuStream(), arguments);
    return absl::OkStatus();
  });
}

// Rows of C to each of our threads; OpenBLAS itself stays single-threaded, for it would bring a pool of its own.
absl::Status GemmDouble(const OpContext& ctx, const GemmSize& s, const double* a, const double* b, bool add,
                        double* c) {
  if (std::max({s.m, s.n, s.k}) > std::numeric_limits<blasint>::max()) {
    return absl::InvalidArgumentError(absl::StrCat("matrix product of [", s.m, ",", s.k, "] and [", s.k, ",", s.n,
                                                   "] in float64: want less than 2^31 rows and columns; use float32"));
  }
  [[maybe_unused]] static const bool single_threaded = (openblas_set_num_threads(1), true);
  const int64_t grain = 1 + (1 << 18) / (s.n * s.k + 1);
  Parallel(ctx, s.batch * s.m, grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t matrix = begin / s.m, row = begin % s.m;
      const int64_t rows = std::min(end - begin, s.m - row);
      const double* a_rows = a + matrix * s.m * s.k + (s.transpose_a ? row : row * s.k);
      cblas_dgemm(CblasRowMajor, s.transpose_a ? CblasTrans : CblasNoTrans, s.transpose_b ? CblasTrans : CblasNoTrans,
                  rows, s.n, s.k, s.alpha, a_rows, s.transpose_a ? s.m : s.k, b + matrix * s.k * s.n,
                  s.transpose_b ? s.k : s.n, add ? 1 : 0, c + begin * s.n, s.n);
      begin += rows;
    }
  });
  return absl::OkStatus();
}

}  // namespace

template <>
absl::Status Gemm<cpu>(const OpContext& ctx, DType dtype, const GemmSize& s, const void* a, const void* b,
                       OpReqType req, void* c) {
  if (req == kNullOp || s.batch == 0 || s.m == 0 || s.n == 0) return absl::OkStatus();
  const int64_t outputs = s.batch * s.m * s.n;
  if (s.k == 0) {  // An empty sum.
    if (req != kAddTo) std::memset(c, 0, outputs * SizeOf(dtype));
    return absl::OkStatus();
  }
  if (dtype == DType::kFloat32) return GemmFloat(ctx, s, a, b, req == kAddTo, c);
  if (dtype == DType::kFloat64) {
    return GemmDouble(ctx, s, static_cast<const double*>(a), static_cast<const double*>(b), req == kAddTo,
                      static_cast<double*>(c));
  }
  ASSIGN_OR_RETURN(const float* wide_a, Widen(ctx, dtype, a, s.batch * s.m * s.k));
  ASSIGN_OR_RETURN(const float* wide_b, Widen(ctx, dtype, b, s.batch * s.k * s.n));
  ASSIGN_OR_RETURN(void* wide_c, ctx.scratch->Get(outputs * sizeof(float)));
  RETURN_IF_ERROR(GemmFloat(ctx, s, wide_a, wide_b, false, wide_c));
  Narrow(ctx, dtype, static_cast<const float*>(wide_c), req, c, outputs);
  return absl::OkStatus();
}

}  // namespace gluond::ops
