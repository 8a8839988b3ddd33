// Joining along an axis: Concat and its gradient, _rnn_param_concat, stack.

#include "ops/channel_blocks.h"
#include "ops/kernel/strided.h"
#include "ops/operator.h"
#include "ops/parts.h"

namespace gluond::ops {
namespace {

struct ConcatParam : Param<ConcatParam> {
  int num_args, dim;
  static void Fields(Schema<ConcatParam>& s) {
    s.Field("num_args", &ConcatParam::num_args).Decides().AtLeast(1).Describe("The number of inputs; filled in when absent.");
    s.Field("dim", &ConcatParam::dim).Default(1).Describe("The axis along which they are joined.");
  }
};
struct Concat {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<ConcatParam>().dim, y[0].shape.ndim()));
    int64_t at = 0;
    for (const TBlob& part : x) {
      RETURN_IF_ERROR(CopyStrided<D>(ctx, Part(y[0].shape, part.shape, axis, at, true), part, req[0], y[0]));
      at += part.shape[axis];
    }
    return absl::OkStatus();
  }
};

struct StackParam : Param<StackParam> {
  int axis, num_args;
  static void Fields(Schema<StackParam>& s) {
    s.Field("axis", &StackParam::axis).Default(0).Describe("Where the new axis stands in the output.");
    s.Field("num_args", &StackParam::num_args).Decides().AtLeast(1).Describe("The number of inputs; filled in when absent.");
  }
};

// Joins all inputs; they agree in all axes but one.
absl::StatusOr<bool> ConcatShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  Shape common = (*out)[0];
  for (size_t i = 0; i < in->size() && !common.rank_known(); ++i) common = (*in)[i];
  if (!common.rank_known()) return false;
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<ConcatParam>().dim, common.ndim()));
  common[axis] = Shape::kUnknown;
  int64_t total = 0;
  int unknown = -1;
  for (size_t i = 0; i < in->size(); ++i) {
    Shape x = (*in)[i];
    if (x.ndim() == common.ndim()) x[axis] = Shape::kUnknown;
    if (!ShapeAssign(&common, x)) {
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " has shape ", (*in)[i].ToString(), "; want ", common.ToString(),
                                                     ", with any size of axis ", axis));
    }
    const int64_t size = (*in)[i].rank_known() ? (*in)[i][axis] : Shape::kUnknown;
    if (size == Shape::kUnknown) {
      unknown = unknown == -1 ? static_cast<int>(i) : -2;
    } else if (total <= (int64_t{1} << 48)) {
      total += size;
    }
  }
  Shape y = common;
  if (unknown == -1) y[axis] = total;
  SHAPE_ASSIGN_CHECK(out, 0, y);
  common = (*out)[0];
  for (size_t i = 0; i < in->size(); ++i) {
    Shape x = common;
    x[axis] = static_cast<int>(i) == unknown && common[axis] >= total ? common[axis] - total : Shape::kUnknown;
    SHAPE_ASSIGN_CHECK(in, i, x);
  }
  return AllKnown(*in) && AllKnown(*out);
}

constexpr auto NumParts = Count<&ConcatParam::num_args>;

// Inputs: dy, then the inputs of Concat, of which only the shapes are used.
struct BackwardConcat {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs dx) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<ConcatParam>().dim, x[0].shape.ndim()));
    int64_t at = 0;
    for (size_t i = 0; i < dx.size(); ++i) {
      const Shape& part = dx[i].shape;
      RETURN_IF_ERROR(CopyStrided<D>(ctx, Part(x[0].shape, part, axis, at, false), x[0], req[i], dx[i]));
      at += part[axis];
    }
    return absl::OkStatus();
  }
};

GLUOND_REGISTER_OP(Concat)
    .describe("Joins tensors along an axis.")
    .add_alias("concat")
    .add_argument("data", "NDArray[]", "One or more, of one shape but for the axis.")
    .params<ConcatParam>()
    .with(Variadic<&ConcatParam::num_args>("num_args"))
    .infer(ConcatShape, SameType)
    .set_attr<FChannelBlocks>("FChannelBlocks",
                              [](const Node& node, absl::Span<const Shape>, int64_t block) {
                                return node.param<ConcatParam>().dim == 1 ? AsItIs(node, block) : BlockedCall();
                              })
    .set_attr<FGradient>("FGradient", ElemwiseGradUseIn{"_backward_Concat"})
    .compute<Concat>();

GLUOND_REGISTER_OP(_backward_Concat)
    .describe("The gradients of Concat's inputs: the parts of dy.")
    .params<ConcatParam>()
    .set_num_inputs([](const NodeAttrs& attrs) { return NumParts(attrs) + 1; })
    .set_num_outputs(NumParts)
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
                             for (size_t i = 0; i < out->size(); ++i) {
                               SHAPE_ASSIGN_CHECK(out, i, (*in)[i + 1]);
                               SHAPE_ASSIGN_CHECK(in, i + 1, (*out)[i]);
                             }
                             ShapeVector parts = *out, whole = {(*in)[0]};
                             ASSIGN_OR_RETURN(const bool known, ConcatShape(attrs, &parts, &whole));
                             (*in)[0] = whole[0];
                             return known;
                           })
    .set_attr<FInferType>("FInferType", SameType)
    .set_attr<FIgnoreInputs>("FIgnoreInputs",
                             [](const NodeAttrs& attrs) {
                               std::vector<uint32_t> ignored;
                               for (uint32_t i = 1; i <= NumParts(attrs); ++i) ignored.push_back(i);
                               return ignored;
                             })
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) {
                           Gradients dx(node->num_inputs());
                           dx[0] = Call("Concat", dy, node->attrs.dict);
                           return dx;
                         })
    .compute<BackwardConcat>();

absl::StatusOr<bool> StackShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  Shape x;
  for (size_t i = 0; i < in->size(); ++i) {
    if (ShapeAssign(&x, (*in)[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat("input ", i, " has shape ", (*in)[i].ToString(),
                                                   "; want that of "
                                                   "the others, ",
                                                   x.ToString()));
  }
  const int ndim = x.rank_known() ? x.ndim() : (*out)[0].ndim() - 1;
  if (ndim < 0) return false;
  if (ndim == Shape::kMaxRank) return absl::InvalidArgumentError("the inputs have the highest rank there is already");
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<StackParam>().axis, ndim + 1));
  if (!x.rank_known()) x = Shape::OfRank(ndim);
  SHAPE_ASSIGN_CHECK(out, 0, Inserted(x, axis, static_cast<int64_t>(in->size())));
  for (size_t i = 0; i < in->size(); ++i) SHAPE_ASSIGN_CHECK(in, i, Removed((*out)[0], axis));
  return AllKnown(*in);
}

struct Stack {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<StackParam>().axis, y[0].shape.ndim()));
    for (size_t i = 0; i < x.size(); ++i) {
      const Shape part = Inserted(x[i].shape, axis, 1);
      RETURN_IF_ERROR(CopyStrided<D>(ctx, Part(y[0].shape, part, axis, i, true), x[i], req[0], y[0]));
    }
    return absl::OkStatus();
  }
};

GLUOND_REGISTER_OP(stack)
    .describe("Joins tensors of one shape along a new axis.")
    .add_argument("data", "NDArray[]", "One or more of one shape.")
    .params<StackParam>()
    .with(Variadic<&StackParam::num_args>("num_args"))
    .infer(StackShape, SameType)
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) {
                           const StackParam& p = node->param<StackParam>();
                           const NodeEntry parts = Call("SliceChannel", {dy[0]},
                                                        {{"num_outputs", absl::StrCat(p.num_args)},
                                                         {"axis", absl::StrCat(p.axis)},
                                                         {"squeeze_axis", "True"}});
                           Gradients dx;
                           for (uint32_t i = 0; i < node->num_inputs(); ++i) dx.push_back(Output(parts.node, i));
                           return dx;
                         })
    .compute<Stack>();

// _rnn_param_concat: joins the flattened weights and biases of recurrent layers to RNN's vector of parameters. Unlike
// Concat, the operator infers inputs of unknown size from the whole: they share equally what the known inputs leave.
// (In a layer whose input is not known, the weights of each direction are of one size.)
absl::StatusOr<bool> RnnShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  Shape common = (*out)[0];
  for (size_t i = 0; i < in->size() && !common.rank_known(); ++i) common = (*in)[i];
  if (!common.rank_known()) return false;
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<ConcatParam>().dim, common.ndim()));
  common[axis] = Shape::kUnknown;
  int64_t total = 0, unknown = 0;
  for (size_t i = 0; i < in->size(); ++i) {
    SHAPE_ASSIGN_CHECK(in, i, common);
    const int64_t size = (*in)[i][axis];
    if (size == Shape::kUnknown) {
      ++unknown;
    } else if (total <= (int64_t{1} << 48)) {
      total += size;
    }
    common = (*in)[i];
    common[axis] = Shape::kUnknown;
  }
  if (unknown == 0) common[axis] = total;
  SHAPE_ASSIGN_CHECK(out, 0, common);
  common = (*out)[0];
  if (unknown > 0 && common[axis] != Shape::kUnknown) {
    const int64_t rest = common[axis] - total;
    if (rest < 0 || rest % unknown != 0) {
      return absl::InvalidArgumentError(absl::StrCat("the output has ", common[axis], " elements along axis ", axis,
                                                     "; the known inputs have ", total, ", which leaves ", rest, " for ", unknown,
                                                     " inputs of one size"));
    }
    common[axis] = rest / unknown;
    for (size_t i = 0; i < in->size(); ++i) {
      if ((*in)[i][axis] == Shape::kUnknown) SHAPE_ASSIGN_CHECK(in, i, common);
    }
  }
  return AllKnown(*in) && AllKnown(*out);
}

GLUOND_REGISTER_OP(_rnn_param_concat)
    .describe("Joins tensors along an axis, as Concat; inputs of unknown size are inferred from the whole.")
    .add_argument("data", "NDArray[]", "One or more, of one shape but for the axis.")
    .params<ConcatParam>()
    .with(Variadic<&ConcatParam::num_args>("num_args"))
    .infer(RnnShape, SameType)
    .set_attr<FGradient>("FGradient", ElemwiseGradUseIn{"_backward_Concat"})
    .compute<Concat>();

}  // namespace
}  // namespace gluond::ops
