// float32 convolution by oneDNN, in the layout inside that is fastest there, the reorders from and to NCHW included.
// With AVX-512 these are oneDNN's blocked ones where the channels fill the blocks of 16, by up to 2, and where an input
// has very few, or a depthwise one many, by up to 1.5; else the channels are last, by 1.1 to 1.7 (20 channels would be
// padded to 32). With AVX2 the blocked ones win by 1.1 to 3. Where oneDNN generates no code for a layout, the next is
// tried, as its other implementations are 2 to 1000 times slower; but what goes back to a thin input is fastest as a
// product of columns, by 1.2 to 2. Layouts and generated code are chosen once for each geometry.

#include <memory>
#include <unordered_map>
#include <utility>

#include "ops/kernel/conv.h"
#include "ops/kernel/onednn.h"
#include "ops/kernel/primitive_cache.h"

namespace gluond::ops {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

memory::desc Float(const memory::dims& dims, Tag tag) { return {dims, memory::data_type::f32, tag}; }

// One argument of a primitive: the caller's memory, and, where the primitive wants another layout, a reordered copy in
// temporary space. Nothing is allocated after construction.
class Operand {
 public:
  Operand(const memory::desc& user, const memory::desc& inner)
      : same_(user == inner), user_(Unbound(user)), inner_(Unbound(inner)) {
    if (!same_) load_ = dnnl::reorder(user_, inner_);
    dnnl::primitive_attr add;
    dnnl::post_ops ops;
    ops.append_sum();
    add.set_post_ops(ops);
    add_ = dnnl::reorder(inner_, user_, add);
    if (!same_) store_ = dnnl::reorder(inner_, user_);
  }

  // An input, from the caller's memory.
  absl::Status Load(const OpContext& ctx, const void* data) {
    if (same_) return Bind(inner_, data), absl::OkStatus();
    Bind(user_, data);
    RETURN_IF_ERROR(BindScratch(ctx, inner_));
    load_.execute(CpuStream(), user_, inner_);
    return absl::OkStatus();
  }
  // The same of memory that `other` has loaded, whose copy serves if the layouts agree.
  absl::Status LoadAs(const OpContext& ctx, const void* data, const Operand& other) {
    if (same_ || inner_.get_desc() != other.inner_.get_desc()) return Load(ctx, data);
    return Bind(inner_, other.inner_.get_data_handle()), absl::OkStatus();
  }
  // An output that goes to the caller's memory, written or added at Store.
  absl::Status Prepare(const OpContext& ctx, void* data, bool add) {
    if (same_ && !add) return Bind(inner_, data), absl::OkStatus();
    Bind(user_, data);
    return BindScratch(ctx, inner_);
  }
  void Store(bool add) {
    if (add) {
      add_.execute(CpuStream(), inner_, user_);
    } else if (!same_) {
      store_.execute(CpuStream(), inner_, user_);
    }
  }
  const memory& inner() const { return inner_; }

 private:
  bool same_;
  memory user_, inner_;
  dnnl::reorder load_, store_, add_;
};

// How activations lie inside: as oneDNN likes it (in blocks of channels), channels last, or as the caller's.
enum class Inside { kBlocked, kLast, kPlain };

// The layouts of one geometry. A flat one has two spatial axes, for which oneDNN generates more.
struct Layouts {
  memory::dims stride, dilate, pad;
  memory::desc user_x, user_w, user_y, x, w, y, bias;

  Layouts(const ConvSize& s, Inside inside) {
    const int first = s.flat() ? 1 : 0;
    const bool groups = s.groups > 1;
    const Tag plain = first == 1 ? Tag::nchw : Tag::ncdhw, last = first == 1 ? Tag::nhwc : Tag::ndhwc;
    const Tag tag = inside == Inside::kBlocked ? Tag::any : inside == Inside::kLast ? last : plain;
    memory::dims x_dims = {s.batch, s.in_channels}, y_dims = {s.batch, s.out_channels};
    memory::dims w_dims = {s.out_channels / s.groups, s.in_channels / s.groups};
    if (groups) w_dims.insert(w_dims.begin(), s.groups);
    for (int axis = first; axis < 3; ++axis) {
      x_dims.push_back(s.in[axis]);
      y_dims.push_back(s.out[axis]);
      w_dims.push_back(s.kernel[axis]);
      stride.push_back(s.stride[axis]);
      dilate.push_back(s.dilate[axis] - 1);  // oneDNN counts the gaps.
      pad.push_back(s.pad[axis]);
    }
    user_x = Float(x_dims, plain);
    user_y = Float(y_dims, plain);
    user_w = Float(w_dims, first == 1 ? (groups ? Tag::goihw : Tag::oihw) : (groups ? Tag::goidhw : Tag::oidhw));
    // One channel lies last as it lies first, but the name decides which code oneDNN has for it.
    x = s.in_channels == 1 && inside == Inside::kLast ? user_x : Float(x_dims, tag);
    y = s.out_channels == 1 && inside == Inside::kLast ? user_y : Float(y_dims, tag);
    w = Float(w_dims, Tag::any);
    bias = Float({s.out_channels}, Tag::a);
  }
};

bool HasAvx512() {
  static const bool has = (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) &
                           static_cast<unsigned>(dnnl::cpu_isa::avx512_core)) ==
                          static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  return has;
}

// What an implementation is, the better the less: generated code, a product of the windows' columns, the reference.
int RankOf(absl::string_view implementation) {
  const auto is = [&](absl::string_view name) { return implementation.find(name) != absl::string_view::npos; };
  return is("ref") ? 2 : is("gemm") ? 1 : 0;
}

// An input of at most so many channels is thin: its layout is a blocked one, though no block is full, or with `columns` the
// caller's, as the product of columns is then faster than generated code.
struct Thin {
  int64_t channels;
  bool columns = false;
};

// The layouts in the order in which they are tried.
std::array<Inside, 3> OrderOf(const ConvSize& size, const Thin& thin) {
  const bool is_thin = size.groups == 1 && size.in_channels <= thin.channels;
  if (is_thin && thin.columns) return {Inside::kPlain, Inside::kBlocked, Inside::kLast};
  const bool fills_blocks = size.in_channels % 16 == 0 && size.out_channels % 16 == 0;
  const bool is_deep = size.groups == size.in_channels && size.groups > 64;  // Depthwise, of many channels.
  if (!HasAvx512() || is_thin || fills_blocks || is_deep) return {Inside::kBlocked, Inside::kLast, Inside::kPlain};
  return {Inside::kLast, Inside::kBlocked, Inside::kPlain};
}

// make(layouts) -> a primitive's description, of the best implementation.
template <class Make>
auto BestDesc(const ConvSize& size, const Thin& thin, Make make) {
  const std::array<Inside, 3> order = OrderOf(size, thin);
  const int enough = order[0] == Inside::kPlain ? 1 : 0;
  auto best = make(Layouts(size, order[0]));
  for (size_t i = 1; i < order.size() && RankOf(best.impl_info_str()) > enough; ++i) {
    auto desc = make(Layouts(size, order[i]));
    if (RankOf(desc.impl_info_str()) < RankOf(best.impl_info_str())) best = std::move(desc);
  }
  return best;
}

dnnl::convolution_forward::primitive_desc ForwardDesc(const Layouts& l, bool with_bias) {
  return {{dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, l.x, l.w,
           with_bias ? l.bias : memory::desc(), l.y, l.stride, l.dilate, l.pad, l.pad},
          UserScratchpad(),
          CpuEngine()};
}

struct Forward {
  explicit Forward(const ConvSize& size, bool with_bias)
      : Forward(Layouts(size, Inside::kPlain),
                BestDesc(size, Thin{12}, [&](const Layouts& l) { return ForwardDesc(l, with_bias); })) {}
  Forward(const Layouts& user, const dnnl::convolution_forward::primitive_desc& desc)
      : x(user.user_x, desc.src_desc()),
        w(user.user_w, desc.weights_desc()),
        y(user.user_y, desc.dst_desc()),
        bias(Unbound(user.bias)),
        scratchpad(Unbound(desc.scratchpad_desc())),
        primitive(desc) {}

  Operand x, w, y;
  memory bias, scratchpad;
  dnnl::convolution_forward primitive;
};

struct BackwardX {
  explicit BackwardX(const ConvSize& size)
      : BackwardX(Layouts(size, Inside::kPlain), BestDesc(size, Thin{4, true}, [](const Layouts& l) {
          return dnnl::convolution_backward_data::primitive_desc(
              {dnnl::algorithm::convolution_direct, l.x, l.w, l.y, l.stride, l.dilate, l.pad, l.pad}, UserScratchpad(),
              CpuEngine(), ForwardDesc(l, false));
        })) {}
  BackwardX(const Layouts& user, const dnnl::convolution_backward_data::primitive_desc& desc)
      : dx(user.user_x, desc.diff_src_desc()),
        w(user.user_w, desc.weights_desc()),
        dy(user.user_y, desc.diff_dst_desc()),
        scratchpad(Unbound(desc.scratchpad_desc())),
        primitive(desc) {}

  Operand dx, w, dy;
  memory scratchpad;
  dnnl::convolution_backward_data primitive;
};

struct BackwardW {
  BackwardW(const ConvSize& size, bool with_bias)
      : BackwardW(Layouts(size, Inside::kPlain),
                  BestDesc(size, HasAvx512() ? Thin{3} : Thin{1, true}, [=](const Layouts& l) {
          return dnnl::convolution_backward_weights::primitive_desc(
              {dnnl::algorithm::convolution_direct, l.x, l.w, with_bias ? l.bias : memory::desc(), l.y, l.stride,
               l.dilate, l.pad, l.pad},
              UserScratchpad(), CpuEngine(), ForwardDesc(l, with_bias));
        })) {}
  BackwardW(const Layouts& user, const dnnl::convolution_backward_weights::primitive_desc& desc)
      : x(user.user_x, desc.src_desc()),
        dw(user.user_w, desc.diff_weights_desc()),
        dy(user.user_y, desc.diff_dst_desc()),
        dbias(user.bias, user.bias),
        scratchpad(Unbound(desc.scratchpad_desc())),
        primitive(desc) {}

  Operand x, dw, dy, dbias;
  memory scratchpad;
  dnnl::convolution_backward_weights primitive;
};

template <class T, class... Args>
absl::StatusOr<T*> Cached(const ConvSize& size, Args... args) {
  thread_local PrimitiveCache<std::pair<ConvSize, std::array<bool, sizeof...(Args)>>, T> cache;
  return cache.Get({size, {args...}},
                   [&]() -> absl::StatusOr<std::unique_ptr<T>> { return std::make_unique<T>(size, args...); });
}

}  // namespace

absl::Status ConvForwardFloat(const OpContext& ctx, const ConvSize& size, const float* x, const float* w,
                              const float* bias, bool add, float* y) {
  if (IsDepthwiseVolume(size)) return ConvForwardDepthwise(ctx, size, x, w, bias, add, y);
  return CallOneDnn("Convolution", [&]() -> absl::Status {
    ASSIGN_OR_RETURN(Forward* f, Cached<Forward>(size, bias != nullptr));
    RETURN_IF_ERROR(f->x.Load(ctx, x));
    RETURN_IF_ERROR(f->w.Load(ctx, w));
    RETURN_IF_ERROR(f->y.Prepare(ctx, y, add));
    RETURN_IF_ERROR(BindScratch(ctx, f->scratchpad));
    Bind(f->bias, bias);
    f->primitive.execute(CpuStream(), {{DNNL_ARG_SRC, f->x.inner()},
                                       {DNNL_ARG_WEIGHTS, f->w.inner()},
                                       {DNNL_ARG_BIAS, f->bias},
                                       {DNNL_ARG_DST, f->y.inner()},
                                       {DNNL_ARG_SCRATCHPAD, f->scratchpad}});
    f->y.Store(add);
    return absl::OkStatus();
  });
}

absl::Status ConvBackwardFloat(const OpContext& ctx, const ConvSize& size, const float* dy, const float* x,
                               const float* w, ConvOut dx, ConvOut dw, ConvOut dbias) {
  return CallOneDnn("_backward_Convolution", [&]() -> absl::Status {
    const Operand* loaded_dy = nullptr;
    if (dx.req != kNullOp) {
      ASSIGN_OR_RETURN(BackwardX* b, Cached<BackwardX>(size));
      RETURN_IF_ERROR(b->dy.Load(ctx, dy));
      RETURN_IF_ERROR(b->w.Load(ctx, w));
      RETURN_IF_ERROR(b->dx.Prepare(ctx, dx.data, dx.req == kAddTo));
      RETURN_IF_ERROR(BindScratch(ctx, b->scratchpad));
      b->primitive.execute(CpuStream(), {{DNNL_ARG_DIFF_DST, b->dy.inner()},
                                         {DNNL_ARG_WEIGHTS, b->w.inner()},
                                         {DNNL_ARG_DIFF_SRC, b->dx.inner()},
                                         {DNNL_ARG_SCRATCHPAD, b->scratchpad}});
      b->dx.Store(dx.req == kAddTo);
      loaded_dy = &b->dy;
    }
    if (dw.req == kNullOp && dbias.req == kNullOp) return absl::OkStatus();
    if (dw.req == kNullOp) {  // The primitive makes both.
      ASSIGN_OR_RETURN(dw.data, ctx.scratch->Get(size.w_size() * sizeof(float)));
    }
    const bool with_bias = dbias.req != kNullOp;
    ASSIGN_OR_RETURN(BackwardW* b, Cached<BackwardW>(size, with_bias));
    RETURN_IF_ERROR(loaded_dy == nullptr ? b->dy.Load(ctx, dy) : b->dy.LoadAs(ctx, dy, *loaded_dy));
    RETURN_IF_ERROR(b->x.Load(ctx, x));
    RETURN_IF_ERROR(b->dw.Prepare(ctx, dw.data, dw.req == kAddTo));
    if (with_bias) RETURN_IF_ERROR(b->dbias.Prepare(ctx, dbias.data, dbias.req == kAddTo));
    RETURN_IF_ERROR(BindScratch(ctx, b->scratchpad));
    b->primitive.execute(CpuStream(), {{DNNL_ARG_DIFF_DST, b->dy.inner()},
                                       {DNNL_ARG_SRC, b->x.inner()},
                                       {DNNL_ARG_DIFF_WEIGHTS, b->dw.inner()},
                                       {DNNL_ARG_DIFF_BIAS, b->dbias.inner()},
                                       {DNNL_ARG_SCRATCHPAD, b->scratchpad}});
    b->dw.Store(dw.req == kAddTo);
    if (with_bias) b->dbias.Store(dbias.req == kAddTo);
    return absl::OkStatus();
  });
}

}  // namespace gluond::ops
