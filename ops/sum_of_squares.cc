// Questions of a trainer about many gradients at once: multi_sum_sq, the sum of squares of each; all_finite and
// multi_all_finite, whether every element is finite. Sums go by blocks of fixed size, so that they do not depend on the
// number of threads.

#include "ops/kernel/rows.h"
#include "ops/kernel/stage.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

constexpr int64_t kBlock = 8192;

struct SquareTerm {
  template <class C>
  HOST_DEVICE C operator()(C x) const {
    return x * x;
  }
};
// 0, or NaN for NaN and infinity: their sum tells whether one was there.
struct Zero {
  template <class C>
  HOST_DEVICE C operator()(C x) const {
    return x - x;
  }
};

// partial[b] = the sum of f over block b. X is In<C>, or const C* where g++ is to vectorize.
template <class F, class C, class X>
struct SumOfSquaresSumBlock {
  X x;
  int64_t n;
  double* partial;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t block) const {
    const int64_t begin = block * kBlock, rest = n - begin;
    const C sum = g.Sum(rest < kBlock ? rest : kBlock, [&](int64_t i) { return F()(x[begin + i]); });
    if (g.first()) partial[block] = sum;
  }
};

int64_t BlocksOf(const TBlob& x) { return (x.Size() + kBlock - 1) / kBlock; }
// Sets `partial`, of BlocksOf(x) numbers, to the block sums of F over x.
template <class D, class F>
absl::Status SumBlocks(const OpContext& ctx, const TBlob& x, double* partial) {
  return DispatchReal(x.dtype, [&]<class C>(C) {
    if (x.dtype == DTypeOf<C>) {
      return ForEachGroup<D>(ctx, BlocksOf(x), kBlock,
                             SumOfSquaresSumBlock<F, C, const C*>{static_cast<const C*>(x.data), x.Size(), partial});
    }
    return ForEachGroup<D>(ctx, BlocksOf(x), kBlock, SumOfSquaresSumBlock<F, C, In<C>>{In<C>(x), x.Size(), partial});
  });
}

struct SetSum {
  const double* partial;
  int64_t n, index;
  Out<float> y;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t) const {
    const double sum = g.Sum(n, [&](int64_t i) { return partial[i]; });
    if (g.first()) y.Set(index, static_cast<float>(sum));
  }
};
struct SetFinite {
  const double* partial;
  int64_t n;
  bool init;
  In<float> before;
  Out<float> y;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t) const {
    const double sum = g.Sum(n, [&](int64_t i) { return partial[i]; });
    if (g.first()) y.Set(0, sum == 0 && (init || before[0] != 0) ? 1.0f : 0.0f);
  }
};

struct MultiSumSqParam : Param<MultiSumSqParam> {
  int num_arrays;
  static void Fields(Schema<MultiSumSqParam>& s) {
    s.Field("num_arrays", &MultiSumSqParam::num_arrays).Decides().AtLeast(1).Describe("Number of inputs.");
  }
};
template <class P>
void InitField(Schema<P>& s) {
  s.Field("init_output", &P::init_output).Default(true).Describe("Start from 1, not from the output's value.");
}
struct AllFiniteParam : Param<AllFiniteParam> {
  bool init_output;
  static void Fields(Schema<AllFiniteParam>& s) { InitField(s); }
};
struct MultiAllFiniteParam : Param<MultiAllFiniteParam> {
  int num_arrays;
  bool init_output;
  static void Fields(Schema<MultiAllFiniteParam>& s) {
    s.Field("num_arrays", &MultiAllFiniteParam::num_arrays).Decides().Default(1).AtLeast(1).Describe("Number of inputs.");
    InitField(s);
  }
};

struct MultiSumSq {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp) return absl::OkStatus();
    for (size_t k = 0; k < in.size(); ++k) {
      const int64_t blocks = BlocksOf(in[k]);
      ASSIGN_OR_RETURN(double* partial, Space<double>(ctx, blocks + 1));
      RETURN_IF_ERROR((SumBlocks<D, SquareTerm>(ctx, in[k], partial)));
      RETURN_IF_ERROR(
          ForEachGroup<D>(ctx, 1, blocks, SetSum{partial, blocks, static_cast<int64_t>(k), Out<float>(out[0], req[0])}));
    }
    return absl::OkStatus();
  }
};

template <class P>
struct AllFinite {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp) return absl::OkStatus();
    int64_t blocks = 0;
    for (const TBlob& x : in) blocks += BlocksOf(x);
    ASSIGN_OR_RETURN(double* partial, Space<double>(ctx, blocks + 1));
    int64_t begin = 0;
    for (const TBlob& x : in) {
      RETURN_IF_ERROR((SumBlocks<D, Zero>(ctx, x, partial + begin)));
      begin += BlocksOf(x);
    }
    // A new output has no value to go on from: its memory is whatever was there.
    const bool init = attrs.param<P>().init_output || req[0] == kWriteTo;
    return ForEachGroup<D>(ctx, 1, blocks, SetFinite{partial, blocks, init, In<float>(out[0]), Out<float>(out[0], req[0])});
  }
};

// One float32 number, or one for each input.
template <bool each>
absl::StatusOr<bool> SumOfSquaresShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(out, 0, Shape({each ? static_cast<int64_t>(in->size()) : 1}));
  return AllKnown(*in);
}

GLUOND_REGISTER_OP(multi_sum_sq)
    .describe("y[k] = the sum of the squares of input k.")
    .add_argument("data", "NDArray[]", "Tensors of any shapes and types.")
    .params<MultiSumSqParam>()
    .with(Variadic<&MultiSumSqParam::num_arrays>("num_arrays"))
    .infer(SumOfSquaresShape<true>, FixedType<DType::kFloat32>)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .compute<MultiSumSq>();

GLUOND_REGISTER_OP(all_finite)
    .describe("1 if every element is finite, else 0.")
    .add_argument("data", "NDArray", "Any shape and type.")
    .params<AllFiniteParam>()
    .infer(SumOfSquaresShape<false>, FixedType<DType::kFloat32>)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .compute<AllFinite<AllFiniteParam>>();

GLUOND_REGISTER_OP(multi_all_finite)
    .describe("1 if every element of every input is finite, else 0.")
    .add_argument("data", "NDArray[]", "Tensors of any shapes and types.")
    .params<MultiAllFiniteParam>()
    .with(Variadic<&MultiAllFiniteParam::num_arrays>("num_arrays"))
    .infer(SumOfSquaresShape<false>, FixedType<DType::kFloat32>)
    .set_attr<FResourceRequest>("FResourceRequest", TempSpace)
    .compute<AllFinite<MultiAllFiniteParam>>();

}  // namespace
}  // namespace gluond::ops
