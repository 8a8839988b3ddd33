// Sequences of unequal length in one tensor, (steps, batch, ...), or (batch, steps, ...) with axis 1: SequenceMask
// overwrites the elements beyond the end, SequenceLast takes each one's last element, SequenceReverse reverses each.
// Lengths may have any type; fractions are cut off.

#include "ops/elements.h"
#include "ops/kernel/copy.h"
#include "ops/kernel/length.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

template <class P>
void LengthField(Schema<P>& s) {
  s.Field("use_sequence_length", &P::use_sequence_length)
      .Decides()
      .Default(false)
      .Describe("Heed sequence_length; otherwise every sequence has all steps.");
}
template <class P>
void SequenceAxisField(Schema<P>& s) {
  s.Field("axis", &P::axis).Default(0).Range(0, 1).Describe("The axis of the steps: 0 or 1; the other is the batch's.");
}

struct SequenceMaskParam : Param<SequenceMaskParam> {
  bool use_sequence_length;
  double value;
  int axis;
  static void Fields(Schema<SequenceMaskParam>& s) {
    LengthField(s);
    s.Field("value", &SequenceMaskParam::value).Default(0.0).Describe("What elements beyond the end become.");
    SequenceAxisField(s);
  }
};
struct SequenceLastParam : Param<SequenceLastParam> {
  bool use_sequence_length;
  int axis;
  static void Fields(Schema<SequenceLastParam>& s) { LengthField(s), SequenceAxisField(s); }
};
struct SequenceReverseParam : Param<SequenceReverseParam> {
  bool use_sequence_length;
  int axis;
  static void Fields(Schema<SequenceReverseParam>& s) {
    LengthField(s);
    s.Field("axis", &SequenceReverseParam::axis).Default(0).Range(0, 0).Describe("The axis of the steps: 0.");
  }
};

// Maps the place of an element to its step, sequence and index inside, and back.
struct Steps {
  int64_t steps, batch, inner;
  bool steps_first;
  In<double> length;
  bool has_length;

  struct Place {
    int64_t step, sequence, inside;
  };
  HOST_DEVICE Place operator()(int64_t i) const {
    const int64_t outer = i / inner, inside = i % inner;
    if (steps_first) return {outer / batch, outer % batch, inside};
    return {outer % steps, outer / steps, inside};
  }
  HOST_DEVICE int64_t At(const Place& p) const {
    return (steps_first ? p.step * batch + p.sequence : p.sequence * steps + p.step) * inner + p.inside;
  }
  // In [0, steps], whatever the tensor says.
  HOST_DEVICE int64_t Length(int64_t sequence) const { return has_length ? ToLength(length[sequence], steps) : steps; }
};

// The steps of data of shape x; `length` is null when every sequence has all steps.
template <class P>
Steps SequenceStepsOf(const P& p, const Shape& x, const TBlob* length) {
  return {x[p.axis],
          x[1 - p.axis],
          x.Size(2, x.ndim()),
          p.axis == 0,
          p.use_sequence_length ? In<double>(*length) : In<double>(),
          p.use_sequence_length};
}

template <class C>
struct SequenceMaskElement {
  Steps steps;
  In<C> x;
  Out<C> y;
  C value;
  HOST_DEVICE void operator()(int64_t i) const {
    const Steps::Place p = steps(i);
    y.Set(i, p.step < steps.Length(p.sequence) ? x[i] : value);
  }
};
template <class C>
struct ReverseElement {
  Steps steps;
  In<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    Steps::Place p = steps(i);
    const int64_t length = steps.Length(p.sequence);
    if (p.step < length) p.step = length - 1 - p.step;
    y.Set(i, x[steps.At(p)]);
  }
};
// Element i of (batch, inner).
template <class C>
struct LastElement {
  Steps steps;
  In<C> x;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t sequence = i / steps.inner, length = steps.Length(sequence);
    y.Set(i, x[steps.At({length > 0 ? length - 1 : 0, sequence, i % steps.inner})]);
  }
};
template <class C>
struct BackwardLastElement {
  Steps steps;
  In<C> dy;
  Out<C> dx;
  HOST_DEVICE void operator()(int64_t i) const {
    const Steps::Place p = steps(i);
    const int64_t length = steps.Length(p.sequence), last = length > 0 ? length - 1 : 0;
    dx.Set(i, p.step == last ? dy[p.sequence * steps.inner + p.inside] : C(0));
  }
};

struct SequenceMask {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const auto& p = attrs.param<SequenceMaskParam>();
    if (!p.use_sequence_length) return Copy<D>(ctx, in[0], req[0], out[0]);
    return ForEachElement<D>(ctx, req[0], out[0], [&]<class C>(Out<C> z) {
      return SequenceMaskElement<C>{SequenceStepsOf(p, in[0].shape, &in[1]), In<C>(in[0]), z, Convert<C>(p.value)};
    });
  }
};

struct SequenceReverse {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const Steps steps = SequenceStepsOf(attrs.param<SequenceReverseParam>(), in[0].shape, in.size() > 1 ? &in[1] : nullptr);
    return ForEachElement<D>(ctx, req[0], out[0], [&]<class C>(Out<C> z) { return ReverseElement<C>{steps, In<C>(in[0]), z}; });
  }
};

// A CPU says which sequence has no last element; on a GPU the first stands for it.
template <class D>
absl::Status CheckLengths(const Steps& steps) {
  if constexpr (std::is_same_v<D, cpu>) {
    for (int64_t n = 0; steps.has_length && n < steps.batch; ++n) {
      const double v = steps.length[n];
      if (v >= 1 && v < static_cast<double>(steps.steps) + 1) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("sequence_length of sequence ", n, " is ", v, ", expected 1 to the ", steps.steps, " steps"));
    }
  }
  return absl::OkStatus();
}

struct SequenceLast {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    if (req[0] == kNullOp) return absl::OkStatus();
    const Steps steps = SequenceStepsOf(attrs.param<SequenceLastParam>(), in[0].shape, in.size() > 1 ? &in[1] : nullptr);
    RETURN_IF_ERROR(CheckLengths<D>(steps));
    return DispatchCompute(out[0].dtype, [&]<class C>(C) {
      return ForEach<D>(ctx, out[0].Size(), LastElement<C>{steps, In<C>(in[0]), Out<C>(out[0], req[0])});
    });
  }
};

struct BackwardSequenceLast {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs in, Requests req, Blobs out) {
    const Steps steps = SequenceStepsOf(attrs.param<SequenceLastParam>(), out[0].shape, in.size() > 2 ? &in[2] : nullptr);
    return ForEachElement<D>(ctx, req[0], out[0], [&]<class C>(Out<C> z) {
      return BackwardLastElement<C>{steps, In<C>(in[0]), z};
    });
  }
};

// The rules for x and its lengths, which are the inputs of these numbers.
template <class P>
absl::Status InferLengths(const P& p, ShapeVector* in, int data, int lengths) {
  const Shape x = (*in)[data];
  if (!x.rank_known()) return absl::OkStatus();
  if (x.ndim() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", data, " 'data' has shape ", x.ToString(), ", expected rank 2 or more: steps and batch"));
  }
  if (p.use_sequence_length) SHAPE_ASSIGN_CHECK(in, lengths, Shape({x[1 - p.axis]}));
  return absl::OkStatus();
}

template <class P>
absl::StatusOr<bool> LengthsShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  RETURN_IF_ERROR(InferLengths(attrs.param<P>(), in, 0, 1));
  return AllKnown(*in) && AllKnown(*out);
}

absl::StatusOr<bool> LastShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const auto& p = attrs.param<SequenceLastParam>();
  RETURN_IF_ERROR(InferLengths(p, in, 0, 1));
  const Shape x = (*in)[0];
  if (!x.rank_known()) return false;
  if (x[p.axis] == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("input 0 'data' has shape ", x.ToString(), ", expected one step or more along axis ", p.axis));
  }
  Shape y = {x[1 - p.axis]};
  for (int axis = 2; axis < x.ndim(); ++axis) y.Append(x[axis]);
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return AllKnown(*in) && AllKnown(*out);
}

// Lengths may have any type; where nothing is said, they have x's.
template <int data>
absl::StatusOr<bool> SequenceType(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  for (int i = 0; i <= data; ++i) {
    TYPE_ASSIGN_CHECK(out, 0, (*in)[i]);
    TYPE_ASSIGN_CHECK(in, i, (*out)[0]);
  }
  if (in->size() > data + 1 && in->back() == DType::kUnknown) in->back() = (*in)[0];
  return AllKnown(*in);
}

template <class P>
uint32_t SequenceNumInputs(const NodeAttrs& attrs) {
  return attrs.param<P>().use_sequence_length ? 2 : 1;
}

// A call of `op` on x, and on the node's lengths if there are any after its first `data` inputs.
Gradients OfData(const NodePtr& node, uint32_t data, const char* op, std::vector<NodeEntry> x, const AttrDict& dict) {
  if (node->num_inputs() > data) x.push_back(node->inputs.back());
  Gradients dx(node->num_inputs());
  dx[0] = Call(op, std::move(x), dict);
  return dx;
}

#define SEQUENCE(name, P)                                                                                          \
  GLUOND_REGISTER_OP(name)                                                                                         \
      .add_argument("data", "NDArray", "x: (steps, batch, ...); with axis 1, (batch, steps, ...).")                \
      .add_argument("sequence_length", "NDArray", "(batch), of any type; with use_sequence_length.")               \
      .params<P>()                                                                                                 \
      .set_num_inputs(SequenceNumInputs<P>)                                                                        \
      .set_attr<FListInputNames>("FListInputNames", FirstNames({"data", "sequence_length"}, SequenceNumInputs<P>)) \
      .set_attr<FInferType>("FInferType", SequenceType<0>)

SEQUENCE(SequenceMask, SequenceMaskParam)
    .describe("y = x, with `value` beyond each sequence's end.")
    .set_attr<FInferShape>("FInferShape", LikeFirst<LengthsShape<SequenceMaskParam>>())
    .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) {
                           AttrDict dict = node->attrs.dict;
                           dict["value"] = "0";
                           return OfData(node, 1, "SequenceMask", {dy[0]}, dict);
                         })
    .compute<SequenceMask>();

SEQUENCE(SequenceReverse, SequenceReverseParam)
    .describe("Each sequence in reverse; what lies beyond its end stays.")
    .set_attr<FInferShape>("FInferShape", LikeFirst<LengthsShape<SequenceReverseParam>>())
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) {
                           return OfData(node, 1, "SequenceReverse", {dy[0]}, node->attrs.dict);
                         })
    .compute<SequenceReverse>();

SEQUENCE(SequenceLast, SequenceLastParam)
    .describe(
        "The last element of each sequence: (batch, ...). A length of 0 is an error on a CPU; on a GPU the first "
        "element is taken.")
    .set_attr<FInferShape>("FInferShape", LastShape)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) {
                           return OfData(node, 1, "_backward_SequenceLast", {dy[0], node->inputs[0]}, node->attrs.dict);
                         })
    .compute<SequenceLast>();

GLUOND_REGISTER_OP(_backward_SequenceLast)
    .describe("dx = dy at each sequence's last element, else 0.")
    .add_argument("out_grad", "NDArray", "dL/dy.")
    .add_argument("data", "NDArray", "x, for its shape only.")
    .add_argument("sequence_length", "NDArray", "(batch), with use_sequence_length.")
    .params<SequenceLastParam>()
    .set_num_inputs([](const NodeAttrs& attrs) { return SequenceNumInputs<SequenceLastParam>(attrs) + 1; })
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
                             SHAPE_ASSIGN_CHECK(out, 0, (*in)[1]);
                             RETURN_IF_ERROR(InferLengths(attrs.param<SequenceLastParam>(), in, 1, 2));
                             return AllKnown(*in) && AllKnown(*out);
                           })
    .set_attr<FInferType>("FInferType", SequenceType<1>)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node,
                                         const Gradients& g) { return OfData(node, 2, "SequenceLast", {g[0]}, node->attrs.dict); })
    .compute<BackwardSequenceLast>();

}  // namespace
}  // namespace gluond::ops
