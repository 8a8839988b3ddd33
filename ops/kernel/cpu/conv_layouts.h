// The layouts of a float32 convolution inside oneDNN, and the choice among them.
//
// With AVX-512 oneDNN's blocked layouts are the fastest where the channels fill the blocks of 16, by up to 2. The
// blocked layouts also win where an input has very few channels, or a depthwise input many, by up to 1.5. Elsewhere the
// channels are last, by 1.1 to 1.7 (20 channels would be padded to 32). With AVX2 the blocked layouts win by 1.1 to 3.
// Where oneDNN generates no code for a layout, the next layout is tried: oneDNN's other implementations are 2 to 1000
// times slower. But the gradient of an input of few channels is fastest as a product of columns, by 1.2 to 2.

#ifndef OPS_KERNEL_CPU_CONV_LAYOUTS_H_
#define OPS_KERNEL_CPU_CONV_LAYOUTS_H_

#include <array>
#include <utility>

#include "absl/strings/string_view.h"
#include "ops/kernel/conv.h"
#include "ops/kernel/cpu/onednn.h"

namespace gluond::ops::conv_internal {

using dnnl::memory;
using Tag = memory::format_tag;

inline memory::desc Float(const memory::dims& dims, Tag tag) { return {dims, memory::data_type::f32, tag}; }

// How activations lie inside oneDNN: as it likes them (in blocks of channels), channels last, or as the caller's.
enum class Inside { kBlocked, kChannelsLast, kPlain };

// A piece of a tensor, in the caller's memory.
inline memory::desc Within(const memory::dims& piece, const memory::dims& whole) {
  memory::dims strides(whole.size(), 1);
  for (size_t axis = whole.size() - 1; axis > 0; --axis) {
    // oneDNN compares the strides of dense tensors along axes of size 1, too.
    strides[axis - 1] = strides[axis] * (piece[axis - 1] == 1 ? piece[axis] : whole[axis]);
  }
  return {piece, memory::data_type::f32, strides};
}

// Images in blocks of channels; a piece has whole ones.
inline Tag InBlocks(int64_t block) { return block == 16 ? Tag::nChw16c : Tag::nChw8c; }

// The sizes of a convolution's tensors. Flat ones get two spatial axes, as oneDNN generates more code for two than
// three.
struct Dims {
  memory::dims x, w, y;

  explicit Dims(const ConvSize& s)
      : x({s.batch, s.in_channels}), w({s.out_channels / s.groups, s.in_channels / s.groups}), y({s.batch, s.out_channels}) {
    if (s.groups > 1) w.insert(w.begin(), s.groups);
    for (int axis = s.flat() ? 1 : 0; axis < 3; ++axis) {
      x.push_back(s.in[axis]);
      y.push_back(s.out[axis]);
      w.push_back(s.kernel[axis]);
    }
  }
};

// The layouts of a piece `s` of the convolution `of`.
struct Layouts {
  memory::dims stride, dilate, pad;
  memory::desc user_x, user_w, user_y, x, w, y, bias;

  Layouts(const ConvSize& s, const ConvSize& of, Inside inside) {
    const int first = s.flat() ? 1 : 0;
    const Tag plain = first == 1 ? Tag::nchw : Tag::ncdhw, last = first == 1 ? Tag::nhwc : Tag::ndhwc;
    const Tag tag = inside == Inside::kBlocked ? Tag::any : inside == Inside::kChannelsLast ? last : plain;
    for (int axis = first; axis < 3; ++axis) {
      stride.push_back(s.stride[axis]);
      dilate.push_back(s.dilate[axis] - 1);  // oneDNN counts the gaps.
      pad.push_back(s.pad[axis]);
    }
    const Dims piece(s);
    Dims whole(of);
    if (whole.w.size() > piece.w.size()) whole.w.erase(whole.w.begin());  // A piece of one group.
    user_x = s.x_block == 1 ? Within(piece.x, whole.x) : Float(piece.x, InBlocks(s.x_block));
    user_y = s.y_block == 1 ? Within(piece.y, whole.y) : Float(piece.y, InBlocks(s.y_block));
    user_w = Within(piece.w, whole.w);
    // One channel lies last as it lies first, but the name decides which code oneDNN has for it.
    x = Float(piece.x, s.in_channels == 1 && inside == Inside::kChannelsLast ? plain : tag);
    y = Float(piece.y, s.out_channels == 1 && inside == Inside::kChannelsLast ? plain : tag);
    w = Float(piece.w, Tag::any);
    bias = Float({s.out_channels}, Tag::a);
  }
};

// 0 for generated code, 1 for a product of the windows' columns, 2 for the reference implementation.
inline int RankOf(absl::string_view implementation) {
  const auto is = [&](absl::string_view name) { return implementation.find(name) != absl::string_view::npos; };
  return is("ref") ? 2 : is("gemm") ? 1 : 0;
}

// An input of at most so many channels has few: its layout is a blocked one, though no block is full. With `columns`
// such an input keeps the caller's layout: the product of columns is then faster than generated code.
struct FewChannels {
  int64_t channels;
  bool columns = false;
};

// The layouts in the order in which they are tried.
inline std::array<Inside, 3> OrderOf(const ConvSize& size, const FewChannels& few) {
  const bool has_few = size.groups == 1 && size.in_channels <= few.channels;
  if (has_few && few.columns) return {Inside::kPlain, Inside::kBlocked, Inside::kChannelsLast};
  const bool fills_blocks = size.in_channels % 16 == 0 && size.out_channels % 16 == 0;
  const bool is_deep = size.groups == size.in_channels && size.groups > 64;  // Depthwise, of many channels.
  if (!HasAvx512() || has_few || fills_blocks || is_deep) return {Inside::kBlocked, Inside::kChannelsLast, Inside::kPlain};
  return {Inside::kChannelsLast, Inside::kBlocked, Inside::kPlain};
}

// The description of the best implementation among those that make(layouts) gives for the layouts.
template <class Make>
auto BestDesc(const ConvSize& piece, const ConvSize& whole, const FewChannels& few, Make make) {
  const std::array<Inside, 3> order = OrderOf(whole, few);
  const int enough = order[0] == Inside::kPlain ? 1 : 0;
  auto best = make(Layouts(piece, whole, order[0]));
  for (size_t i = 1; i < order.size() && RankOf(best.impl_info_str()) > enough; ++i) {
    auto desc = make(Layouts(piece, whole, order[i]));
    if (RankOf(desc.impl_info_str()) < RankOf(best.impl_info_str())) best = std::move(desc);
  }
  return best;
}

}  // namespace gluond::ops::conv_internal

#endif  // OPS_KERNEL_CPU_CONV_LAYOUTS_H_
