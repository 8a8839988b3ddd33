// _split_v2: an axis cut at given indices, or into a number of parts whose sizes differ by one at most.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/kernel/strided.h"
#include "ops/parts.h"

namespace gluond::ops {
namespace {

constexpr int64_t kMaxParts = 1 << 16;

struct SplitParam : Param<SplitParam> {
  std::vector<int64_t> indices;
  int axis;
  bool squeeze_axis;
  int64_t sections;
  static void Fields(Schema<SplitParam>& s) {
    s.Field("indices", &SplitParam::indices).Describe("Where each part begins, the first at 0; not used with sections.")
        .Check([](const std::vector<int64_t>& v) { return v.size() <= kMaxParts; }, "want at most 65536 parts")
        .Check([](const std::vector<int64_t>& v) {
          return std::is_sorted(v.begin(), v.end()) && (v.empty() || v[0] == 0);
        }, "want 0 first, and each index not below the one before");
    s.Field("axis", &SplitParam::axis).Default(1).Describe("The axis to cut.");
    s.Field("squeeze_axis", &SplitParam::squeeze_axis).Default(false).Describe(
        "Removes the axis, of which one element is left in each part.");
    s.Field("sections", &SplitParam::sections).Default(int64_t{0}).Range(0, kMaxParts).Describe(
        "Into how many parts, the first of them one larger where needed; 0: by indices.");
  }
};

int64_t PartsOf(const SplitParam& p) { return p.sections > 0 ? p.sections : static_cast<int64_t>(p.indices.size()); }

// Where part i of an axis of n begins; n for the one after the last.
int64_t BeginOf(const SplitParam& p, int64_t n, int64_t i) {
  if (p.sections > 0) return i * (n / p.sections) + std::min(i, n % p.sections);
  return i < PartsOf(p) ? p.indices[i] : n;
}

absl::StatusOr<bool> SplitShape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const SplitParam& p = attrs.param<SplitParam>();
  const Shape& x = (*in)[0];
  if (!x.rank_known()) return false;
  ASSIGN_OR_RETURN(const int axis, NormalizeAxis(p.axis, x.ndim()));
  if (x[axis] == Shape::kUnknown) return false;
  for (size_t i = 0; i < out->size(); ++i) {
    const int64_t begin = BeginOf(p, x[axis], i), end = BeginOf(p, x[axis], i + 1);
    if (end > x[axis] || begin > end || (p.squeeze_axis && end != begin + 1)) {
      return absl::InvalidArgumentError(absl::StrCat("part ", i, " of axis ", axis, " of input 0, ", x.ToString(),
                                                     ", would be from ", begin, " to ", end, "; want ",
                                                     p.squeeze_axis ? "one element" : "indices up to its size"));
    }
    Shape part = x;
    part[axis] = end - begin;
    SHAPE_ASSIGN_CHECK(out, i, p.squeeze_axis ? Removed(part, axis) : part);
  }
  return x.known();
}

struct Split {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> x,
                          absl::Span<const OpReqType> req, absl::Span<const TBlob> y) {
    const SplitParam& p = attrs.param<SplitParam>();
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(p.axis, x[0].shape.ndim()));
    for (size_t i = 0; i < y.size(); ++i) {
      const Shape part = p.squeeze_axis ? Inserted(y[i].shape, axis, 1) : y[i].shape;
      const int64_t begin = BeginOf(p, x[0].shape[axis], i);
      RETURN_IF_ERROR(CopyStrided<D>(ctx, Part(x[0].shape, part, axis, begin, false), x[0], req[i], y[i]));
    }
    return absl::OkStatus();
  }
};

GLUOND_REGISTER_OP(_split_v2)
    .describe("Cuts an axis at indices, or into sections; one output for each part.")
    .add_argument("data", "NDArray", "Any shape.")
    .add_arguments(SplitParam::__FIELDS__())
    .set_attr_parser([](NodeAttrs* attrs) -> absl::Status {
      RETURN_IF_ERROR(ParamParser<SplitParam>(attrs));
      if (PartsOf(attrs->param<SplitParam>()) > 0) return absl::OkStatus();
      return absl::InvalidArgumentError("parameter 'indices' is empty and 'sections' is 0; want one of them");
    })
    .set_num_outputs([](const NodeAttrs& attrs) { return static_cast<uint32_t>(PartsOf(attrs.param<SplitParam>())); })
    .set_attr<FInferShape>("FInferShape", SplitShape)
    .set_attr<FInferType>("FInferType", SameType)
    .set_attr<FGradient>("FGradient", [](const NodePtr& node, const Gradients& dy) -> Gradients {
      const SplitParam& p = node->param<SplitParam>();
      return {Call(p.squeeze_axis ? "stack" : "Concat", dy, {{p.squeeze_axis ? "axis" : "dim", absl::StrCat(p.axis)}})};
    })
    .compute<Split>();

}  // namespace
}  // namespace gluond::ops
