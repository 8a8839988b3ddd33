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

int64_t BlocksOf(const TBlob& x) { return (x.Size() + kBlock - 1) / kBlock; }

// Inputs as a kernel's parameter: input k has the blocks from first[k] to first[k + 1].
struct Blocked {
  static constexpr int kMost = 128;
  int count;
  const void* data[kMost];
  int64_t size[kMost], first[kMost + 1];
  DType dtype[kMost];

  void Add(const TBlob& x) {
    data[count] = x.data;
    size[count] = x.Size();
    dtype[count] = x.dtype;
    first[count + 1] = first[count] + BlocksOf(x);
    ++count;
  }
};

// partial[b] = the sum of F over block b. g++ vectorizes over plain pointers.
template <class F>
struct SumOfSquaresSumBlock {
  Blocked x;
  double* partial;

  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t block) const {
    int k = 0;
    for (int high = x.count; high - k > 1;) {
      const int middle = (k + high) / 2;
      (block < x.first[middle] ? high : k) = middle;
    }
    const int64_t begin = (block - x.first[k]) * kBlock, rest = x.size[k] - begin;
    const auto set = [&](auto values) {
      const double sum = g.Sum(rest < kBlock ? rest : kBlock, [&](int64_t i) { return F()(values[begin + i]); });
      if (g.first()) partial[block] = sum;
    };
    switch (x.dtype[k]) {
      case DType::kFloat32: return set(static_cast<const float*>(x.data[k]));
      case DType::kFloat64: return set(static_cast<const double*>(x.data[k]));
      case DType::kFloat16:
      case DType::kBfloat16: return set(InputOf<float>(k));
      default: return set(InputOf<double>(k));
    }
  }

 private:
  template <class C>
  HOST_DEVICE In<C> InputOf(int k) const {
    In<C> values;
    values.data = x.data[k];
    values.dtype = x.dtype[k];
    return values;
  }
};

// Calls done(inputs, index of the first, their block sums of F) for as many inputs at a time as one kernel takes.
template <class D, class F, class Done>
absl::Status SumBlocks(const OpContext& ctx, Blobs in, double* partial, const Done& done) {
  for (size_t k = 0; k < in.size();) {
    const size_t begin = k;
    Blocked x = {};
    for (; k < in.size() && x.count < Blocked::kMost; ++k) x.Add(in[k]);
    RETURN_IF_ERROR(ForEachGroup<D>(ctx, x.first[x.count], kBlock, SumOfSquaresSumBlock<F>{x, partial}));
    RETURN_IF_ERROR(done(x, static_cast<int64_t>(begin), partial));
    partial += x.first[x.count];
  }
  return absl::OkStatus();
}

int64_t BlocksOf(Blobs in) {
  int64_t blocks = 0;
  for (const TBlob& x : in) blocks += BlocksOf(x);
  return blocks;
}

// y[begin + k] = the sum of input k's blocks.
struct SetSums {
  Blocked x;
  int64_t begin;
  const double* partial;
  Out<float> y;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t k) const {
    const double* const own = partial + x.first[k];
    const double sum = g.Sum(x.first[k + 1] - x.first[k], [&](int64_t i) { return own[i]; });
    if (g.first()) y.Set(begin + k, static_cast<float>(sum));
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
    const int64_t blocks = BlocksOf(in);
    ASSIGN_OR_RETURN(double* const partial, Space<double>(ctx, blocks + 1));
    return SumBlocks<D, SquareTerm>(ctx, in, partial, [&](const Blocked& x, int64_t begin, const double* sums) {
      return ForEachGroup<D>(ctx, x.count, blocks, SetSums{x, begin, sums, Out<float>(out[0], req[0])});
    });
  }
};

template <class P>
struct AllFinite {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp) return absl::OkStatus();
    const int64_t blocks = BlocksOf(in);
    ASSIGN_OR_RETURN(double* const partial, Space<double>(ctx, blocks + 1));
    const auto nothing = [](const Blocked&, int64_t, const double*) { return absl::OkStatus(); };
    RETURN_IF_ERROR((SumBlocks<D, Zero>(ctx, in, partial, nothing)));
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
