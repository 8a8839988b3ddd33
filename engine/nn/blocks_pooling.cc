// Pooling over one, two and three axes, channels first, and layers that move elements in space.

#include "engine/nn/blocks.h"

namespace gluond {
namespace {

using Sizes = std::vector<int64_t>;

constexpr const char* kPoolingLayouts[] = {"", "NCW", "NCHW", "NCDHW"};

template <class P>
void LayoutField(Schema<P>& s, int axes) {
  const std::string layout = kPoolingLayouts[axes];
  s.Field("layout", &P::layout)
      .Default(std::nullopt)
      .Check([layout](const std::string& v) { return v == layout; }, absl::StrCat("want ", layout))
      .Describe(absl::StrCat("Only ", layout, "."));
}

template <int kAxes, bool kAverage>
struct PoolParam : Param<PoolParam<kAxes, kAverage>> {
  Sizes pool_size;
  std::optional<Sizes> strides;
  Sizes padding;
  std::optional<std::string> layout;
  bool ceil_mode, count_include_pad;
  static void Fields(Schema<PoolParam>& s) {
    using P = PoolParam;
    s.Field("pool_size", &P::pool_size).Default(Sizes(kAxes, 2)).Describe("One number, or one for each axis.");
    s.Field("strides", &P::strides).Default(std::nullopt).Describe("Between windows; None: pool_size.");
    s.Field("padding", &P::padding).Default(Sizes(kAxes, 0)).Describe("On both sides.");
    LayoutField(s, kAxes);
    s.Field("ceil_mode", &P::ceil_mode).Default(false).Describe("A last, partial window counts.");
    if (kAverage) {
      s.Field("count_include_pad", &P::count_include_pad).Default(true).Describe("Padding counts in the divisor.");
    }
  }
};

template <int kAxes, bool kAverage>
absl::StatusOr<NodeEntry> Pool(const PoolParam<kAxes, kAverage>& p, const BlockScope& scope, NodeEntry x) {
  ASSIGN_OR_RETURN(const Sizes kernel, SizesOfAxes("pool_size", p.pool_size, kAxes, 1));
  ASSIGN_OR_RETURN(const Sizes stride, SizesOfAxes("strides", p.strides.value_or(kernel), kAxes, 1));
  ASSIGN_OR_RETURN(const Sizes pad, SizesOfAxes("padding", p.padding, kAxes, 0));
  AttrDict attrs = {{"kernel", Text(kernel)},
                    {"stride", Text(stride)},
                    {"pad", Text(pad)},
                    {"pooling_convention", p.ceil_mode ? "full" : "valid"},
                    {"pool_type", kAverage ? "avg" : "max"}};
  if (kAverage) attrs["count_include_pad"] = Text(p.count_include_pad);
  return scope.Call("Pooling", "fwd", {std::move(x)}, std::move(attrs));
}

template <int kAxes>
struct GlobalPoolParam : Param<GlobalPoolParam<kAxes>> {
  std::optional<std::string> layout;
  static void Fields(Schema<GlobalPoolParam>& s) { LayoutField(s, kAxes); }
};

template <int kAxes>
BlockCatalog::Entry GlobalPool(const char* name, const char* description, const char* type) {
  return Layer<GlobalPoolParam<kAxes>>(
      name, description, [type](const GlobalPoolParam<kAxes>&, const BlockScope& scope, NodeEntry x) {
        return scope.Call("Pooling", "fwd", {std::move(x)},
                          {{"kernel", Text(Sizes(kAxes, 1))}, {"global_pool", "True"}, {"pool_type", type}});
      });
}

struct ReflectionPadParam : Param<ReflectionPadParam> {
  Sizes padding;
  static void Fields(Schema<ReflectionPadParam>& s) {
    s.Field("padding", &ReflectionPadParam::padding)
        .Default(Sizes{0})
        .Check([](const Sizes& v) { return v.size() == 1 || v.size() == 8; }, "want one number or eight")
        .Describe("Rows and columns on each side; or eight numbers, before and after each axis.");
  }
};

absl::StatusOr<NodeEntry> ReflectionPad(const ReflectionPadParam& p, const BlockScope& scope, NodeEntry x) {
  Sizes widths = p.padding;
  if (widths.size() == 1) widths = {0, 0, 0, 0, widths[0], widths[0], widths[0], widths[0]};
  return scope.Call("Pad", "fwd", {std::move(x)}, {{"mode", "reflect"}, {"pad_width", Text(widths)}});
}

struct PixelShuffleParam : Param<PixelShuffleParam> {
  Sizes factor;
  static void Fields(Schema<PixelShuffleParam>& s) {
    s.Field("factor", &PixelShuffleParam::factor).Describe("One number, or one for each axis.");
  }
};

// Axis by axis from the last, (N, C f, D1, ...) becomes (N, C, f, D1, ...), and f moves behind its axis and joins it.
absl::StatusOr<NodeEntry> PixelShuffle(const PixelShuffleParam& p, const BlockScope& scope, NodeEntry x, int axes) {
  ASSIGN_OR_RETURN(const Sizes factors, SizesOfAxes("factor", p.factor, static_cast<size_t>(axes), 1));
  Formula f = scope.NewFormula();
  for (int i = axes - 1; i >= 0; --i) {
    x = f("Reshape", {x}, {{"shape", Text(Sizes{0, -4, -1, factors[static_cast<size_t>(i)], -2})}});
    for (int axis = 2; axis < 3 + i; ++axis) {
      x = f("SwapAxis", {x}, {{"dim1", Text(axis)}, {"dim2", Text(axis + 1)}});
    }
    Sizes joined(static_cast<size_t>(2 + i), 0);
    joined.insert(joined.end(), {-3, -2});
    x = f("Reshape", {x}, {{"shape", Text(joined)}});
  }
  return f.Result(x);
}

BlockCatalog::Entry PixelShuffleEntry(const char* name, const char* description, int axes) {
  return Layer<PixelShuffleParam>(name, description, [axes](const PixelShuffleParam& p, const BlockScope& scope, NodeEntry x) {
    return PixelShuffle(p, scope, std::move(x), axes);
  });
}

template <int kAxes, bool kAverage>
BlockCatalog::Entry PoolEntry(const char* name) {
  return Layer<PoolParam<kAxes, kAverage>>(name, kAverage ? "The mean of each window." : "The largest value of each window.",
                                           &Pool<kAxes, kAverage>);
}

}  // namespace

std::vector<BlockCatalog::Entry> PoolingBlocks() {
  return {
      PoolEntry<1, false>("MaxPool1D"),
      PoolEntry<2, false>("MaxPool2D"),
      PoolEntry<3, false>("MaxPool3D"),
      PoolEntry<1, true>("AvgPool1D"),
      PoolEntry<2, true>("AvgPool2D"),
      PoolEntry<3, true>("AvgPool3D"),
      GlobalPool<1>("GlobalMaxPool1D", "The largest value of each channel, shape (batch, channels, 1).", "max"),
      GlobalPool<2>("GlobalMaxPool2D", "The largest value of each channel, shape (batch, channels, 1, 1).", "max"),
      GlobalPool<3>("GlobalMaxPool3D", "The largest value of each channel, shape (batch, channels, 1, 1, 1).", "max"),
      GlobalPool<1>("GlobalAvgPool1D", "The mean of each channel, shape (batch, channels, 1).", "avg"),
      GlobalPool<2>("GlobalAvgPool2D", "The mean of each channel, shape (batch, channels, 1, 1).", "avg"),
      GlobalPool<3>("GlobalAvgPool3D", "The mean of each channel, shape (batch, channels, 1, 1, 1).", "avg"),
      Layer<ReflectionPadParam>("ReflectionPad2D", "More rows and columns on each side, mirrored at the border.", &ReflectionPad),
      PixelShuffleEntry("PixelShuffle1D", "(N, C f, W) to (N, C, W f): channels become finer positions.", 1),
      PixelShuffleEntry("PixelShuffle2D", "(N, C f1 f2, H, W) to (N, C, H f1, W f2).", 2),
      PixelShuffleEntry("PixelShuffle3D", "(N, C f1 f2 f3, D, H, W) to (N, C, D f1, H f2, W f3).", 3),
  };
}

}  // namespace gluond
