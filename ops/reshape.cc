// Operators that change the shape and keep the elements: Reshape, reshape_like, Flatten, expand_dims, squeeze.

#include <algorithm>

#include "ops/axes.h"
#include "ops/kernel/copy.h"
#include "ops/operator.h"
#include "ops/parts.h"

namespace gluond::ops {
namespace {

using Dims = std::vector<int64_t>;

absl::Status ReshapeError(const Shape& x, const Dims& codes, absl::string_view why) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot reshape ", x.ToString(), " to ", param_internal::FormatValue(codes), ": ", why));
}

// MXNet's codes, read along x's axes:
//   n > 0   that size
//   0       x's size
//   -1      whatever is left (once)
//   -2      all of x's axes from here on
//   -3      the product of the next two
//   -4 a b  x's next axis split into a and b, of which one may be -1
// `reverse` reads both from the right, so that -4 stands behind its sizes: b a -4. Requires: x.known().
absl::StatusOr<Shape> ReshapeTo(const Shape& x, const Dims& codes, bool reverse) {
  Dims from(x.begin(), x.end()), read(codes.begin(), codes.end()), to;
  if (reverse) {
    std::reverse(from.begin(), from.end());
    std::reverse(read.begin(), read.end());
  }
  size_t at = 0;
  int inferred = -1;
  const auto take = [&](size_t n) { return at + n <= from.size() && (at += n, true); };
  for (size_t i = 0; i < read.size(); ++i) {
    const int64_t code = read[i];
    if (code > 0) {
      ++at;
      to.push_back(code);
    } else if (code == -1) {
      if (inferred >= 0) return ReshapeError(x, codes, "only one size can be -1");
      ++at;
      inferred = static_cast<int>(to.size());
      to.push_back(-1);
    } else if (code == 0) {
      if (!take(1)) return ReshapeError(x, codes, "0 has no axis to copy");
      to.push_back(from[at - 1]);
    } else if (code == -2) {
      for (; at < from.size(); ++at) to.push_back(from[at]);
    } else if (code == -3) {
      if (!take(2)) return ReshapeError(x, codes, "-3 has no two axes to join");
      to.push_back(from[at - 2] * from[at - 1]);
    } else if (code == -4) {
      if (i + 2 >= read.size()) {
        return ReshapeError(x, codes, reverse ? "with reverse, -4 stands behind two sizes" : "-4 is followed by two sizes");
      }
      if (!take(1)) return ReshapeError(x, codes, "-4 has no axis to split");
      const int64_t n = from[at - 1], a = read[++i], b = read[++i], known = a == -1 ? b : a;
      if ((a == -1 && b == -1) || known <= 0 || n % known != 0 || (a != -1 && b != -1 && (b <= 0 || n / a != b))) {
        return ReshapeError(x, codes, absl::StrCat("an axis of ", n, " does not split into ", a, " and ", b));
      }
      to.push_back(a == -1 ? n / b : a);
      to.push_back(b == -1 ? n / a : b);
    } else {
      return ReshapeError(x, codes, "codes are -4 to 0, or a size");
    }
  }
  if (inferred >= 0) {
    Dims rest = to;
    rest[inferred] = 1;
    ASSIGN_OR_RETURN(const Shape others, Shape::FromDims(rest));
    const int64_t product = others.Size();
    if (product == 0 || x.Size() % product != 0) {
      return ReshapeError(x, codes, absl::StrCat(x.Size(), " elements are no multiple of ", product));
    }
    to[inferred] = x.Size() / product;
  }
  if (reverse) std::reverse(to.begin(), to.end());
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims(to));
  if (y.Size() != x.Size()) {
    return ReshapeError(x, codes, absl::StrCat("it has ", x.Size(), " elements, and would have ", y.Size()));
  }
  return y;
}

// Sets the one unknown axis of `shape`, of which the number of elements is known.
void FillFromSize(Shape* shape, int64_t size) {
  int unknown = -1;
  int64_t product = 1;
  for (int axis = 0; axis < shape->ndim(); ++axis) {
    if ((*shape)[axis] != Shape::kUnknown) {
      product *= (*shape)[axis];
    } else if (unknown >= 0) {
      return;
    } else {
      unknown = axis;
    }
  }
  if (unknown >= 0 && product > 0 && size % product == 0) (*shape)[unknown] = size / product;
}

#define SAME_ELEMENTS(name) SAME_ELEMENTS_AS(name, "data")
#define SAME_ELEMENTS_AS(name, input)                                                                           \
  GLUOND_REGISTER_OP(name)                                                                                      \
      .add_argument(input, "NDArray", "Any shape.")                                                             \
      .set_attr<FInferType>("FInferType", FirstType)                                                            \
      .set_attr<FInplaceOption>("FInplaceOption", InplaceFirst)                                                 \
      .set_attr<FInplaceIdentity>("FInplaceIdentity", [](const NodeAttrs&) { return std::vector<bool>{true}; }) \
      .set_attr<FGradient>("FGradient",                                                                         \
                           [](const NodePtr& node, const Gradients& dy) {                                       \
                             Gradients dx(node->num_inputs());                                                  \
                             dx[0] = Call("reshape_like", {dy[0], node->inputs[0]});                            \
                             return dx;                                                                         \
                           })                                                                                   \
      .compute<CopyFirst>()

struct ReshapeParam : Param<ReshapeParam> {
  std::optional<Dims> shape;
  Dims target_shape;
  bool keep_highest, reverse;
  static void Fields(Schema<ReshapeParam>& s) {
    s.Field("shape", &ReshapeParam::shape)
        .Default(std::nullopt)
        .Describe(
            "Required. Sizes, or codes: 0 keeps an axis, -1 is what is left, -2 keeps all further axes, -3 joins two, -4 "
            "splits one.");
    s.Field("reverse", &ReshapeParam::reverse).Default(false).Describe("Reads shape and codes from the right.");
    s.Field("target_shape", &ReshapeParam::target_shape)
        .Default(Dims())
        .Describe("The shape in old models, where `shape` is missing; 0 is what is left.");
    s.Field("keep_highest", &ReshapeParam::keep_highest).Default(false).Describe("target_shape keeps axis 0.");
  }

  absl::StatusOr<Dims> Codes() const {
    if (shape) return *shape;
    if (target_shape.empty()) {
      return absl::InvalidArgumentError("Required parameter shape of tuple of int is not presented");
    }
    Dims codes = target_shape;
    std::replace(codes.begin(), codes.end(), 0, -1);
    if (keep_highest) codes[0] = 0;
    return codes;
  }
};

SAME_ELEMENTS(Reshape)
    .describe("The same elements in another shape.")
    .add_alias("reshape")
    .params<ReshapeParam>()
    .set_attr<FInferShape>("FInferShape", [](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
      const ReshapeParam& p = attrs.param<ReshapeParam>();
      ASSIGN_OR_RETURN(const Dims codes, p.Codes());
      if ((*out)[0].known()) FillFromSize(&(*in)[0], (*out)[0].Size());
      if (!(*in)[0].known()) return false;
      ASSIGN_OR_RETURN(const Shape y, ReshapeTo((*in)[0], codes, p.reverse && p.shape));
      SHAPE_ASSIGN_CHECK(out, 0, y);
      return true;
    });

struct ReshapeLikeParam : Param<ReshapeLikeParam> {
  std::optional<int> lhs_begin, lhs_end, rhs_begin, rhs_end;
  static void Fields(Schema<ReshapeLikeParam>& s) {
    s.Field("lhs_begin", &ReshapeLikeParam::lhs_begin).Default(std::nullopt).Describe("First axis to replace.");
    s.Field("lhs_end", &ReshapeLikeParam::lhs_end).Default(std::nullopt).Describe("End of the axes to replace.");
    s.Field("rhs_begin", &ReshapeLikeParam::rhs_begin).Default(std::nullopt).Describe("First axis to take.");
    s.Field("rhs_end", &ReshapeLikeParam::rhs_end).Default(std::nullopt).Describe("End of the axes to take.");
  }
};

absl::StatusOr<int> AxisBound(const std::optional<int>& at, int otherwise, int ndim) {
  const int axis = at.value_or(otherwise);
  if (axis < -ndim || axis > ndim) {
    return absl::InvalidArgumentError(absl::StrCat("axis bound ", axis, " is out of range for rank ", ndim));
  }
  return axis < 0 ? axis + ndim : axis;
}

absl::StatusOr<bool> ReshapeLikeShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const ReshapeLikeParam& p = attrs.param<ReshapeLikeParam>();
  const Shape& rhs = (*in)[1];
  const bool whole = !p.lhs_begin && !p.lhs_end && !p.rhs_begin && !p.rhs_end;
  if (whole) {
    SHAPE_ASSIGN_CHECK(out, 0, rhs);
    SHAPE_ASSIGN_CHECK(in, 1, (*out)[0]);
  }
  if (rhs.known() && whole) FillFromSize(&(*in)[0], rhs.Size());
  const Shape& lhs = (*in)[0];
  if (!lhs.known() || !rhs.known()) return false;
  ASSIGN_OR_RETURN(const int lhs_begin, AxisBound(p.lhs_begin, 0, lhs.ndim()));
  ASSIGN_OR_RETURN(const int lhs_end, AxisBound(p.lhs_end, lhs.ndim(), lhs.ndim()));
  ASSIGN_OR_RETURN(const int rhs_begin, AxisBound(p.rhs_begin, 0, rhs.ndim()));
  ASSIGN_OR_RETURN(const int rhs_end, AxisBound(p.rhs_end, rhs.ndim(), rhs.ndim()));
  Dims dims(lhs.begin(), lhs.begin() + lhs_begin);
  for (int axis = rhs_begin; axis < rhs_end; ++axis) dims.push_back(rhs[axis]);
  for (int axis = std::max(lhs_begin, lhs_end); axis < lhs.ndim(); ++axis) dims.push_back(lhs[axis]);
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims(dims));
  if (y.Size() != lhs.Size()) {
    return absl::InvalidArgumentError(absl::StrCat("input 0 has shape ", lhs.ToString(),
                                                   ", which has not as many "
                                                   "elements as ",
                                                   y.ToString()));
  }
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return true;
}

SAME_ELEMENTS_AS(reshape_like, "lhs")
    .describe("lhs in the shape of rhs, or with some of its axes replaced by some of rhs'.")
    .set_num_inputs(2)
    .add_argument("rhs", "NDArray", "Only its shape is used.")
    .params<ReshapeLikeParam>()
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>)
    .set_attr<FInferShape>("FInferShape", ReshapeLikeShape);

SAME_ELEMENTS(Flatten)
    .describe("All axes but the first become one: (n, a, b, ...) to (n, a b ...).")
    .add_alias("flatten")
    .set_attr<FInferShape>("FInferShape", [](const NodeAttrs&, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
      const Shape& x = (*in)[0];
      if (!x.rank_known()) return false;
      Shape y = Shape::OfRank(2);
      y[0] = x.ndim() == 0 ? 1 : x[0];
      int64_t rest = 1;
      for (int axis = 1; axis < x.ndim(); ++axis) {
        rest = rest == Shape::kUnknown || x[axis] == Shape::kUnknown ? Shape::kUnknown : rest * x[axis];
      }
      y[1] = rest;
      SHAPE_ASSIGN_CHECK(out, 0, y);
      if (x.ndim() > 0 && x[0] == Shape::kUnknown) (*in)[0][0] = (*out)[0][0];
      return AllKnown(*in) && AllKnown(*out);
    });

struct ExpandDimsParam : Param<ExpandDimsParam> {
  int axis;
  static void Fields(Schema<ExpandDimsParam>& s) {
    s.Field("axis", &ExpandDimsParam::axis).Describe("Where the new axis stands in the output.");
  }
};

SAME_ELEMENTS(expand_dims)
    .describe("Inserts an axis of size 1.")
    .params<ExpandDimsParam>()
    .set_attr<FInferShape>("FInferShape", [](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
      const int ndim = (*in)[0].rank_known() ? (*in)[0].ndim() : (*out)[0].ndim() - 1;
      if (ndim < 0) return false;
      if (ndim == Shape::kMaxRank) {
        return absl::InvalidArgumentError(absl::StrCat("input 0 has rank ", ndim, " already, the highest there is"));
      }
      ASSIGN_OR_RETURN(const int at, NormalizeAxis(attrs.param<ExpandDimsParam>().axis, ndim + 1));
      const Shape x = (*in)[0].rank_known() ? (*in)[0] : Shape::OfRank(ndim);
      SHAPE_ASSIGN_CHECK(out, 0, Inserted(x, at, 1));
      SHAPE_ASSIGN_CHECK(in, 0, Removed((*out)[0], at));
      return AllKnown(*in);
    });

struct SqueezeParam : Param<SqueezeParam> {
  AxisList axis;
  static void Fields(Schema<SqueezeParam>& s) {
    s.Field("axis", &SqueezeParam::axis).Default(std::nullopt).Describe("The axes to remove; None: all of size 1.");
  }
};

SAME_ELEMENTS(squeeze)
    .describe("Removes axes of size 1.")
    .params<SqueezeParam>()
    .set_attr<FInferShape>("FInferShape", [](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
      const Shape& x = (*in)[0];
      const AxisList& axes = attrs.param<SqueezeParam>().axis;
      if (!x.rank_known() || (!axes && !x.known())) return false;
      uint32_t mask = 0;
      if (axes) {
        ASSIGN_OR_RETURN(mask, axes->empty() ? 0u : ReducedAxes(x.ndim(), axes, false));
      }
      for (int axis = 0; axis < x.ndim(); ++axis) {
        if (!axes && x[axis] == 1) mask |= 1u << axis;
        if ((mask >> axis & 1) && x[axis] != 1 && x[axis] != Shape::kUnknown) {
          return absl::InvalidArgumentError(
              absl::StrCat("axis ", axis, " of input 0, ", x.ToString(), ", has size ", x[axis], "; only size 1 can be squeezed"));
        }
      }
      SHAPE_ASSIGN_CHECK(out, 0, ReducedShape(x, mask, false));
      return AllKnown(*in);
    });

}  // namespace
}  // namespace gluond::ops
