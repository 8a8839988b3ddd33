// Tensors made from nothing: _zeros, _ones, _full, _arange, _linspace, _contrib_arange_like, _eye.

#include <cmath>

#include "ops/elements.h"
#include "ops/kernel/fill.h"
#include "ops/operator.h"
#include "ops/shape_param.h"

namespace gluond::ops {
namespace {

struct InitParam : Param<InitParam> {
  std::vector<int64_t> shape;
  std::string ctx;
  DType dtype;
  static void Fields(Schema<InitParam>& s) {
    ShapeFields(s);
    s.Field("dtype", &InitParam::dtype).Default(DType::kFloat32).Describe("The type of y.");
  }
};

struct FullParam : Param<FullParam> {
  std::vector<int64_t> shape;
  std::string ctx;
  DType dtype;
  double value;
  static void Fields(Schema<FullParam>& s) {
    ShapeFields(s);
    s.Field("dtype", &FullParam::dtype).Default(DType::kFloat32).Describe("The type of y.");
    s.Field("value", &FullParam::value).Describe("The value of every element.");
  }
};

struct Full {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs, Requests req, Blobs y) {
    return Fill<D>(ctx, attrs.param<FullParam>().value, req[0], y[0]);
  }
};

#define INIT(name, P, shape, text)  \
  GLUOND_REGISTER_OP(name)          \
      .describe(text)               \
      .set_num_inputs(0)            \
      .params<P>()                  \
      .infer(shape, TypeOfParam<P>) \
      .set_attr<FGradient>("FGradient", NoGradient)

INIT(_zeros, InitParam, ShapeOfParam<InitParam>, "Zeros.").add_alias("zeros").compute<Constant<0>>();
INIT(_ones, InitParam, ShapeOfParam<InitParam>, "Ones.").add_alias("ones").compute<Constant<1>>();
INIT(_full, FullParam, ShapeOfParam<FullParam>, "One value everywhere.").add_alias("full").compute<Full>();

struct ArangeParam : Param<ArangeParam> {
  double start, step;
  std::optional<double> stop;
  int64_t repeat;
  bool infer_range;
  std::string ctx;
  DType dtype;
  static void Fields(Schema<ArangeParam>& s) {
    s.Field("start", &ArangeParam::start)
        .Default(0.0)
        .Describe("The first value; the end, if stop is None.")
        .Check([](double v) { return std::isfinite(v); }, "want a finite number");
    s.Field("stop", &ArangeParam::stop)
        .Default(std::nullopt)
        .Describe("The end, which is left out.")
        .Check([](double v) { return std::isfinite(v); }, "want a finite number");
    s.Field("step", &ArangeParam::step)
        .Default(1.0)
        .Describe("The distance between values, not 0.")
        .Check([](double v) { return std::isfinite(v) && v != 0; }, "want a finite number, not 0");
    s.Field("repeat", &ArangeParam::repeat).Default(int64_t{1}).Range(1, int64_t{1} << 32).Describe("How often each value stands.");
    s.Field("infer_range", &ArangeParam::infer_range).Default(false).Describe("Takes the length from the consumers.");
    s.Field("ctx", &ArangeParam::ctx).Default("").Describe("Ignored: the graph's device is used.");
    s.Field("dtype", &ArangeParam::dtype).Default(DType::kFloat32).Describe("The type of y.");
  }
};

absl::StatusOr<bool> ArangeShape(const NodeAttrs& attrs, ShapeVector*, ShapeVector* out) {
  const ArangeParam& p = attrs.param<ArangeParam>();
  if (p.infer_range) {
    SHAPE_ASSIGN_CHECK(out, 0, Shape::OfRank(1));
    return (*out)[0].known();
  }
  const double begin = p.stop ? p.start : 0, end = p.stop.value_or(p.start);
  const double count = std::max(0.0, std::ceil((end - begin) / p.step)) * static_cast<double>(p.repeat);
  if (!(count <= 0x1p48)) {
    return absl::InvalidArgumentError(absl::StrCat("start, stop and step make ", count, " elements; at most 2^48"));
  }
  SHAPE_ASSIGN_CHECK(out, 0, Shape({static_cast<int64_t>(count)}));
  return true;
}

template <class C>
struct ArangeElement {
  double start, step;
  int64_t repeat;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, Convert<C>(start + static_cast<double>(i / repeat) * step)); }
};

struct Arange {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs, Requests req, Blobs y) {
    const ArangeParam& p = attrs.param<ArangeParam>();
    // As in MXNet and NumPy, integers have an integer start and step; as many of them as without that.
    const auto in_type = [&](double v) { return IsFloating(y[0].dtype) ? v : std::trunc(v); };
    const double start = p.stop || p.infer_range ? in_type(p.start) : 0, step = in_type(p.step);
    return ForEachElement<D>(ctx, req[0], y[0], [&]<class C>(Out<C> out) { return ArangeElement<C>{start, step, p.repeat, out}; });
  }
};

INIT(_arange, ArangeParam, ArangeShape, "start, start + step, ... up to stop; each value `repeat` times.")
    .add_alias("arange")
    .compute<Arange>();

struct LinspaceParam : Param<LinspaceParam> {
  double start, stop;
  int64_t num;
  bool endpoint;
  std::string ctx;
  DType dtype;
  static void Fields(Schema<LinspaceParam>& s) {
    s.Field("start", &LinspaceParam::start)
        .Describe("The first value.")
        .Check([](double v) { return std::isfinite(v); }, "want a finite number");
    s.Field("stop", &LinspaceParam::stop)
        .Describe("The end.")
        .Check([](double v) { return std::isfinite(v); }, "want a finite number");
    s.Field("num", &LinspaceParam::num).Range(0, int64_t{1} << 48).Describe("How many values.");
    s.Field("endpoint", &LinspaceParam::endpoint).Default(true).Describe("Whether stop is the last of them.");
    s.Field("ctx", &LinspaceParam::ctx).Default("").Describe("Ignored: the graph's device is used.");
    s.Field("dtype", &LinspaceParam::dtype).Default(DType::kFloat32).Describe("The type of y.");
  }
};

struct Linspace {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs, Requests req, Blobs y) {
    const LinspaceParam& p = attrs.param<LinspaceParam>();
    const int64_t intervals = std::max<int64_t>(1, p.endpoint ? p.num - 1 : p.num);
    const double step = (p.stop - p.start) / static_cast<double>(intervals);
    return ForEachElement<D>(ctx, req[0], y[0], [&]<class C>(Out<C> out) { return ArangeElement<C>{p.start, step, 1, out}; });
  }
};

absl::StatusOr<bool> LinspaceShape(const NodeAttrs& attrs, ShapeVector*, ShapeVector* out) {
  SHAPE_ASSIGN_CHECK(out, 0, Shape({attrs.param<LinspaceParam>().num}));
  return true;
}

INIT(_linspace, LinspaceParam, LinspaceShape, "Evenly spaced values from start to stop.").add_alias("linspace").compute<Linspace>();

struct ArangeLikeParam : Param<ArangeLikeParam> {
  double start, step;
  int64_t repeat;
  std::string ctx;
  std::optional<int> axis;
  static void Fields(Schema<ArangeLikeParam>& s) {
    s.Field("start", &ArangeLikeParam::start).Default(0.0).Describe("The first value.");
    s.Field("step", &ArangeLikeParam::step).Default(1.0).Describe("The distance between values.");
    s.Field("repeat", &ArangeLikeParam::repeat)
        .Default(int64_t{1})
        .Range(1, int64_t{1} << 32)
        .Describe("How often each value stands.");
    s.Field("ctx", &ArangeLikeParam::ctx).Default("").Describe("Ignored: the graph's device is used.");
    s.Field("axis", &ArangeLikeParam::axis)
        .Default(std::nullopt)
        .Describe("As many values as this axis has; None: one for each element, in the shape of data.");
  }
};

struct ArangeLike {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs, Requests req, Blobs y) {
    const ArangeLikeParam& p = attrs.param<ArangeLikeParam>();
    return ForEachElement<D>(ctx, req[0], y[0], [&]<class C>(Out<C> out) {
      return ArangeElement<C>{p.start, p.step, p.repeat, out};
    });
  }
};

GLUOND_REGISTER_OP(_contrib_arange_like)
    .describe("start, start + step, ... in the shape of data, or along one of its axes; each value `repeat` times.")
    .add_argument("data", "NDArray", "Only its shape and type are used.")
    .params<ArangeLikeParam>()
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
                             const std::optional<int>& axis = attrs.param<ArangeLikeParam>().axis;
                             if (!axis) return SameShape(attrs, in, out);
                             const Shape& x = (*in)[0];
                             if (!x.rank_known()) return false;
                             ASSIGN_OR_RETURN(const int along, NormalizeAxis(*axis, x.ndim()));
                             SHAPE_ASSIGN_CHECK(out, 0, Shape({x[along]}));
                             return x.known();
                           })
    .set_attr<FInferType>("FInferType", ElemwiseType<1, 1>)
    .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<0>)
    .set_attr<FGradient>("FGradient", NoGradient)
    .compute<ArangeLike>();

struct EyeParam : Param<EyeParam> {
  int64_t rows, columns, k;
  std::string ctx;
  DType dtype;
  static void Fields(Schema<EyeParam>& s) {
    constexpr int64_t kMax = int64_t{1} << 48;
    s.Field("N", &EyeParam::rows).Range(0, kMax).Describe("Rows.");
    s.Field("M", &EyeParam::columns).Default(int64_t{0}).Range(0, kMax).Describe("Columns; 0: as many as rows.");
    s.Field("k", &EyeParam::k).Default(int64_t{0}).Range(-kMax, kMax).Describe("Which diagonal; above the main one if positive.");
    s.Field("ctx", &EyeParam::ctx).Default("").Describe("Ignored: the graph's device is used.");
    s.Field("dtype", &EyeParam::dtype).Default(DType::kFloat32).Describe("The type of y.");
  }
};

template <class C>
struct EyeElement {
  int64_t columns, k;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, C(i % columns - i / columns == k ? 1 : 0)); }
};

struct Eye {
  template <class D>
  static absl::Status Run(const NodeAttrs& attrs, const OpContext& ctx, Blobs, Requests req, Blobs y) {
    return ForEachElement<D>(ctx, req[0], y[0], [&]<class C>(Out<C> out) {
      return EyeElement<C>{y[0].shape[1], attrs.param<EyeParam>().k, out};
    });
  }
};

absl::StatusOr<bool> EyeShape(const NodeAttrs& attrs, ShapeVector*, ShapeVector* out) {
  const EyeParam& p = attrs.param<EyeParam>();
  ASSIGN_OR_RETURN(const Shape y, Shape::FromDims({p.rows, p.columns == 0 ? p.rows : p.columns}));
  SHAPE_ASSIGN_CHECK(out, 0, y);
  return true;
}

INIT(_eye, EyeParam, EyeShape, "Ones on a diagonal of a matrix, zeros elsewhere.").add_alias("eye").compute<Eye>();

}  // namespace
}  // namespace gluond::ops
