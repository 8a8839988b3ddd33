// Cutting along an axis: SliceChannel, into equal parts, and _split_v2, at given indices or into a number of parts
// whose sizes differ by one at most.

#include "ops/kernel/strided.h"
#include "ops/operator.h"
#include "ops/parts.h"

namespace gluond::ops {
namespace {

// Both operators have this parameter and this gradient.
template <class P>
void SqueezeField(Schema<P>& s) {
  s.Field("squeeze_axis", &P::squeeze_axis).Default(false).Describe("Removes the axis, of which one element is left in each part.");
}
template <class P>
Gradients SplitGradient(const NodePtr& node, const Gradients& dy) {
  const P& p = node->param<P>();
  return {Call(p.squeeze_axis ? "stack" : "Concat", dy, {{p.squeeze_axis ? "axis" : "dim", absl::StrCat(p.axis)}})};
}

struct SplitParam : Param<SplitParam> {
  int num_outputs, axis;
  bool squeeze_axis;
  static void Fields(Schema<SplitParam>& s) {
    s.Field("num_outputs", &SplitParam::num_outputs).Decides().Range(1, 1 << 16).Describe("Into how many equal parts.");
    s.Field("axis", &SplitParam::axis).Default(1).Describe("The axis to cut.");
    SqueezeField(s);
  }
};

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

// The index at which part i of an axis of n elements begins.
int64_t BeginOf(const SplitParam& p, int64_t n, int64_t i) { return i * (n / p.num_outputs); }

template <class P>
struct Split {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    const P& p = attrs.param<P>();
    ASSIGN_OR_RETURN(const int axis, NormalizeAxis(p.axis, x[0].shape.ndim()));
    for (size_t i = 0; i < y.size(); ++i) {
      const Shape part = p.squeeze_axis ? Inserted(y[i].shape, axis, 1) : y[i].shape;
      const int64_t begin = BeginOf(p, x[0].shape[axis], i);
      RETURN_IF_ERROR(CopyStrided<D>(ctx, Part(x[0].shape, part, axis, begin, false), x[0], req[i], y[i]));
    }
    return absl::OkStatus();
  }
};

GLUOND_REGISTER_OP(SliceChannel)
    .describe("Cuts an axis into equal parts, one output each.")
    .add_alias("split")
    .add_argument("data", "NDArray", "Any shape.")
    .params<SplitParam>()
    .set_num_outputs(Count<&SplitParam::num_outputs>)
    // Numbered even when there is one, as in MXNet.
    .set_attr<FListOutputNames>("FListOutputNames",
                                [](const NodeAttrs& attrs) {
                                  std::vector<std::string> names;
                                  for (int i = 0; i < attrs.param<SplitParam>().num_outputs; ++i)
                                    names.push_back(absl::StrCat("output", i));
                                  return names;
                                })
    .infer(SplitShape, SameType)
    .set_attr<FGradient>("FGradient", SplitGradient<SplitParam>)
    .compute<Split<SplitParam>>();

constexpr int64_t kMaxParts = 1 << 16;

struct SplitV2Param : Param<SplitV2Param> {
  std::vector<int64_t> indices;
  int axis;
  bool squeeze_axis;
  int64_t sections;
  static void Fields(Schema<SplitV2Param>& s) {
    using P = SplitV2Param;
    s.Field("indices", &P::indices)
        .Decides()
        .Describe("Where each part begins, the first at 0; not used with sections.")
        .Check([](const std::vector<int64_t>& v) { return v.size() <= kMaxParts; }, "want at most 65536 parts")
        .Check([](const std::vector<int64_t>& v) { return std::is_sorted(v.begin(), v.end()) && (v.empty() || v[0] == 0); },
               "want 0 first, and each index not below the one before");
    s.Field("axis", &SplitV2Param::axis).Default(1).Describe("The axis to cut.");
    SqueezeField(s);
    s.Field("sections", &SplitV2Param::sections)
        .Decides()
        .Default(int64_t{0})
        .Range(0, kMaxParts)
        .Describe("Into how many parts, the first of them one larger where needed; 0: by indices.");
  }
};

int64_t PartsOf(const SplitV2Param& p) { return p.sections > 0 ? p.sections : static_cast<int64_t>(p.indices.size()); }

// The same; n for the part after the last.
int64_t BeginOf(const SplitV2Param& p, int64_t n, int64_t i) {
  if (p.sections > 0) return i * (n / p.sections) + std::min(i, n % p.sections);
  return i < PartsOf(p) ? p.indices[i] : n;
}

absl::StatusOr<bool> SplitV2Shape(const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) {
  const SplitV2Param& p = attrs.param<SplitV2Param>();
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

GLUOND_REGISTER_OP(_split_v2)
    .describe("Cuts an axis at indices, or into sections; one output for each part.")
    .add_argument("data", "NDArray", "Any shape.")
    .add_arguments(SplitV2Param::__FIELDS__())
    .set_attr_parser([](NodeAttrs* attrs) -> absl::Status {
      RETURN_IF_ERROR(ParamParser<SplitV2Param>(attrs));
      if (PartsOf(attrs->param<SplitV2Param>()) > 0) return absl::OkStatus();
      return absl::InvalidArgumentError("parameter 'indices' is empty and 'sections' is 0; want one of them");
    })
    .set_num_outputs([](const NodeAttrs& attrs) { return static_cast<uint32_t>(PartsOf(attrs.param<SplitV2Param>())); })
    .infer(SplitV2Shape, SameType)
    .set_attr<FGradient>("FGradient", SplitGradient<SplitV2Param>)
    .compute<Split<SplitV2Param>>();

}  // namespace
}  // namespace gluond::ops
