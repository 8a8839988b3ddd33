// The pieces of a float32 convolution on a CPU, and the operands that each gives to oneDNN.
//
// A convolution is cut into pieces, each a smaller convolution for one thread. A piece has some images, some groups,
// some output channels, or, on the way to the data, some input channels. An operand that several pieces read whole is
// reordered once, before them.

#ifndef OPS_KERNEL_CPU_CONV_PIECES_H_
#define OPS_KERNEL_CPU_CONV_PIECES_H_

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "ops/kernel/conv.h"
#include "ops/kernel/cpu/onednn.h"

namespace gluond::ops::conv_internal {

using dnnl::memory;

// Which axis is cut.
enum class Axis { kBatch, kGroups, kOut, kIn };

// The least images of a piece by Winograd's algorithm, or 0 where a convolution and its gradients are computed directly. The rule
// is of shapes and instructions alone. tests/bench/spatial_bench measured it; docs/decisions.md has the figures. A piece transforms
// the filters anew, so it has enough tiles of 4 x 4 outputs. Pieces that grow leave enough of them for threads. One image is
// direct, as it is cut by channels. More channels would take too much temporary space.
inline int64_t WinogradImages(const ConvSize& s) {
  constexpr int64_t kLeastChannels = 64, kMostChannels = 128, kLeastSide = 20, kLeastTiles = 96, kLeastPieces = 8;
  constexpr std::array<int64_t, 3> kOnes = {1, 1, 1}, kWindow = {1, 3, 3};
  const auto fits = [](int64_t channels) { return channels >= kLeastChannels && channels <= kMostChannels && channels % 16 == 0; };
  if (!HasAvx512() || s.groups != 1 || s.kernel != kWindow || s.stride != kOnes || s.dilate != kOnes) return 0;
  if (!s.flat() || s.pad[1] > 1 || s.pad[2] > 1 || !fits(s.in_channels) || !fits(s.out_channels)) return 0;
  if (s.out[1] < kLeastSide || s.out[2] < kLeastSide) return 0;
  const int64_t tiles = ((s.out[1] + 3) / 4) * ((s.out[2] + 3) / 4), images = (kLeastTiles - 1) / tiles + 1;
  return s.batch >= (images == 1 ? 2 : images * kLeastPieces) ? images : 0;
}

// Pieces of a convolution, all alike but the last. Piece i's operands begin i steps after the whole one's; all pieces
// read an operand whole where its step is 0.
struct Cut {
  int64_t pieces = 1;
  ConvSize whole, part, last;
  int64_t x_step = 0, w_step = 0, y_step = 0, bias_step = 0;

  Cut(const ConvSize& size, Axis axis) : whole(size), part(size), last(size) {
    const int64_t group_inputs = size.in_channels / size.groups, group_outputs = size.out_channels / size.groups;
    switch (axis) {
      case Axis::kBatch:
        // Rather more pieces than fewer: of 7 pieces of two images each, two threads have 8 images and 6.
        std::tie(part.batch, last.batch) =
            CutInto(size.batch, std::max({int64_t{1}, WinogradImages(size), size.batch / PieceCount(size)}));
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
      case Axis::kOut: std::tie(part.out_channels, last.out_channels) = Divide(size.out_channels, Block(size.out_channels)); break;
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

  // How many pieces the work is worth. Elements read and written count, too, as they take longest where channels are
  // few.
  static int64_t PieceCount(const ConvSize& s) {
    const double products =
        static_cast<double>(s.y_size()) * static_cast<double>(s.in_channels / s.groups) * static_cast<double>(s.taps());
    return PiecesOf(products + 32 * static_cast<double>(s.x_size() + s.y_size()), 1 << 21);
  }

 private:
  static constexpr int64_t kBlock = 16;  // Channels that oneDNN computes together.

  // Larger pieces of many channels read the other operands less often.
  static int64_t Block(int64_t channels) { return channels >= 8 * kBlock ? 2 * kBlock : kBlock; }
  // The size of the pieces along an axis of n, in whole blocks, and the size of the last one.
  std::pair<int64_t, int64_t> Divide(int64_t n, int64_t block) {
    return CutInto(n, std::min(n, ((n - 1) / PieceCount(whole) / block + 1) * block));
  }
  std::pair<int64_t, int64_t> CutInto(int64_t n, int64_t size) {
    pieces = (n - 1) / size + 1;
    return {size, n - (pieces - 1) * size};
  }
};

// An input that all pieces read whole, reordered in parts along the axis that is cut.
class SharedInput {
 public:
  SharedInput(const memory::desc& user, const memory::desc& inner, int axis) : same_(user == inner), whole_(Unbound(inner)) {
    if (same_) return;
    const memory::dims dims = inner.dims();
    const int64_t most = std::clamp<int64_t>(static_cast<int64_t>(inner.get_size()) / kLeastBytes, 1, 16);
    const int64_t block = std::lcm(BlockAlong(user, axis), BlockAlong(inner, axis));
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
  // The least part of a layout's axis that has a layout of its own: 16, 48 or 64 channels, by the processor and their number.
  static int64_t BlockAlong(const memory::desc& layout, int axis) {
    if (layout.data.format_kind != dnnl_blocked) return layout.dims()[static_cast<size_t>(axis)];
    const auto& blocks = layout.data.format_desc.blocking;
    int64_t block = 1;
    for (int i = 0; i < blocks.inner_nblks; ++i) {
      if (blocks.inner_idxs[i] == axis) block *= blocks.inner_blks[i];
    }
    return block;
  }
  struct Part {
    memory from, to;
    dnnl::reorder reorder;
  };
  bool same_;
  memory whole_;
  std::vector<Part> parts_;
};

// One argument of a piece's primitive: the caller's memory and, where the primitive wants another layout, a reordered
// copy in temporary space, which may be shared with other pieces. Nothing is allocated after construction.
class Operand {
 public:
  // `shared` may be null; it is used if its layout is the wanted one.
  Operand(const memory::desc& user, const memory::desc& inner, const SharedInput* shared = nullptr)
      : shared_(shared != nullptr && shared->layout() == inner ? shared : nullptr),
        same_(user == inner),
        user_(Unbound(user)),
        inner_(Unbound(inner)) {
    if (!same_) load_ = dnnl::reorder(user_, inner_);
    dnnl::primitive_attr add;
    dnnl::post_ops ops;
    ops.append_sum();
    add.set_post_ops(ops);
    add_ = dnnl::reorder(inner_, user_, add);
    if (!same_) store_ = dnnl::reorder(inner_, user_);
  }

  // The temporary space that it takes. An output takes some even in the wanted layout, as it may be added.
  size_t bytes(bool is_output) const { return is_output || (shared_ == nullptr && !same_) ? PieceSpace::BytesOf(inner_) : 0; }

  // Prepares an input from the caller's memory.
  void Load(const void* data, PieceSpace& space) {
    if (shared_ != nullptr) return Bind(inner_, shared_->data());
    if (same_) return Bind(inner_, data);
    Bind(user_, data);
    space.Bind(inner_);
    load_.execute(CpuStream(), user_, inner_);
  }
  // Puts the caller's `data` into the wanted layout at `to`; Use(to) then stands for Load(data). Requires: !same().
  void Convert(const void* data, void* to) {
    Bind(user_, data);
    Bind(inner_, to);
    load_.execute(CpuStream(), user_, inner_);
  }
  void Use(const void* converted) { Bind(inner_, converted); }
  // The caller's layout is the wanted one.
  bool same() const { return same_; }
  // As Load, of memory that `other` has loaded, whose copy is used if the layouts agree.
  void LoadAs(const void* data, const Operand& other, PieceSpace& space) {
    if (same_ || inner_.get_desc() != other.inner_.get_desc()) return Load(data, space);
    Bind(inner_, other.inner_.get_data_handle());
  }
  // Prepares an output to the caller's memory, which Store writes or adds to.
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

// Filters in the layouts that the pieces want, one after the other: the form in which constant filters are kept
// (Constants::Find). Forms of one name have the same bytes, so that convolutions of one image and of many share them.
class FilterForm {
 public:
  explicit FilterForm(const Cut& cut)
      : reads_whole_(cut.w_step == 0),
        layouts_(absl::StrCat("Convolution ", cut.whole.groups, " ", cut.whole.out_channels, " ", cut.whole.in_channels, " ",
                              absl::StrJoin(cut.whole.kernel, " "))) {}

  // The next piece wants its filters so. Pieces that read all filters share them where their layouts agree.
  void Add(const memory::desc& layout) {
    if (reads_whole_ && !places_.empty() && layout == last_) return places_.push_back(places_.back());
    places_.push_back(bytes_);
    bytes_ += (layout.get_size() + 63) / 64 * 64;
    const std::string signature = SignatureOf(layout);
    if (signature != signature_) absl::StrAppend(&layouts_, ";", signature_ = signature);
    last_ = layout;
    name_ = absl::StrCat(layouts_, ";", bytes_);
  }
  // Whole blocks of channels follow one another, whichever pieces they belong to.
  const std::string& name() const { return name_; }
  size_t bytes() const { return bytes_; }
  size_t place(int64_t piece) const { return places_[static_cast<size_t>(piece)]; }
  // Whether the piece's filters are at a place of their own, and not at the place of the one before.
  bool is_first(int64_t piece) const { return piece == 0 || place(piece) != place(piece - 1); }

 private:
  // How the elements lie, but for how many there are along the first axis.
  static std::string SignatureOf(const memory::desc& layout) {
    const auto& data = layout.data;
    if (data.format_kind != dnnl_blocked) return std::string(reinterpret_cast<const char*>(&data), sizeof(data));
    const auto& blocks = data.format_desc.blocking;
    const auto numbers = [](const auto* begin, int count) {
      return absl::StrJoin(absl::MakeConstSpan(begin, static_cast<size_t>(count)), " ");
    };
    return absl::StrCat(numbers(blocks.strides, data.ndims), ",", numbers(data.padded_dims + 1, data.ndims - 1), ",",
                        numbers(blocks.inner_blks, blocks.inner_nblks), ",", numbers(blocks.inner_idxs, blocks.inner_nblks));
  }

  const bool reads_whole_;
  std::string layouts_, signature_, name_;
  memory::desc last_;
  std::vector<size_t> places_;
  size_t bytes_ = 0;
};

// An input that all pieces read whole, or null. Data is reordered by images, or by channels where there is one
// image; filters are reordered by output channels.
inline std::unique_ptr<SharedInput> SharedData(const Cut& cut, int64_t step, const memory::desc& user, const memory::desc& inner) {
  if (cut.pieces == 1 || step != 0) return nullptr;
  return std::make_unique<SharedInput>(user, inner, user.dims()[0] > 1 ? 0 : 1);
}
inline std::unique_ptr<SharedInput> SharedFilter(const Cut& cut, const memory::desc& user, const memory::desc& inner) {
  if (cut.pieces == 1 || cut.w_step != 0) return nullptr;
  return std::make_unique<SharedInput>(user, inner, cut.part.groups > 1 ? 1 : 0);
}

// Calls add(make(size), size) for all pieces, with one make for those that are alike.
template <class Make, class Add>
void MakePieces(const Cut& cut, Make make, Add add) {
  auto made = make(cut.part);
  for (int64_t i = 1; i < cut.pieces; ++i) add(made, cut.part);
  if (cut.pieces > 1 && !(cut.last == cut.part)) made = make(cut.last);
  add(made, cut.last);
}

}  // namespace gluond::ops::conv_internal

#endif  // OPS_KERNEL_CPU_CONV_PIECES_H_
