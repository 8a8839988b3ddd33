#include "ops/kernel/gemm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cblas.h"
#include "engine/core/kernel_cache.h"
#include "ops/kernel/cpu/onednn.h"
#include "ops/kernel/stage.h"

namespace gluond::ops {
namespace {

// Some rows of A, which follow one another, times some columns of B: dense ones, or panels of two vectors. Each element's terms are
// added up in an order that the depth decides, and for dots the instructions: not the rows and columns beside it.
template <class C>
struct RowsPiece {
  const C *a, *b;
  int64_t rows, cols, depth;
  const C* bias;  // The columns' own; or null.
  bool add;       // C is added to.
  C* c;
  int64_t pitch;  // C's rows lie so far apart.
};
// More rows than these pay for the packing of a constant matrix.
constexpr int64_t kMostPanelRows = 128;

template <class C>
void StoreSum(C sum, const RowsPiece<C>& p, int64_t row, int64_t col) {
  if (p.bias != nullptr) sum += p.bias[col];
  C& c = p.c[row * p.pitch + col];
  c = p.add ? c + sum : sum;
}

namespace gemm_avx2 {
constexpr int kBytes = 32, kSums = 12;
#include "ops/kernel/cpu/gemm_tile.h"
}  // namespace gemm_avx2

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl")
namespace gemm_avx512 {
constexpr int kBytes = 64, kSums = 24;
#include "ops/kernel/cpu/gemm_tile.h"
}  // namespace gemm_avx512
#pragma GCC pop_options

using dnnl::memory;

// Sets or adds to rows of `cols` elements, which lie `pitch` apart at `to` and follow one another at `from`.
void StoreRows(const float* from, int64_t rows, int64_t cols, bool add, float* to, int64_t pitch) {
  for (int64_t row = 0; row < rows; ++row, from += cols, to += pitch) {
    if (!add) std::fill_n(to, cols, 0.f);
    for (int64_t col = 0; col < cols; ++col) to[col] += from[col];
  }
}

// A library's block of C gets its bias, which may be null, while it is in the cache.
template <class C>
void AddBias(const C* bias, int64_t rows, int64_t cols, C* c, int64_t pitch) {
  if (bias == nullptr) return;
  for (; rows > 0; --rows, c += pitch) {
    for (int64_t col = 0; col < cols; ++col) c[col] += bias[col];
  }
}

// A block of a product, with its arguments, so that binding pointers to them allocates nothing.
struct Product {
  int64_t a, b, c, batch, rows, cols;  // Where its operands begin, and how large its block of C is.
  bool apart;                          // It is computed in temporary space of its own.
  dnnl::matmul primitive;
  std::unordered_map<int, memory> arguments;
};
struct Products {
  std::vector<Product> blocks;
  size_t bytes = 0;  // The temporary space of the block that takes most.

  size_t kept_bytes() const { return 2 * kCodeBytes + blocks.size() * kPieceBytes; }
};

// The matrices of the batch in a block and, where that is one, its rows and columns of C.
struct BlockSize {
  int64_t batch, rows, cols;
};

// How many pieces the work is worth. Elements count, too, as they are read and written.
int64_t PieceCount(const GemmSize& s) {
  constexpr double kLeastWork = 3 << 20;
  const double m = static_cast<double>(s.m), n = static_cast<double>(s.n), k = static_cast<double>(s.k);
  return PiecesOf(static_cast<double>(s.batch) * (m * n * k + 8 * (m * k + k * n + m * n)), kLeastWork);
}

// Rows first: whole rows of A and C lie dense, which oneDNN's faster code asks for. Each block packs its columns of B, so that blocks
// of many rows are the faster ones. Smaller blocks are for products that would have fewer than four.
BlockSize CutProduct(const GemmSize& s) {
  constexpr int64_t kSide = 64;
  const int64_t pieces = PieceCount(s);
  if (s.batch >= pieces) return {(s.batch - 1) / pieces + 1, s.m, s.n};
  BlockSize block = {1, s.m, s.n};
  int64_t made = s.batch;
  for (const auto& [least, most] : {std::pair(4 * kSide, pieces), std::pair(2 * kSide, std::min<int64_t>(pieces, 4))}) {
    for (; 2 * made <= most; made *= 2) {
      int64_t& side = block.rows >= least ? block.rows : block.cols;
      if (side < least) break;
      side = ((side - 1) / 2 / kSide + 1) * kSide;
    }
  }
  return block;
}

// One matrix, or several that lie `size` apart, with rows (of a transposed one: columns) that lie `stride` apart.
memory::desc Matrices(int64_t batch, int64_t rows, int64_t cols, int64_t size, int64_t stride, bool transposed) {
  // oneDNN compares the strides of dense matrices, also where there is one.
  if (batch == 1) size = stride * (transposed ? cols : rows);
  const memory::dims strides = transposed ? memory::dims{size, 1, stride} : memory::dims{size, stride, 1};
  return {{batch, rows, cols}, memory::data_type::f32, strides};
}

Product MakeProduct(const GemmSize& s, bool add, const BlockSize& block) {
  // A slice of C's columns is dense only apart from C; its operands are dense where B is transposed.
  const bool apart = block.cols < s.n && s.transpose_b && !s.transpose_a;
  dnnl::primitive_attr attr = UserScratchpad();
  if (s.alpha != 1) attr.set_output_scales(0, {static_cast<float>(s.alpha)});
  if (add && !apart) {
    dnnl::post_ops ops;
    ops.append_sum();
    attr.set_post_ops(ops);
  }
  const memory::desc a = Matrices(block.batch, block.rows, s.k, s.m * s.k, s.transpose_a ? s.m : s.k, s.transpose_a);
  const memory::desc b = Matrices(block.batch, s.k, block.cols, s.k * s.n, s.transpose_b ? s.k : s.n, s.transpose_b);
  const memory::desc c = Matrices(block.batch, block.rows, block.cols, s.m * s.n, apart ? block.cols : s.n, false);
  const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c), attr, CpuEngine());
  return {0,
          0,
          0,
          block.batch,
          block.rows,
          block.cols,
          apart,
          dnnl::matmul(desc),
          {{DNNL_ARG_SRC, Unbound(a)},
           {DNNL_ARG_WEIGHTS, Unbound(b)},
           {DNNL_ARG_DST, Unbound(c)},
           {DNNL_ARG_SCRATCHPAD, Unbound(desc.scratchpad_desc())}}};
}

// The temporary space that a block takes.
size_t BytesOf(const Product& product) {
  return PieceSpace::BytesOf(product.arguments.at(DNNL_ARG_SCRATCHPAD)) +
         (product.apart ? PieceSpace::BytesOf(product.arguments.at(DNNL_ARG_DST)) : 0);
}

std::unique_ptr<Products> MakeProducts(const GemmSize& s, bool add) {
  auto products = std::make_unique<Products>();
  const BlockSize block = CutProduct(s);
  for (int64_t matrix = 0; matrix < s.batch; matrix += block.batch) {
    for (int64_t row = 0; row < s.m; row += block.rows) {
      for (int64_t col = 0; col < s.n; col += block.cols) {
        Product product = MakeProduct(
            s, add, {std::min(block.batch, s.batch - matrix), std::min(block.rows, s.m - row), std::min(block.cols, s.n - col)});
        product.a = matrix * s.m * s.k + (s.transpose_a ? row : row * s.k);
        product.b = matrix * s.k * s.n + (s.transpose_b ? col * s.k : col);
        product.c = (matrix * s.m + row) * s.n + col;
        products->bytes = std::max(products->bytes, BytesOf(product));
        products->blocks.push_back(std::move(product));
      }
    }
  }
  return products;
}

// C, and how it is written: `add` adds to it. `bias` may be null.
template <class C>
struct Result {
  const C* bias;
  bool add;
  C* c;
};

void RunProduct(const GemmSize& s, Product& product, const float* a, const float* b, const Result<float>& to, PieceSpace space) {
  float* const c = to.c + product.c;
  auto& arguments = product.arguments;
  Bind(arguments.at(DNNL_ARG_SRC), a + product.a);
  Bind(arguments.at(DNNL_ARG_WEIGHTS), b + product.b);
  if (product.apart) {
    space.Bind(arguments.at(DNNL_ARG_DST));
  } else {
    Bind(arguments.at(DNNL_ARG_DST), c);
  }
  space.Bind(arguments.at(DNNL_ARG_SCRATCHPAD));
  product.primitive.execute(CpuStream(), arguments);
  if (product.apart) {
    const float* const from = static_cast<const float*>(product.arguments.at(DNNL_ARG_DST).get_data_handle());
    StoreRows(from, product.rows, product.cols, to.add, c, s.n);
  }
  if (to.bias != nullptr) AddBias(to.bias + product.c % s.n, product.rows * product.batch, product.cols, c, s.n);
}

constexpr absl::string_view kWhat = "matrix product";

// Multiplications that are worth a piece of few rows, which takes some microseconds: B is read at the memory's speed.
constexpr int64_t kLeastOfRows = 3 << 14;

// Calls body(matrix, begin, end) for pieces of the columns of each matrix, `unit` columns or a multiple.
template <class Body>
void ForEachColumns(const OpContext& ctx, const GemmSize& s, int64_t unit, const Body& body) {
  const int64_t units = (s.n - 1) / unit + 1, each = s.m * unit * s.k;
  Parallel(ctx, s.batch * units, (kLeastOfRows - 1) / std::max<int64_t>(1, each) + 1, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      const int64_t matrix = begin / units, first = begin % units, taken = std::min(end - begin, units - first);
      body(matrix, first * unit, std::min((first + taken) * unit, s.n));
      begin += taken;
    }
  });
}

// Few rows, for which the packing of B would take longer than the product: B's columns lie dense, and are read once.
bool IsOfDots(const GemmSize& s, bool constant) {
  return s.transpose_b && s.m <= (constant ? 4 : 8) && (s.m == 1 || !s.transpose_a) && s.alpha == 1;
}
void MultiplyByDots(const OpContext& ctx, const GemmSize& s, const float* a, const float* b, const Result<float>& to) {
  ForEachColumns(ctx, s, 16, [&](int64_t matrix, int64_t begin, int64_t end) {
    const RowsPiece<float> piece = {a + matrix * s.m * s.k,
                                    b + (matrix * s.n + begin) * s.k,
                                    s.m,
                                    end - begin,
                                    s.k,
                                    to.bias == nullptr ? nullptr : to.bias + begin,
                                    to.add,
                                    to.c + matrix * s.m * s.n + begin,
                                    s.n};
    (HasAvx512() ? gemm_avx512::MultiplyDots<float> : gemm_avx2::MultiplyDots<float>)(piece);
  });
}

// One row times each matrix, whose rows lie dense.
absl::Status RowTimesMatrix(const OpContext& ctx, const GemmSize& s, const float* a, const float* b, const Result<float>& to) {
  const int64_t block = std::min(s.n, std::max<int64_t>(64, (int64_t{1} << 19) / s.k));
  const int64_t blocks = (s.n - 1) / block + 1;
  return ForEachPiece(ctx, kWhat, s.batch * blocks, 0, [&](int64_t i, PieceSpace) -> absl::Status {
    const int64_t matrix = i / blocks, col = i % blocks * block, cols = std::min(block, s.n - col);
    const float* const from = b + matrix * s.k * s.n + (s.transpose_b ? col * s.k : col);
    float* const c = to.c + matrix * s.n + col;
    const dnnl::status status = dnnl::sgemm('N', s.transpose_b ? 'T' : 'N', 1, cols, s.k, static_cast<float>(s.alpha),
                                            a + matrix * s.k, s.k, from, s.transpose_b ? s.k : s.n, to.add ? 1 : 0, c, s.n);
    if (status != dnnl::status::success) {
      return absl::InternalError(absl::StrCat("matrix product: oneDNN: status ", static_cast<int>(status)));
    }
    if (to.bias != nullptr) AddBias(to.bias + col, 1, cols, c, cols);
    return absl::OkStatus();
  });
}

// Some rows times a constant matrix, which is packed once in panels of two vectors' columns, and kept by the constants. A matrix that
// is not kept yet is packed for the call alone, so that the product has the same bits.
// A narrow matrix would be padded to more than twice its bytes.
bool IsOfPanels(const GemmSize& s) {
  const int64_t least = HasAvx512() ? gemm_avx512::kLanes<float> : gemm_avx2::kLanes<float>;
  return s.batch == 1 && s.m <= kMostPanelRows && s.n >= least && !s.transpose_a && s.alpha == 1;
}
bool IsOfConstantPanels(const OpContext& ctx, const GemmSize& s, const void* b) {
  return ctx.constants != nullptr && IsOfPanels(s) && ctx.constants->Contains(b);
}
// One panel is multiplied at a time where there is no space for all.
absl::Status MultiplyByPanels(const OpContext& ctx, const GemmSize& s, const float* a, const float* b, const Result<float>& to) {
  const int64_t width = 2 * (HasAvx512() ? gemm_avx512::kLanes<float> : gemm_avx2::kLanes<float>);
  const int64_t panels = (s.n - 1) / width + 1;
  const auto bytes_of = [&](int64_t count) { return static_cast<size_t>(count * width * s.k) * sizeof(float); };
  const auto pack = [&](int64_t first, int64_t count, void* into) {
    Parallel(ctx, count, 1 + kGrain / (width * s.k), [&](int64_t begin, int64_t end) {
      const int64_t col = (first + begin) * width, cols = std::min((first + end) * width, s.n) - col;
      (HasAvx512() ? gemm_avx512::PackPanels<float>
                   : gemm_avx2::PackPanels<float>)(b + col * (s.transpose_b ? s.k : 1), s.transpose_b ? s.k : s.n, s.transpose_b,
                                                   s.k, cols, static_cast<float*>(into) + begin * width * s.k);
    });
  };
  const auto multiply = [&](int64_t first, int64_t count, const void* packed) {
    const int64_t col = first * width;
    GemmSize part = s;
    part.n = std::min(col + count * width, s.n) - col;
    ForEachColumns(ctx, part, width, [&](int64_t, int64_t begin, int64_t end) {
      const RowsPiece<float> piece = {a,   static_cast<const float*>(packed) + begin * s.k,      s.m,    end - begin,
                                      s.k, to.bias == nullptr ? nullptr : to.bias + col + begin, to.add, to.c + col + begin,
                                      s.n};
      (HasAvx512() ? gemm_avx512::MultiplyPanels<float> : gemm_avx2::MultiplyPanels<float>)(piece);
    });
  };
  const std::string form = absl::StrCat("matrix product ", s.k, " ", s.n, " ", s.transpose_b);
  ASSIGN_OR_RETURN(const void* const kept, ctx.constants->Find(b, form, bytes_of(panels), [&](void* space) {
    pack(0, panels, space);
    return absl::OkStatus();
  }));
  if (kept != nullptr) return multiply(0, panels, kept), absl::OkStatus();
  int64_t count = panels;
  absl::StatusOr<void*> space = ctx.scratch->Get(bytes_of(count));
  if (!space.ok()) space = ctx.scratch->Get(bytes_of(count = 1));
  RETURN_IF_ERROR(space.status());
  for (int64_t first = 0; first < panels; first += count) {
    pack(first, count, *space);
    multiply(first, count, *space);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Products>> ProductsOf(const OpContext& ctx, const GemmSize& s, bool add) {
  const std::array<int64_t, 8> key = {s.m, s.n, s.k, s.batch, s.transpose_a, s.transpose_b, add, BitCast<int64_t>(s.alpha)};
  return Prepared<Products>(ctx.kernels, key, [&]() -> absl::StatusOr<std::unique_ptr<Products>> { return MakeProducts(s, add); });
}

absl::Status Multiply(const OpContext& ctx, const GemmSize& s, const float* a, const float* b, const Result<float>& to) {
  const bool constant = IsOfConstantPanels(ctx, s, b);
  if (IsOfDots(s, constant)) return MultiplyByDots(ctx, s, a, b, to), absl::OkStatus();
  if (s.m == 1) return RowTimesMatrix(ctx, s, a, b, to);
  if (constant) return MultiplyByPanels(ctx, s, a, b, to);
  std::shared_ptr<Products> products;
  RETURN_IF_ERROR(CallOneDnn(kWhat, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(products, ProductsOf(ctx, s, to.add));
    return absl::OkStatus();
  }));
  const int64_t blocks = static_cast<int64_t>(products->blocks.size());
  return ForEachPiece(ctx, kWhat, blocks, products->bytes, [&](int64_t i, PieceSpace space) {
    RunProduct(s, products->blocks[i], a, b, to, space);
    return absl::OkStatus();
  });
}

// Each of our threads computes rows of C. OpenBLAS itself stays single-threaded, as it would bring a pool of its own.
absl::Status Multiply(const OpContext& ctx, const GemmSize& s, const double* a, const double* b, const Result<double>& to) {
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
      cblas_dgemm(CblasRowMajor, s.transpose_a ? CblasTrans : CblasNoTrans, s.transpose_b ? CblasTrans : CblasNoTrans, rows, s.n,
                  s.k, s.alpha, a_rows, s.transpose_a ? s.m : s.k, b + matrix * s.k * s.n, s.transpose_b ? s.k : s.n,
                  to.add ? 1 : 0, to.c + begin * s.n, s.n);
      AddBias(to.bias, rows, s.n, to.c + begin * s.n, s.n);
      begin += rows;
    }
  });
  return absl::OkStatus();
}

}  // namespace

template <>
absl::Status Gemm<cpu>(const OpContext& ctx, DType dtype, const GemmSize& s, const void* a, const void* b, OpReqType req, void* c,
                       const void* bias) {
  if (req == kNullOp || s.batch == 0 || s.m == 0 || s.n == 0) return absl::OkStatus();
  const auto blob = [&](const void* data, int64_t n) { return TBlob{const_cast<void*>(data), Shape({n}), dtype, ctx.device}; };
  // Debian's oneDNN multiplies the types of 16 bits only on CPUs with AVX-512.
  return DispatchReal(dtype, [&](auto t) -> absl::Status {
    using C = decltype(t);
    ASSIGN_OR_RETURN(const C* from_a, (As<cpu, C>(ctx, blob(a, s.batch * s.m * s.k))));
    ASSIGN_OR_RETURN(const C* from_b, (As<cpu, C>(ctx, blob(b, s.batch * s.k * s.n))));
    const C* from_bias = nullptr;
    if (bias != nullptr) {
      ASSIGN_OR_RETURN(from_bias, (As<cpu, C>(ctx, blob(bias, s.n))));
    }
    Stage<cpu, C> to;
    RETURN_IF_ERROR(to.Begin(ctx, {blob(c, s.batch * s.m * s.n), req}, false));
    const bool add = to.req == kAddTo;
    if (s.k == 0) {  // Empty sums.
      if (!add) std::fill_n(to.data, s.batch * s.m * s.n, C(0));
      AddBias(from_bias, s.batch * s.m, s.n, to.data, s.n);
    } else {
      RETURN_IF_ERROR(Multiply(ctx, s, from_a, from_b, {from_bias, add, to.data}));
    }
    return to.Finish(ctx);
  });
}

absl::Status PrepareGemm(const OpContext& ctx, DType dtype, const GemmSize& s, const void* b, OpReqType req) {
  if (req == kNullOp || s.batch == 0 || s.m == 0 || s.n == 0 || s.k == 0 || dtype == DType::kFloat64) return absl::OkStatus();
  const bool constant = dtype == DType::kFloat32 && IsOfConstantPanels(ctx, s, b);
  if (s.m == 1 || constant || IsOfDots(s, constant)) return absl::OkStatus();
  return CallOneDnn(kWhat, [&] { return ProductsOf(ctx, s, dtype == DType::kFloat32 && req == kAddTo).status(); });
}

}  // namespace gluond::ops
