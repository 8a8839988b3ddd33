#include "ops/kernel/gemm.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cblas.h"
#include "ops/kernel/cpu/gemm_panels.h"
#include "ops/kernel/cpu/onednn.h"
#include "ops/kernel/primitive_cache.h"
#include "ops/kernel/stage.h"

namespace gluond::ops {
namespace {

using dnnl::memory;

// A block of a product, with its arguments, so that binding pointers to them allocates nothing.
struct Product {
  int64_t a, b, c, rows, cols;  // Where its operands begin, and how large its block of C is.
  bool apart;                   // It is computed in temporary space of its own.
  dnnl::matmul primitive;
  std::unordered_map<int, memory> arguments;
};
struct Products {
  std::vector<Product> blocks;
  size_t bytes = 0;  // The temporary space of the block that takes most.
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

// Rows first: whole rows of A and C lie dense, which oneDNN's faster code asks for.
BlockSize CutProduct(const GemmSize& s) {
  constexpr int64_t kLeastSide = 64;
  const int64_t pieces = PieceCount(s);
  if (s.batch >= pieces) return {(s.batch - 1) / pieces + 1, s.m, s.n};
  BlockSize block = {1, s.m, s.n};
  for (int64_t made = s.batch; 2 * made <= pieces; made *= 2) {
    int64_t& side = block.rows >= 2 * kLeastSide ? block.rows : block.cols;
    if (side < 2 * kLeastSide) break;
    side = ((side - 1) / 2 / kLeastSide + 1) * kLeastSide;
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

void RunProduct(const GemmSize& s, Product& product, const float* a, const float* b, bool add, float* c, PieceSpace space) {
  auto& arguments = product.arguments;
  Bind(arguments.at(DNNL_ARG_SRC), a + product.a);
  Bind(arguments.at(DNNL_ARG_WEIGHTS), b + product.b);
  if (product.apart) {
    space.Bind(arguments.at(DNNL_ARG_DST));
  } else {
    Bind(arguments.at(DNNL_ARG_DST), c + product.c);
  }
  space.Bind(arguments.at(DNNL_ARG_SCRATCHPAD));
  product.primitive.execute(CpuStream(), arguments);
  if (!product.apart) return;
  const float* const from = static_cast<const float*>(product.arguments.at(DNNL_ARG_DST).get_data_handle());
  StoreRows(from, product.rows, product.cols, add, c + product.c, s.n);
}

// One row times each matrix, for which the packing of B would take longer than the product.
absl::Status RowTimesMatrix(const OpContext& ctx, const GemmSize& s, const float* a, const float* b, bool add, float* c) {
  const int64_t block = std::min(s.n, std::max<int64_t>(64, (int64_t{1} << 19) / s.k));
  const int64_t blocks = (s.n - 1) / block + 1;
  return ForEachPiece(ctx, "matrix product", s.batch * blocks, 0, [&](int64_t i, PieceSpace) -> absl::Status {
    const int64_t matrix = i / blocks, col = i % blocks * block, cols = std::min(block, s.n - col);
    const float* const from = b + matrix * s.k * s.n + (s.transpose_b ? col * s.k : col);
    const dnnl::status status =
        dnnl::sgemm('N', s.transpose_b ? 'T' : 'N', 1, cols, s.k, static_cast<float>(s.alpha), a + matrix * s.k, s.k, from,
                    s.transpose_b ? s.k : s.n, add ? 1 : 0, c + matrix * s.n + col, s.n);
    if (status == dnnl::status::success) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("matrix product: oneDNN: status ", static_cast<int>(status)));
  });
}

// The panels of `b`, which lie in *packed; null where `b` is no constant, or not to be packed. A constant's product is of
// panels, whether these are kept or not: it has the same bits, unless there is no memory for panels at all.
absl::StatusOr<PanelProduct*> FindPanels(const OpContext& ctx, const GemmSize& s, const float* b, const char** packed) {
  if (ctx.constants == nullptr || !PanelProduct::Fits(s) || !ctx.constants->Contains(b)) return nullptr;
  thread_local PrimitiveCache<std::array<int64_t, 4>, PanelProduct> cache;
  ASSIGN_OR_RETURN(PanelProduct* const panels,
                   cache.Get({s.m, s.n, s.k, s.transpose_b}, [&]() -> absl::StatusOr<std::unique_ptr<PanelProduct>> {
                     return std::make_unique<PanelProduct>(s, PieceCount(s));
                   }));
  const auto pack = [&](void* to) {
    panels->Pack(b, static_cast<char*>(to));
    return absl::OkStatus();
  };
  if (!panels->Prepare()) return nullptr;
  ASSIGN_OR_RETURN(const void* form, ctx.constants->Find(b, panels->form(), panels->bytes(), pack));
  if (form == nullptr) {
    const absl::StatusOr<void*> scratch = ctx.scratch->Get(panels->bytes());
    if (!scratch.ok()) return nullptr;
    RETURN_IF_ERROR(pack(*scratch));
    form = *scratch;
  }
  *packed = static_cast<const char*>(form);
  return panels;
}

absl::Status Multiply(const OpContext& ctx, const GemmSize& s, const float* a, const float* b, bool add, float* c) {
  constexpr absl::string_view kWhat = "matrix product";
  PanelProduct* panels = nullptr;
  const char* packed = nullptr;
  RETURN_IF_ERROR(CallOneDnn(kWhat, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(panels, FindPanels(ctx, s, b, &packed));
    return absl::OkStatus();
  }));
  if (panels != nullptr) return panels->Run(ctx, kWhat, a, packed, add, c);
  if (s.m == 1) return RowTimesMatrix(ctx, s, a, b, add, c);
  using Key = std::array<int64_t, 8>;
  thread_local PrimitiveCache<Key, Products> cache;
  const Key key = {s.m, s.n, s.k, s.batch, s.transpose_a, s.transpose_b, add, BitCast<int64_t>(s.alpha)};
  Products* products = nullptr;
  RETURN_IF_ERROR(CallOneDnn(kWhat, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(products, cache.Get(key, [&]() -> absl::StatusOr<std::unique_ptr<Products>> { return MakeProducts(s, add); }));
    return absl::OkStatus();
  }));
  const int64_t blocks = static_cast<int64_t>(products->blocks.size());
  return ForEachPiece(ctx, kWhat, blocks, products->bytes, [&](int64_t i, PieceSpace space) {
    RunProduct(s, products->blocks[i], a, b, add, c, space);
    return absl::OkStatus();
  });
}

// Each of our threads computes rows of C. OpenBLAS itself stays single-threaded, as it would bring a pool of its own.
absl::Status Multiply(const OpContext& ctx, const GemmSize& s, const double* a, const double* b, bool add, double* c) {
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
                  s.k, s.alpha, a_rows, s.transpose_a ? s.m : s.k, b + matrix * s.k * s.n, s.transpose_b ? s.k : s.n, add ? 1 : 0,
                  c + begin * s.n, s.n);
      begin += rows;
    }
  });
  return absl::OkStatus();
}

}  // namespace

template <>
absl::Status Gemm<cpu>(const OpContext& ctx, DType dtype, const GemmSize& s, const void* a, const void* b, OpReqType req, void* c) {
  if (req == kNullOp || s.batch == 0 || s.m == 0 || s.n == 0) return absl::OkStatus();
  const int64_t outputs = s.batch * s.m * s.n;
  if (s.k == 0) {  // An empty sum.
    if (req != kAddTo) std::memset(c, 0, outputs * SizeOf(dtype));
    return absl::OkStatus();
  }
  const auto blob = [&](const void* data, int64_t n) { return TBlob{const_cast<void*>(data), Shape({n}), dtype, ctx.device}; };
  // Debian's oneDNN multiplies the types of 16 bits only on CPUs with AVX-512.
  return DispatchReal(dtype, [&](auto t) -> absl::Status {
    using C = decltype(t);
    ASSIGN_OR_RETURN(const C* from_a, (As<cpu, C>(ctx, blob(a, s.batch * s.m * s.k))));
    ASSIGN_OR_RETURN(const C* from_b, (As<cpu, C>(ctx, blob(b, s.batch * s.k * s.n))));
    Stage<cpu, C> to;
    RETURN_IF_ERROR(to.Begin(ctx, {blob(c, outputs), req}, false));
    RETURN_IF_ERROR(Multiply(ctx, s, from_a, from_b, to.req == kAddTo, to.data));
    return to.Finish(ctx);
  });
}

}  // namespace gluond::ops
