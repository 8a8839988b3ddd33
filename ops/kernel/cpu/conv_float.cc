// float32 convolution by oneDNN, in the layout inside that is fastest there, the reorders from and to NCHW included.
// With AVX-512 these are oneDNN's blocked ones where the channels fill the blocks of 16, by up to 2, and where an input
// has very few, or a depthwise one many, by up to 1.5; else the channels are last, by 1.1 to 1.7 (20 channels would be
// padded to 32). With AVX2 the blocked ones win by 1.1 to 3. Where oneDNN generates no code for a layout, the next is
// tried, as its other implementations are 2 to 1000 times slower; but what goes back to a thin input is fastest as a
// product of columns, by 1.2 to 2. Layouts and generated code are chosen once for each geometry.
//
// A convolution is cut into pieces, each a convolution of its own for one thread: of some images, of some groups, of
// some output channels, or on the way to the data of some input channels. Gradients of small filters are cut by images,
// too, and added up. An operand that several pieces read whole is reordered once, before them.

#include <algorithm>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ops/kernel/conv.h"
#include "ops/kernel/cpu/onednn.h"
#include "ops/kernel/primitive_cache.h"

namespace gluond::ops {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

memory::desc Float(const memory::dims& dims, Tag tag) { return {dims, memory::data_type::f32, tag}; }

// An input that all pieces read whole, reordered in parts along the axis that is cut.
class SharedInput {
 public:
  // Parts are multiples of `block` along `axis`.
  SharedInput(const memory::desc& user, const memory::desc& inner, int axis, int64_t block)
      : same_(user == inner), whole_(Unbound(inner)) {
    if (same_) return;
    const memory::dims dims = inner.dims();
    const int64_t most = std::clamp<int64_t>(static_cast<int64_t>(inner.get_size()) / kLeastBytes, 1, 16);
    const int64_t step = ((dims[axis] - 1) / most / block + 1) * block;
    for (int64_t begin = 0; begin < dims[axis]; begin += step) {
      memory::dims part = dims, at(dims.size(), 0);
      part[axis] = std::min(step, dims[axis] - begin);
      at[axis] = begin;
      const memory from = Unbound(user.submemory_desc(part, at)), to = Unbound(inner.submemory_desc(part, at));
      parts_.push_back({from, to, dnnl::reorder(from, to)});
    }
  }

  absl::Status Load(const OpContext& ctx, absl::string_view what, const void* data) {
    if (same_) return Bind(whole_, data), absl::OkStatus();
    RETURN_IF_ERROR(BindScratch(ctx, whole_));
    return ForEachPiece(ctx, what, static_cast<int64_t>(parts_.size()), 0, [&](int64_t i, PieceSpace) {
      Part& part = parts_[i];
      Bind(part.from, data);
      Bind(part.to, whole_.get_data_handle());
      part.reorder.execute(CpuStream(), part.from, part.to);
      return absl::OkStatus();
    });
  }
  void* data() const { return whole_.get_data_handle(); }
  memory::desc layout() const { return whole_.get_desc(); }

 private:
  static constexpr int64_t kLeastBytes = 1 << 18;
  struct Part {
    memory from, to;
    dnnl::reorder reorder;
  };
  bool same_;
  memory whole_;
  std::vector<Part> parts_;
};

// One argument of a piece's primitive: the caller's memory, and, where the primitive wants another layout, a reordered copy
// in temporary space, its own or a shared one. Nothing is allocated after construction.
class Operand {
 public:
  // `shared` may be null; it serves if its layout is the wanted one.
  Operand(const memory::desc& user, const memory::desc& inner, const SharedInput* shared = nullptr)
      : shared_(shared != nullptr && shared->layout() == inner ? shared : nullptr), same_(user == inner),
        user_(Unbound(user)), inner_(Unbound(inner)) {
    if (!same_) load_ = dnnl::reorder(user_, inner_);
    dnnl::primitive_attr add;
    dnnl::post_ops ops;
    ops.append_sum();
    add.set_post_ops(ops);
    add_ = dnnl::reorder(inner_, user_, add);
    if (!same_) store_ = dnnl::reorder(inner_, user_);
  }

  // The temporary space that an input takes, and an output, which may be added.
  size_t input_bytes() const { return shared_ != nullptr || same_ ? 0 : PieceSpace::BytesOf(inner_); }
  size_t output_bytes() const { return PieceSpace::BytesOf(inner_); }

  // An input, from the caller's memory.
  void Load(const void* data, PieceSpace& space) {
    if (shared_ != nullptr) return Bind(inner_, shared_->data());
    if (same_) return Bind(inner_, data);
    Bind(user_, data);
    space.Bind(inner_);
    load_.execute(CpuStream(), user_, inner_);
  }
  // The same of memory that `other` has loaded, whose copy serves if the layouts agree.
  void LoadAs(const void* data, const Operand& other, PieceSpace& space) {
    if (same_ || inner_.get_desc() != other.inner_.get_desc()) return Load(data, space);
    Bind(inner_, other.inner_.get_data_handle());
  }
  // An output that goes to the caller's memory, written or added at Store.
  void Point(void* data, bool add, PieceSpace& space) {
    if (same_ && !add) return Bind(inner_, data);
    Bind(user_, data);
    space.Bind(inner_);
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
  const SharedInput* shared_;
  bool same_;
  memory user_, inner_;
  dnnl::reorder load_, store_, add_;
};

// Which axis is cut.
enum class Axis { kBatch, kGroups, kOut, kIn };

// Pieces of a convolution, all alike but the last. Piece i's operands begin i steps after the whole one's; a step of 0: all
// read it whole.
struct Cut {
  int64_t pieces = 1;
  ConvSize whole, part, last;
  int64_t x_step = 0, w_step = 0, y_step = 0, bias_step = 0;

  Cut(const ConvSize& size, Axis axis) : whole(size), part(size), last(size) {
    const int64_t group_inputs = size.in_channels / size.groups, group_outputs = size.out_channels / size.groups;
    switch (axis) {
      case Axis::kBatch:
        std::tie(part.batch, last.batch) = Divide(size.batch, 1);
        x_step = part.x_size();
        y_step = part.y_size();
        return;
      case Axis::kGroups:
        std::tie(part.groups, last.groups) = Divide(size.groups, std::max<int64_t>(1, kBlock / group_outputs));
        for (ConvSize* const s : {&part, &last}) {
          s->in_channels = s->groups * group_inputs;
          s->out_channels = s->groups * group_outputs;
        }
        break;
      case Axis::kOut:
        std::tie(part.out_channels, last.out_channels) = Divide(size.out_channels, Block(size.out_channels));
        break;
      case Axis::kIn:
        std::tie(part.in_channels, last.in_channels) = Divide(size.in_channels, Block(size.in_channels));
        w_step = part.in_channels * size.taps();
        break;
    }
    if (axis != Axis::kOut) x_step = part.in_channels * size.inputs();
    if (axis == Axis::kIn) return;
    w_step = part.out_channels * group_inputs * size.taps();
    y_step = part.out_channels * size.outputs();
    bias_step = part.out_channels;
  }

  // How many pieces the work is worth. What is read and written counts, too, as it does where there are few channels.
  static int64_t Worth(const ConvSize& s) {
    const double products = static_cast<double>(s.y_size()) * static_cast<double>(s.in_channels / s.groups) *
                            static_cast<double>(s.taps());
    return PiecesOf(products + 32 * static_cast<double>(s.x_size() + s.y_size()), 1 << 21);
  }

 private:
  static constexpr int64_t kBlock = 16;  // Channels that oneDNN computes together.

  // Larger pieces of many channels read the other operands less often.
  static int64_t Block(int64_t channels) { return channels >= 8 * kBlock ? 2 * kBlock : kBlock; }
  // The pieces' size along an axis of n, in whole blocks, and the last one's.
  std::pair<int64_t, int64_t> Divide(int64_t n, int64_t block) {
    const int64_t size = std::min(n, ((n - 1) / Worth(whole) / block + 1) * block);
    pieces = (n - 1) / size + 1;
    return {size, n - (pieces - 1) * size};
  }
};

// How activations lie inside: as oneDNN likes it (in blocks of channels), channels last, or as the caller's.
enum class Inside { kBlocked, kLast, kPlain };

// Rows of the caller's memory: a piece's, within the whole tensor.
memory::desc Within(const memory::dims& piece, const memory::dims& whole) {
  memory::dims strides(whole.size(), 1);
  for (size_t axis = whole.size() - 1; axis > 0; --axis) {
    // Where nothing lies side by side, oneDNN compares the strides of dense tensors.
    strides[axis - 1] = strides[axis] * (piece[axis - 1] == 1 ? piece[axis] : whole[axis]);
  }
  return {piece, memory::data_type::f32, strides};
}

// The sizes of a geometry's tensors. A flat one has two spatial axes, for which oneDNN generates more.
struct Dims {
  memory::dims x, w, y;

  explicit Dims(const ConvSize& s)
      : x({s.batch, s.in_channels}), w({s.out_channels / s.groups, s.in_channels / s.groups}),
        y({s.batch, s.out_channels}) {
    if (s.groups > 1) w.insert(w.begin(), s.groups);
    for (int axis = s.flat() ? 1 : 0; axis < 3; ++axis) {
      x.push_back(s.in[axis]);
      y.push_back(s.out[axis]);
      w.push_back(s.kernel[axis]);
    }
  }
};

// The layouts of a piece of a geometry.
struct Layouts {
  memory::dims stride, dilate, pad;
  memory::desc user_x, user_w, user_y, x, w, y, bias;

  Layouts(const ConvSize& s, const ConvSize& of, Inside inside) {
    const int first = s.flat() ? 1 : 0;
    const Tag plain = first == 1 ? Tag::nchw : Tag::ncdhw, last = first == 1 ? Tag::nhwc : Tag::ndhwc;
    const Tag tag = inside == Inside::kBlocked ? Tag::any : inside == Inside::kLast ? last : plain;
    for (int axis = first; axis < 3; ++axis) {
      stride.push_back(s.stride[axis]);
      dilate.push_back(s.dilate[axis] - 1);  // oneDNN counts the gaps.
      pad.push_back(s.pad[axis]);
    }
    const Dims piece(s);
    Dims whole(of);
    if (whole.w.size() > piece.w.size()) whole.w.erase(whole.w.begin());  // A piece of one group.
    user_x = Within(piece.x, whole.x);
    user_y = Within(piece.y, whole.y);
    user_w = Within(piece.w, whole.w);
    // One channel lies last as it lies first, but the name decides which code oneDNN has for it.
    x = Float(piece.x, s.in_channels == 1 && inside == Inside::kLast ? plain : tag);
    y = Float(piece.y, s.out_channels == 1 && inside == Inside::kLast ? plain : tag);
    w = Float(piece.w, Tag::any);
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
auto BestDesc(const ConvSize& piece, const ConvSize& whole, const Thin& thin, Make make) {
  const std::array<Inside, 3> order = OrderOf(whole, thin);
  const int enough = order[0] == Inside::kPlain ? 1 : 0;
  auto best = make(Layouts(piece, whole, order[0]));
  for (size_t i = 1; i < order.size() && RankOf(best.impl_info_str()) > enough; ++i) {
    auto desc = make(Layouts(piece, whole, order[i]));
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

// An input that all pieces read whole, or null. Data is reordered by images, or one image's by channels; filters by output
// channels. No layout has larger blocks of channels than 64.
constexpr int64_t kLargestBlock = 64;

std::unique_ptr<SharedInput> SharedData(const Cut& cut, int64_t step, const memory::desc& user,
                                        const memory::desc& inner) {
  if (cut.pieces == 1 || step != 0) return nullptr;
  const bool by_images = user.dims()[0] > 1;
  return std::make_unique<SharedInput>(user, inner, by_images ? 0 : 1, by_images ? 1 : kLargestBlock);
}
std::unique_ptr<SharedInput> SharedFilter(const Cut& cut, const memory::desc& user, const memory::desc& inner) {
  if (cut.pieces == 1 || cut.w_step != 0) return nullptr;
  return std::make_unique<SharedInput>(user, inner, cut.part.groups > 1 ? 1 : 0, kLargestBlock);
}

// add(piece's size) for all pieces: make(size) -> what the piece needs, made once for those that are alike.
template <class Make, class Add>
void MakePieces(const Cut& cut, Make make, Add add) {
  auto made = make(cut.part);
  for (int64_t i = 1; i < cut.pieces; ++i) add(made, cut.part);
  if (cut.pieces > 1 && !(cut.last == cut.part)) made = make(cut.last);
  add(made, cut.last);
}

struct Forward {
  struct Piece {
    Operand x, w, y;
    memory bias, scratchpad;
    dnnl::convolution_forward primitive;
  };

  Forward(const ConvSize& size, bool with_bias)
      : cut(size, size.batch > 1 ? Axis::kBatch : size.groups > 1 ? Axis::kGroups : Axis::kOut) {
    const auto make = [&](const ConvSize& piece) {
      return BestDesc(piece, size, Thin{12}, [&](const Layouts& l) { return ForwardDesc(l, with_bias); });
    };
    MakePieces(cut, make, [&](const dnnl::convolution_forward::primitive_desc& desc, const ConvSize& piece) {
      const Layouts user(piece, size, Inside::kPlain);
      if (pieces.empty()) {
        shared_x = SharedData(cut, cut.x_step, user.user_x, desc.src_desc());
        shared_w = SharedFilter(cut, user.user_w, desc.weights_desc());
      }
      pieces.push_back({{user.user_x, desc.src_desc(), shared_x.get()},
                        {user.user_w, desc.weights_desc(), shared_w.get()},
                        {user.user_y, desc.dst_desc()},
                        Unbound(user.bias), Unbound(desc.scratchpad_desc()), dnnl::convolution_forward(desc)});
    });
  }

  // `bias` may be null.
  void Run(int64_t i, const float* x, const float* w, const float* bias, bool add, float* y, PieceSpace space) {
    Piece& piece = pieces[i];
    piece.x.Load(x + i * cut.x_step, space);
    piece.w.Load(w + i * cut.w_step, space);
    piece.y.Point(y + i * cut.y_step, add, space);
    space.Bind(piece.scratchpad);
    Bind(piece.bias, bias == nullptr ? nullptr : bias + i * cut.bias_step);
    piece.primitive.execute(CpuStream(), {{DNNL_ARG_SRC, piece.x.inner()},
                                          {DNNL_ARG_WEIGHTS, piece.w.inner()},
                                          {DNNL_ARG_BIAS, piece.bias},
                                          {DNNL_ARG_DST, piece.y.inner()},
                                          {DNNL_ARG_SCRATCHPAD, piece.scratchpad}});
    piece.y.Store(add);
  }

  const Cut cut;
  std::unique_ptr<SharedInput> shared_x, shared_w;
  std::vector<Piece> pieces;
};

struct BackwardX {
  struct Piece {
    Operand dx, w, dy;
    memory scratchpad;
    dnnl::convolution_backward_data primitive;
  };

  explicit BackwardX(const ConvSize& size)
      : cut(size, size.batch > 1 ? Axis::kBatch : size.groups > 1 ? Axis::kGroups : Axis::kIn) {
    using Desc = dnnl::convolution_backward_data::primitive_desc;
    const auto make = [&](const ConvSize& piece) {
      return BestDesc(piece, size, Thin{4, true}, [](const Layouts& l) -> Desc {
        return {{dnnl::algorithm::convolution_direct, l.x, l.w, l.y, l.stride, l.dilate, l.pad, l.pad},
                UserScratchpad(), CpuEngine(), ForwardDesc(l, false)};
      });
    };
    MakePieces(cut, make, [&](const Desc& desc, const ConvSize& piece) {
      const Layouts user(piece, size, Inside::kPlain);
      if (pieces.empty()) {
        shared_w = SharedFilter(cut, user.user_w, desc.weights_desc());
        shared_dy = SharedData(cut, cut.y_step, user.user_y, desc.diff_dst_desc());
      }
      pieces.push_back({{user.user_x, desc.diff_src_desc()},
                        {user.user_w, desc.weights_desc(), shared_w.get()},
                        {user.user_y, desc.diff_dst_desc(), shared_dy.get()},
                        Unbound(desc.scratchpad_desc()), dnnl::convolution_backward_data(desc)});
    });
  }

  void Run(int64_t i, const float* dy, const float* w, float* dx, bool add, PieceSpace& space) {
    Piece& piece = pieces[i];
    piece.dy.Load(dy + i * cut.y_step, space);
    piece.w.Load(w + i * cut.w_step, space);
    piece.dx.Point(dx + i * cut.x_step, add, space);
    space.Bind(piece.scratchpad);
    piece.primitive.execute(CpuStream(), {{DNNL_ARG_DIFF_DST, piece.dy.inner()},
                                          {DNNL_ARG_WEIGHTS, piece.w.inner()},
                                          {DNNL_ARG_DIFF_SRC, piece.dx.inner()},
                                          {DNNL_ARG_SCRATCHPAD, piece.scratchpad}});
    piece.dx.Store(add);
  }

  const Cut cut;
  std::unique_ptr<SharedInput> shared_w, shared_dy;
  std::vector<Piece> pieces;
};

// Pieces of images, where several, have gradients of their own that are added up.
struct BackwardW {
  struct Piece {
    Operand x, dw, dy, dbias;
    memory scratchpad;
    dnnl::convolution_backward_weights primitive;
    float *dw_part = nullptr, *dbias_part = nullptr;
  };

  // By images where their gradients are less to write and to read than the data.
  static Axis AxisOf(const ConvSize& s) {
    const int64_t pieces = std::min(s.batch, Cut::Worth(s));
    if (s.batch > 1 && s.w_size() * pieces * 2 < s.x_size() + s.y_size()) return Axis::kBatch;
    return s.groups > 1 ? Axis::kGroups : Axis::kOut;
  }

  BackwardW(const ConvSize& size, bool with_bias) : cut(size, AxisOf(size)) {
    using Desc = dnnl::convolution_backward_weights::primitive_desc;
    const auto make = [&](const ConvSize& piece) {
      return BestDesc(piece, size, HasAvx512() ? Thin{3} : Thin{1, true}, [=](const Layouts& l) -> Desc {
        return {{dnnl::algorithm::convolution_direct, l.x, l.w, with_bias ? l.bias : memory::desc(), l.y, l.stride,
                 l.dilate, l.pad, l.pad},
                UserScratchpad(), CpuEngine(), ForwardDesc(l, with_bias)};
      });
    };
    MakePieces(cut, make, [&](const Desc& desc, const ConvSize& piece) {
      const Layouts user(piece, size, Inside::kPlain);
      if (pieces.empty()) shared_x = SharedData(cut, cut.x_step, user.user_x, desc.src_desc());
      pieces.push_back({{user.user_x, desc.src_desc(), shared_x.get()},
                        {user.user_w, desc.diff_weights_desc()},
                        {user.user_y, desc.diff_dst_desc()},
                        {user.bias, user.bias},
                        Unbound(desc.scratchpad_desc()), dnnl::convolution_backward_weights(desc)});
    });
  }

  bool adds_up() const { return cut.pieces > 1 && cut.w_step == 0; }

  // Where the pieces' gradients go: to the outputs, or to temporary space until AddUp. `dbias` may be null.
  absl::Status Point(const OpContext& ctx, float* dw, float* dbias) {
    for (int64_t i = 0; i < cut.pieces; ++i) {
      Piece& piece = pieces[i];
      piece.dw_part = dw + i * cut.w_step;
      piece.dbias_part = dbias == nullptr ? nullptr : dbias + i * cut.bias_step;
      if (!adds_up()) continue;
      ASSIGN_OR_RETURN(void* const space, ctx.scratch->Get((cut.whole.w_size() + cut.whole.out_channels) * sizeof(float)));
      piece.dw_part = static_cast<float*>(space);
      piece.dbias_part = dbias == nullptr ? nullptr : piece.dw_part + cut.whole.w_size();
    }
    return absl::OkStatus();
  }
  // `loaded_dy`: the same images' dy, where another primitive has loaded it; or null.
  void Run(int64_t i, const float* dy, const float* x, bool add_w, bool add_bias, const Operand* loaded_dy,
           PieceSpace& space) {
    Piece& piece = pieces[i];
    add_w &= !adds_up();
    add_bias &= !adds_up();
    if (loaded_dy == nullptr) {
      piece.dy.Load(dy + i * cut.y_step, space);
    } else {
      piece.dy.LoadAs(dy + i * cut.y_step, *loaded_dy, space);
    }
    piece.x.Load(x + i * cut.x_step, space);
    piece.dw.Point(piece.dw_part, add_w, space);
    if (piece.dbias_part != nullptr) piece.dbias.Point(piece.dbias_part, add_bias, space);
    space.Bind(piece.scratchpad);
    piece.primitive.execute(CpuStream(), {{DNNL_ARG_DIFF_DST, piece.dy.inner()},
                                          {DNNL_ARG_SRC, piece.x.inner()},
                                          {DNNL_ARG_DIFF_WEIGHTS, piece.dw.inner()},
                                          {DNNL_ARG_DIFF_BIAS, piece.dbias.inner()},
                                          {DNNL_ARG_SCRATCHPAD, piece.scratchpad}});
    piece.dw.Store(add_w);
    if (piece.dbias_part != nullptr) piece.dbias.Store(add_bias);
  }
  // The sum of the pieces' gradients, always in their order.
  void AddUp(const OpContext& ctx, float* dw, float* dbias, bool add_w, bool add_bias) const {
    if (!adds_up()) return;
    const auto sum = [this](float* Piece::*part, int64_t begin, int64_t end, bool add, float* to) {
      if (!add) std::fill(to + begin, to + end, 0.f);
      for (const Piece& piece : pieces) {
        const float* const from = piece.*part;
        for (int64_t j = begin; j < end; ++j) to[j] += from[j];
      }
    };
    Parallel(ctx, cut.whole.w_size(), 1 + kGrain / cut.pieces,
             [&](int64_t begin, int64_t end) { sum(&Piece::dw_part, begin, end, add_w, dw); });
    if (dbias != nullptr) sum(&Piece::dbias_part, 0, cut.whole.out_channels, add_bias, dbias);
  }

  const Cut cut;
  std::unique_ptr<SharedInput> shared_x;
  std::vector<Piece> pieces;
};

// The temporary space of the piece that takes most.
size_t BytesOf(const Forward::Piece& p) {
  return p.x.input_bytes() + p.w.input_bytes() + p.y.output_bytes() + PieceSpace::BytesOf(p.scratchpad);
}
size_t BytesOf(const BackwardX::Piece& p) {
  return p.dx.output_bytes() + p.w.input_bytes() + p.dy.input_bytes() + PieceSpace::BytesOf(p.scratchpad);
}
size_t BytesOf(const BackwardW::Piece& p) {
  return p.x.input_bytes() + p.dw.output_bytes() + p.dy.input_bytes() + p.dbias.output_bytes() +
         PieceSpace::BytesOf(p.scratchpad);
}
template <class Pieces>
size_t MostBytes(const Pieces& pieces) {
  size_t most = 0;
  for (const auto& piece : pieces) most = std::max(most, BytesOf(piece));
  return most;
}

template <class T, class... Args>
absl::StatusOr<T*> Cached(const ConvSize& size, Args... args) {
  thread_local PrimitiveCache<std::pair<ConvSize, std::array<bool, sizeof...(Args)>>, T> cache;
  return cache.Get({size, {args...}},
                   [&]() -> absl::StatusOr<std::unique_ptr<T>> { return std::make_unique<T>(size, args...); });
}

absl::Status LoadShared(const OpContext& ctx, absl::string_view what, const std::unique_ptr<SharedInput>& shared,
                        const void* data) {
  return shared == nullptr ? absl::OkStatus() : shared->Load(ctx, what, data);
}

}  // namespace

absl::Status ConvForwardFloat(const OpContext& ctx, const ConvSize& size, const float* x, const float* w,
                              const float* bias, bool add, float* y) {
  if (IsDepthwiseVolume(size)) return ConvForwardDepthwise(ctx, size, x, w, bias, add, y);
  constexpr absl::string_view kWhat = "Convolution";
  Forward* f = nullptr;
  RETURN_IF_ERROR(CallOneDnn(kWhat, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(f, Cached<Forward>(size, bias != nullptr));
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(LoadShared(ctx, kWhat, f->shared_x, x));
  RETURN_IF_ERROR(LoadShared(ctx, kWhat, f->shared_w, w));
  return ForEachPiece(ctx, kWhat, f->cut.pieces, MostBytes(f->pieces), [&](int64_t i, PieceSpace space) {
    f->Run(i, x, w, bias, add, y, space);
    return absl::OkStatus();
  });
}

absl::Status ConvBackwardFloat(const OpContext& ctx, const ConvSize& size, const float* dy, const float* x,
                               const float* w, ConvOut dx, ConvOut dw, ConvOut dbias) {
  constexpr absl::string_view kWhat = "_backward_Convolution";
  const bool wants_x = dx.req != kNullOp, wants_w = dw.req != kNullOp || dbias.req != kNullOp;
  const bool add_x = dx.req == kAddTo, add_w = dw.req == kAddTo, add_bias = dbias.req == kAddTo;
  if (wants_w && dw.req == kNullOp) {  // The primitive makes both.
    ASSIGN_OR_RETURN(dw.data, ctx.scratch->Get(size.w_size() * sizeof(float)));
  }
  float* const dx_data = static_cast<float*>(dx.data);
  float* const dw_data = static_cast<float*>(dw.data);
  float* const dbias_data = dbias.req == kNullOp ? nullptr : static_cast<float*>(dbias.data);
  BackwardX* to_x = nullptr;
  BackwardW* to_w = nullptr;
  RETURN_IF_ERROR(CallOneDnn(kWhat, [&]() -> absl::Status {
    if (wants_x) {
      ASSIGN_OR_RETURN(to_x, Cached<BackwardX>(size));
    }
    if (wants_w) {
      ASSIGN_OR_RETURN(to_w, Cached<BackwardW>(size, dbias_data != nullptr));
      RETURN_IF_ERROR(to_w->Point(ctx, dw_data, dbias_data));
    }
    return absl::OkStatus();
  }));
  if (wants_x) {
    RETURN_IF_ERROR(LoadShared(ctx, kWhat, to_x->shared_dy, dy));
    RETURN_IF_ERROR(LoadShared(ctx, kWhat, to_x->shared_w, w));
  }
  if (wants_w) RETURN_IF_ERROR(LoadShared(ctx, kWhat, to_w->shared_x, x));
  // Pieces of the same images read one copy of dy.
  const bool together = wants_x && wants_w && to_x->cut.part == to_w->cut.part && to_x->cut.pieces == to_w->cut.pieces;
  if (wants_x) {
    const size_t bytes = MostBytes(to_x->pieces) + (together ? MostBytes(to_w->pieces) : 0);
    RETURN_IF_ERROR(ForEachPiece(ctx, kWhat, to_x->cut.pieces, bytes, [&](int64_t i, PieceSpace space) {
      to_x->Run(i, dy, w, dx_data, add_x, space);
      if (together) to_w->Run(i, dy, x, add_w, add_bias, &to_x->pieces[i].dy, space);
      return absl::OkStatus();
    }));
  }
  if (!wants_w) return absl::OkStatus();
  if (!together) {
    const size_t bytes = MostBytes(to_w->pieces);
    RETURN_IF_ERROR(ForEachPiece(ctx, kWhat, to_w->cut.pieces, bytes, [&](int64_t i, PieceSpace space) {
      to_w->Run(i, dy, x, add_w, add_bias, nullptr, space);
      return absl::OkStatus();
    }));
  }
  to_w->AddUp(ctx, dw_data, dbias_data, add_w, add_bias);
  return absl::OkStatus();
}

}  // namespace gluond::ops
