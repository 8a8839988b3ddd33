// _rnn_param_concat: joins the flattened weights and biases of recurrent layers to RNN's vector of parameters. Unlike
// Concat it infers the inputs of unknown size from the whole: they share equally what the known ones leave (in a
// layer whose input is not known, the weights of each direction are of one size).

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/parts.h"

namespace gluond::ops {
namespace {

struct RnnConcatParam : Param<RnnConcatParam> {
  int num_args, dim;
  static void Fields(Schema<RnnConcatParam>& s) {
    s.Field("num_args", &RnnConcatParam::num_args).AtLeast(1).Describe("The number of inputs; filled in when absent.");
    s.Field("dim", &RnnConcatParam::dim).Default(1).Describe("The axis along which they are joined.");
  }
};

absl::StatusOr<bool> InferShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  Shape common = (*out)[0];
  for (size_t i = 0; i < in->size() && !common.rank_known(); ++i) common = (*in)[i];
  if (!common.rank_known()) return false;
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<RnnConcatParam>().dim, common.ndim()));
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
                                                     "; the known inputs have ", total, ", which leaves ", rest,
                                                     " for ", unknown, " inputs of one size"));
    }
    common[axis] = rest / unknown;
    for (size_t i = 0; i < in->size(); ++i) {
      if ((*in)[i][axis] == Shape::kUnknown) SHAPE_ASSIGN_CHECK(in, i, common);
    }
  }
  return AllKnown(*in) && AllKnown(*out);
}

struct RnnParamConcat {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(attrs.param<RnnConcatParam>().dim, y[0].shape.ndim()));
    int64_t at = 0;
    for (const TBlob& part : x) {
      RETURN_IF_ERROR(CopyStrided<D>(ctx, Part(y[0].shape, part.shape, axis, at, true), part, req[0], y[0]));
      at += part.shape[axis];
    }
    return absl::OkStatus();
  }
};

GLUOND_REGISTER_OP(_rnn_param_concat)
    .describe("Joins tensors along an axis, as Concat; inputs of unknown size are inferred from the whole.")
    .add_argument("data", "NDArray[]", "One or more, of one shape but for the axis.")
    .add_arguments(RnnConcatParam::__FIELDS__())
    .set_attr_parser(ParamParser<RnnConcatParam>)
    .set_attr<key_var_num_args>("key_var_num_args", "num_args")
    .set_num_inputs(
        [](const NodeAttrs& attrs) { return static_cast<uint32_t>(attrs.param<RnnConcatParam>().num_args); })
    .set_attr<FInferShape>("FInferShape", InferShape)
    .set_attr<FInferType>("FInferType", SameType)
    .set_attr<FGradient>("FGradient", ElemwiseGradUseIn{"_backward_Concat"})
    .compute<RnnParamConcat>();

}  // namespace
}  // namespace gluond::ops
