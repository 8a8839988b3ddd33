// Joining and cutting along an axis: Concat and its gradient, stack, SliceChannel.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/strided.h"
#include "ops/parts.h"

namespace gluond::ops {
namespace {

struct ConcatParam : Param<ConcatParam> {
  int num_args, dim;
  static void Fields(Schema<ConcatParam>& s) {
    s.Field("num_args", &ConcatParam::num_args).AtLeast(1).Describe("The number of inputs; filled in when absent.");
    s.Field("dim", &ConcatParam::dim).Default(1).Describe("The axis along which they are joined.");
  }
};

struct StackParam : Param<StackParam> {
  int axis, num_args;
  static void Fields(Schema<StackParam>& s) {
    s.Field("axis", &StackParam::axis).Default(0).Describe("Where the new axis stands in the output.");
    s.Field("num_args", &StackParam::num_args).AtLeast(1).Describe("The number of inputs; filled in when absent.");
  }
};

struct SplitParam : Param<SplitParam> {
  int num_outputs, axis;
  bool squeeze_axis;
  static void Fields(Schema<SplitParam>& s) {
    s.Field("num_outputs", &SplitParam::num_outputs).Range(1, 1 << 16).Describe("Into how many equal parts.");
    s.Field("axis", &SplitParam::axis).Default(1).Describe("The axis to cut.");
    s.Field("squeeze_axis", &SplitParam::squeeze_axis).Default(false).Describe(
        "Removes the axis, of which one element is left in each part.");
  }
};

template <class P>
uint32_t NumArgs(const NodeAttrs& attrs) { return static_cast<uint32_t>(attrs.param<P>().num_args); }

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
      return absl::InvalidArgumentError(absl::StrCat("input ", i, " has shape ", (*in)[i].ToString(), "; want ",
                                                     common.ToString(), ", with any size of axis ", axis));
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

struct Concat {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<ConcatParam>().dim, y[0].shape.ndim()));
    int64_t at = 0;
    for (const TBlob& part : x) {
      RETURN_IF_ERROR(CopyStrided<D>(ctx, Part(y[0].shape, part.shape, axis, at, true), part, req[0], y[0]));
      at += part.shape[axis];
    }
    return absl::OkStatus();
  }
};

// Inputs: dy, then the inputs of Concat, of which only the shapes are used.
struct BackwardConcat {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> dx) {
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
    .add_arguments(ConcatParam::__FIELDS__())
    .set_attr_parser(ParamParser<ConcatParam>)
    .set_attr<key_var_num_args>("key_var_num_args", "num_args")
    .set_num_inputs(NumArgs<ConcatParam>)
    .set_attr<FInferShape>("FInferShape", ConcatShape)
    .set_attr<FInferType>("FInferType", SameType)
    .set_attr<FGradient>("FGradient", ElemwiseGradUseIn{"_backward_Concat"})
    .compute<Concat>();

GLUOND_REGISTER_OP(_backward_Concat)
    .describe("The gradients of Concat's inputs: the parts of dy.")
    .add_arguments(ConcatParam::__FIELDS__())
    .set_attr_parser(ParamParser<ConcatParam>)
    .set_num_inputs([](const NodeAttrs& attrs) { return NumArgs<ConcatParam>(attrs) + 1; })
    .set_num_outputs(NumArgs<ConcatParam>)
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
    .set_attr<FIgnoreInputs>("FIgnoreInputs", [](const NodeAttrs& attrs) {
      std::vector<uint32_t> ignored;
      for (uint32_t i = 1; i <= NumArgs<ConcatParam>(attrs); ++i) ignored.push_back(i);
      return ignored;
    })
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) {
      Gradients dx(node->num_inputs());
      dx[0] = Call("Concat", dy, node->attrs.dict);
      return dx;
    })
    .compute<BackwardConcat>();

absl::StatusOr<bool> StackShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  Shape x;
  for (size_t i = 0; i < in->size(); ++i) {
    if (ShapeAssign(&x, (*in)[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat("input ", i, " has shape ", (*in)[i].ToString(), "; want that of "
                                                   "the others, ", x.ToString()));
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
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
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
    .add_arguments(StackParam::__FIELDS__())
    .set_attr_parser(ParamParser<StackParam>)
    .set_attr<key_var_num_args>("key_var_num_args", "num_args")
    .set_num_inputs(NumArgs<StackParam>)
    .set_attr<FInferShape>("FInferShape", StackShape)
    .set_attr<FInferType>("FInferType", SameType)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) {
      const StackParam& p = node->param<StackParam>();
      const NodeEntry parts = Call("SliceChannel", {dy[0]}, {{"num_outputs", absl::StrCat(p.num_args)},
                                                             {"axis", absl::StrCat(p.axis)},
                                                             {"squeeze_axis", "True"}});
      Gradients dx;
      for (uint32_t i = 0; i < node->num_inputs(); ++i) dx.push_back(Output(parts.node, i));
      return dx;
    })
    .compute<Stack>();

absl::StatusOr<bool> SplitShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const SplitParam& p = attrs.param<SplitParam>();
  if (!(*in)[0].rank_known() && (*out)[0].rank_known()) {
    const int ndim = (*out)[0].ndim() + (p.squeeze_axis ? 1 : 0);
    if (ndim <= Shape::kMaxRank) (*in)[0] = Shape::OfRank(ndim);
  }
  Shape x = (*in)[0];
  if (!x.rank_known()) return false;
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(p.axis, x.ndim()));
  if (x[axis] != Shape::kUnknown && (x[axis] % p.num_outputs != 0 || (p.squeeze_axis && x[axis] != p.num_outputs))) {
    return absl::InvalidArgumentError(absl::StrCat("axis ", axis, " of input 0, ", x.ToString(), ", does not split into ",
                                                   p.num_outputs, p.squeeze_axis ? " parts of 1" : " equal parts"));
  }
  Shape part = x;
  if (part[axis] != Shape::kUnknown) part[axis] /= p.num_outputs;
  if (p.squeeze_axis) part = Removed(part, axis);
  for (const Shape& y : *out) {
    if (ShapeAssign(&part, y)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("outputs have shapes ", part.ToString(), " and ", y.ToString(), "; want one shape"));
  }
  for (size_t i = 0; i < out->size(); ++i) SHAPE_ASSIGN_CHECK(out, i, part);
  if (p.squeeze_axis) part = Inserted(part, axis, 1);
  if (part[axis] > (int64_t{1} << 48) / p.num_outputs) {
    return absl::InvalidArgumentError("the parts are too large to be of one tensor of 2^48 elements");
  }
  if (part[axis] != Shape::kUnknown) part[axis] *= p.num_outputs;
  SHAPE_ASSIGN_CHECK(in, 0, part);
  return AllKnown(*in);
}

struct Split {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    const SplitParam& p = attrs.param<SplitParam>();
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(p.axis, x[0].shape.ndim()));
    for (size_t i = 0; i < y.size(); ++i) {
      const Shape part = p.squeeze_axis ? Inserted(y[i].shape, axis, 1) : y[i].shape;
      const int64_t at = static_cast<int64_t>(i) * part[axis];
      RETURN_IF_ERROR(CopyStrided<D>(ctx, Part(x[0].shape, part, axis, at, false), x[0], req[i], y[i]));
    }
    return absl::OkStatus();
  }
};

GLUOND_REGISTER_OP(SliceChannel)
    .describe("Cuts an axis into equal parts, one output each.")
    .add_alias("split")
    .add_argument("data", "NDArray", "Any shape.")
    .add_arguments(SplitParam::__FIELDS__())
    .set_attr_parser(ParamParser<SplitParam>)
    .set_num_outputs(
        [](const NodeAttrs& attrs) { return static_cast<uint32_t>(attrs.param<SplitParam>().num_outputs); })
    // Numbered even when there is one, as in MXNet.
    .set_attr<FListOutputNames>("FListOutputNames",
                                [](const NodeAttrs& attrs) {
                                  std::vector<std::string> names;
                                  for (int i = 0; i < attrs.param<SplitParam>().num_outputs; ++i) {
                                    names.push_back(absl::StrCat("output", i));
                                  }
                                  return names;
                                })
    .set_attr<FInferShape>("FInferShape", SplitShape)
    .set_attr<FInferType>("FInferType", SameType)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      const SplitParam& p = node->param<SplitParam>();
      return {Call(p.squeeze_axis ? "stack" : "Concat", dy, {{p.squeeze_axis ? "axis" : "dim", absl::StrCat(p.axis)}})};
    })
    .compute<Split>();

}  // namespace
}  // namespace gluond::ops
