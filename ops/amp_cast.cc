// amp_cast and amp_multicast: mixed precision inserts them. They change float16, bfloat16 and float32 to each other's
// types, and leave every other type as it is.

#include "ops/kernel/copy.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

bool IsCast(DType type) { return type == DType::kFloat32 || type == DType::kFloat16 || type == DType::kBfloat16; }

struct AmpCastParam : Param<AmpCastParam> {
  DType dtype;
  static void Fields(Schema<AmpCastParam>& s) {
    s.Field("dtype", &AmpCastParam::dtype).Describe("The type of y, where x is float16, bfloat16 or float32.");
  }
};

struct AmpMulticastParam : Param<AmpMulticastParam> {
  int num_outputs;
  bool cast_narrow;
  static void Fields(Schema<AmpMulticastParam>& s) {
    s.Field("num_outputs", &AmpMulticastParam::num_outputs)
        .Decides()
        .Range(1, 1 << 16)
        .Describe("The number of inputs, and of outputs; filled in when absent.");
    s.Field("cast_narrow", &AmpMulticastParam::cast_narrow)
        .Default(false)
        .Describe("To the narrowest of the inputs' types instead of the widest.");
  }
};

struct CastEach {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    for (size_t i = 0; i < y.size(); ++i) {
      if (x[i].dtype == y[i].dtype) {
        RETURN_IF_ERROR(Copy<D>(ctx, x[i], req[i], y[i]));
      } else {
        RETURN_IF_ERROR((Map<D, 1>(ctx, Identity(), &x[i], req[i], y[i])));
      }
    }
    return absl::OkStatus();
  }
};

Gradients CastBack(const NodePtr& node, const Gradients& dy) {
  Gradients dx;
  for (size_t i = 0; i < dy.size(); ++i) dx.push_back(Call("_cast_like", {dy[i], node->inputs[i]}));
  return dx;
}

absl::StatusOr<bool> AmpCastType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  const DType x = (*in)[0];
  if (x == DType::kUnknown) return false;
  TYPE_ASSIGN_CHECK(out, 0, IsCast(x) ? attrs.param<AmpCastParam>().dtype : x);
  return true;
}

// All inputs are cast to one type, the widest or the narrowest. float32 is wider than the others, which have no order.
absl::StatusOr<bool> AmpMulticastType(const NodeAttrs& attrs, TypeVector* in, TypeVector* out) {
  if (!AllKnown(*in)) return false;
  DType wide = DType::kUnknown, narrow = DType::kUnknown;
  for (DType x : *in) {
    if (!IsCast(x)) continue;
    wide = wide == DType::kUnknown || wide == x ? x : DType::kFloat32;
    if (narrow == DType::kUnknown || narrow == DType::kFloat32) narrow = x;
  }
  for (size_t i = 0; i < in->size(); ++i) {
    const DType common = attrs.param<AmpMulticastParam>().cast_narrow ? narrow : wide;
    TYPE_ASSIGN_CHECK(out, i, IsCast((*in)[i]) ? common : (*in)[i]);
  }
  return true;
}

GLUOND_REGISTER_OP(amp_cast)
    .describe("x as another type, if it is float16, bfloat16 or float32; else x.")
    .add_argument("data", "NDArray", "Any shape.")
    .params<AmpCastParam>()
    .infer(ElemwiseShape<1, 1>, AmpCastType)
    .set_attr<FGradient>("FGradient", CastBack)
    .compute<CastEach>();

GLUOND_REGISTER_OP(amp_multicast)
    .describe("All of float16, bfloat16 and float32 as one of these types; others as they are.")
    .add_argument("data", "NDArray[]", "Any shapes.")
    .params<AmpMulticastParam>()
    .with(Variadic<&AmpMulticastParam::num_outputs>("num_outputs"))
    .set_num_outputs(Count<&AmpMulticastParam::num_outputs>)
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs&, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
                             for (size_t i = 0; i < in->size(); ++i) {
                               SHAPE_ASSIGN_CHECK(out, i, (*in)[i]);
                               SHAPE_ASSIGN_CHECK(in, i, (*out)[i]);
                             }
                             return AllKnown(*in);
                           })
    .set_attr<FInferType>("FInferType", AmpMulticastType)
    .set_attr<FGradient>("FGradient", CastBack)
    .compute<CastEach>();

}  // namespace
}  // namespace gluond::ops
