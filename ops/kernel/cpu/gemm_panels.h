// Products with a constant matrix B, which is kept in panels of 64 columns as oneDNN's fast code reads them. For few
// rows, packing B in each call would take as long as the product. A matrix packed as a whole is read in steps of the
// matrix's width.

#ifndef OPS_KERNEL_CPU_GEMM_PANELS_H_
#define OPS_KERNEL_CPU_GEMM_PANELS_H_

#include <algorithm>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ops/kernel/cpu/onednn.h"
#include "ops/kernel/gemm.h"

namespace gluond::ops {

// Sets or adds to rows of `cols` elements, which lie `pitch` apart at `to` and follow one another at `from`.
inline void StoreRows(const float* from, int64_t rows, int64_t cols, bool add, float* to, int64_t pitch) {
  for (int64_t row = 0; row < rows; ++row, from += cols, to += pitch) {
    if (!add) std::fill_n(to, cols, 0.f);
    for (int64_t col = 0; col < cols; ++col) to[col] += from[col];
  }
}

// One such product. oneDNN's functions throw.
class PanelProduct {
 public:
  // More rows than these pay for the packing. One row is faster without any (gemm.cc).
  static constexpr int64_t kMostRows = 128;

  static bool Fits(const GemmSize& s) {
    return HasAvx512() && s.batch == 1 && !s.transpose_a && s.alpha == 1 && s.m > 1 && s.m <= kMostRows;
  }

  // In so many pieces, or fewer. Requires: Fits(s).
  PanelProduct(const GemmSize& s, int64_t pieces)
      : size_(s),
        panels_((s.n - 1) / kCols + 1),
        each_((panels_ - 1) / pieces + 1),
        panel_bytes_(LayoutOf(s.k, kCols).get_size()),
        form_(absl::StrCat("matrix product ", s.k, " ", s.n, " ", s.transpose_b)) {}

  // The form in which B is kept, its bytes, and what makes it.
  const std::string& form() const { return form_; }
  size_t bytes() const { return PlaceOf(panels_); }
  void Pack(const float* b, char* to) const {
    for (int64_t i = 0; i < panels_; ++i) {
      memory columns = Unbound(
          {{size_.k, ColsOf(i)}, memory::data_type::f32, size_.transpose_b ? memory::dims{1, size_.k} : memory::dims{size_.n, 1}});
      memory panel = Unbound(LayoutOf(size_.k, ColsOf(i)));
      Bind(columns, b + i * kCols * (size_.transpose_b ? size_.k : 1));
      Bind(panel, to + PlaceOf(i));
      dnnl::reorder(columns, panel).execute(CpuStream(), columns, panel);
    }
  }

  // Before the first Run. Whether oneDNN has fast code for it.
  bool Prepare() {
    if (pieces_.empty()) {
      for (int64_t first = 0; first < panels_; first += each_) {
        pieces_.push_back({Panel(size_, std::min(kCols, size_.n)), Panel(size_, ColsOf(panels_ - 1))});
      }
    }
    return pieces_[0].full.is_fast() && pieces_[0].last.is_fast();
  }

  // C, from A and the form of B.
  absl::Status Run(const OpContext& ctx, absl::string_view what, const float* a, const char* kept, bool add, float* c) {
    const bool apart = add || panels_ > 1;
    const int64_t count = static_cast<int64_t>(pieces_.size());
    return ForEachPiece(ctx, what, count, pieces_[0].full.space(), [&](int64_t piece, PieceSpace space) {
      auto& [full, last] = pieces_[static_cast<size_t>(piece)];
      for (int64_t i = piece * each_; i < std::min((piece + 1) * each_, panels_); ++i) {
        Panel& panel = i + 1 < panels_ ? full : last;
        panel.Run(a, kept + PlaceOf(i), space, apart, add, c + i * kCols, size_.n);
      }
      return absl::OkStatus();
    });
  }

 private:
  using memory = dnnl::memory;
  static constexpr int64_t kCols = 64;

  static memory::desc LayoutOf(int64_t k, int64_t cols) {
    return {{k, cols}, memory::data_type::f32, memory::format_tag::BA16a64b};
  }

  // The product with a panel, and its arguments, for one thread at a time.
  class Panel {
   public:
    Panel(const GemmSize& s, int64_t cols) : rows_(s.m), cols_(cols) {
      const memory::desc a({s.m, s.k}, memory::data_type::f32, memory::format_tag::ab);
      const memory::desc b = LayoutOf(s.k, cols);
      const memory::desc c({s.m, cols}, memory::data_type::f32, memory::format_tag::ab);
      const dnnl::matmul::primitive_desc desc(dnnl::matmul::desc(a, b, c), UserScratchpad(), CpuEngine());
      is_fast_ = absl::StartsWith(desc.impl_info_str(), "brg");
      primitive_ = dnnl::matmul(desc);
      arguments_ = {{DNNL_ARG_SRC, Unbound(a)},
                    {DNNL_ARG_WEIGHTS, Unbound(b)},
                    {DNNL_ARG_DST, Unbound(c)},
                    {DNNL_ARG_SCRATCHPAD, Unbound(desc.scratchpad_desc())}};
    }
    bool is_fast() const { return is_fast_; }
    // Bytes that Run takes of its space.
    size_t space() const {
      return PieceSpace::BytesOf(arguments_.at(DNNL_ARG_DST)) + PieceSpace::BytesOf(arguments_.at(DNNL_ARG_SCRATCHPAD));
    }
    // `apart`: the panel's part of C is computed in `space` first, where it is dense.
    void Run(const float* a, const char* panel, PieceSpace space, bool apart, bool add, float* c, int64_t pitch) {
      memory& dst = arguments_.at(DNNL_ARG_DST);
      Bind(arguments_.at(DNNL_ARG_SRC), a);
      Bind(arguments_.at(DNNL_ARG_WEIGHTS), panel);
      apart ? space.Bind(dst) : Bind(dst, c);
      space.Bind(arguments_.at(DNNL_ARG_SCRATCHPAD));
      primitive_.execute(CpuStream(), arguments_);
      if (apart) StoreRows(static_cast<const float*>(dst.get_data_handle()), rows_, cols_, add, c, pitch);
    }

   private:
    int64_t rows_, cols_;
    bool is_fast_ = false;
    dnnl::matmul primitive_;
    std::unordered_map<int, memory> arguments_;
  };
  struct Piece {
    Panel full, last;
  };

  int64_t ColsOf(int64_t panel) const { return std::min(kCols, size_.n - panel * kCols); }
  // One of few columns takes as many bytes as the others.
  size_t PlaceOf(int64_t panel) const { return panel_bytes_ * static_cast<size_t>(panel); }

  const GemmSize size_;
  const int64_t panels_, each_;  // The panels of C, and those of a piece.
  const size_t panel_bytes_;
  const std::string form_;
  std::vector<Piece> pieces_;
};

}  // namespace gluond::ops

#endif  // OPS_KERNEL_CPU_GEMM_PANELS_H_
