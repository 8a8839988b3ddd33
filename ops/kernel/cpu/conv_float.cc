// float32 convolution by oneDNN, in the layout inside that is fastest there (conv_layouts.h), the reorders from and to
// NCHW included, and in pieces (conv_pieces.h). Gradients of small filters are cut by images, too, and added up.
// Layouts, algorithms and generated code are chosen once for each geometry.

#include <algorithm>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/core/kernel_cache.h"
#include "ops/kernel/conv.h"
#include "ops/kernel/cpu/conv_layouts.h"
#include "ops/kernel/cpu/conv_pieces.h"

namespace gluond::ops {
namespace {

using namespace conv_internal;

// A convolution makes y of x and w; backward, the gradient of x is made of w and dy, and that of w of x and dy.
enum class Result { kY, kX, kW };

constexpr dnnl::algorithm kDirect = dnnl::algorithm::convolution_direct, kWinograd = dnnl::algorithm::convolution_winograd;

// Null where oneDNN does not have the algorithm.
dnnl::primitive_desc DescOf(Result result, const Layouts& l, bool with_bias, dnnl::algorithm algorithm) {
  const bool is_optional = algorithm == kWinograd;
  const memory::desc bias = with_bias ? l.bias : memory::desc();
  const auto forward = [&](dnnl::algorithm by) {
    return dnnl::convolution_forward::primitive_desc(
        {dnnl::prop_kind::forward_training, by, l.x, l.w, bias, l.y, l.stride, l.dilate, l.pad, l.pad}, UserScratchpad(),
        CpuEngine(), /*allow_empty=*/by == kWinograd);
  };
  switch (result) {
    case Result::kY: return forward(algorithm);
    case Result::kX:
      return dnnl::convolution_backward_data::primitive_desc({algorithm, l.x, l.w, l.y, l.stride, l.dilate, l.pad, l.pad},
                                                             UserScratchpad(), CpuEngine(), forward(kDirect), is_optional);
    case Result::kW: break;
  }
  return dnnl::convolution_backward_weights::primitive_desc({algorithm, l.x, l.w, bias, l.y, l.stride, l.dilate, l.pad, l.pad},
                                                            UserScratchpad(), CpuEngine(), forward(kDirect), is_optional);
}

// Null, too, where a thread would take too much temporary space: some sizes of images have no divisors that fit a cache.
dnnl::primitive_desc WinogradDesc(Result result, const ConvSize& piece, const ConvSize& whole, bool with_bias) {
  constexpr size_t kMostBytes = 16 << 20;
  dnnl::primitive_desc desc = DescOf(result, Layouts(piece, whole, Inside::kBlocked), with_bias, kWinograd);
  return desc && desc.scratchpad_desc().get_size() <= kMostBytes ? desc : dnnl::primitive_desc();
}

FewChannels FewChannelsFor(Result result) {
  if (result == Result::kY) return {12};
  if (result == Result::kX) return {4, true};
  return HasAvx512() ? FewChannels{3} : FewChannels{1, true};
}

Axis AxisOf(Result result, const ConvSize& s) {
  // Pieces of images have gradients of all filters, which should be less to write and to read than the data.
  const bool by_images = result != Result::kW || s.w_size() * Cut(s, Axis::kBatch).pieces * 2 < s.x_size() + s.y_size();
  if (s.batch > 1 && by_images) return Axis::kBatch;
  if (s.groups > 1) return Axis::kGroups;
  return result == Result::kX ? Axis::kIn : Axis::kOut;
}

// All pieces of one of the three results, for one geometry.
struct Pieces {
  // The gradients lie as x, w, y and the bias do, and take their places.
  struct Piece {
    Operand x, w, y, bias;
    memory scratchpad;
    dnnl::primitive primitive;
    float *dw = nullptr, *dbias = nullptr;  // The piece's own gradients.
  };

  Pieces(Result made, const ConvSize& size, bool with_bias)
      : result(made), cut(size, AxisOf(made, size)), reorders_filters(made != Result::kW), filter_form(cut) {
    const auto winograd = [&](const ConvSize& piece) { return WinogradDesc(result, piece, size, with_bias); };
    // Equal images have equal bits: all pieces are computed by one algorithm.
    const bool is_winograd =
        AxisOf(made, size) == Axis::kBatch && WinogradImages(size) > 0 && winograd(cut.part) && winograd(cut.last);
    const auto make = [&](const ConvSize& piece) {
      if (is_winograd) return winograd(piece);
      return BestDesc(piece, size, FewChannelsFor(result), [&](const Layouts& l) { return DescOf(result, l, with_bias, kDirect); });
    };
    MakePieces(cut, make, [&](const dnnl::primitive_desc& desc, const ConvSize& piece) {
      const auto inner = [&](int argument) { return desc.query_md(dnnl::query::exec_arg_md, argument); };
      const memory::desc x = inner(x_argument()), w = inner(w_argument()), y = inner(y_argument());
      const Layouts user(piece, size, Inside::kPlain);
      if (pieces.empty()) {
        shared_x = SharedData(cut, cut.x_step, user.user_x, x);
        shared_y = SharedData(cut, cut.y_step, user.user_y, y);
        if (result != Result::kW) shared_w = SharedFilter(cut, user.user_w, w);
      }
      pieces.push_back({{user.user_x, x, shared_x.get()},
                        {user.user_w, w, shared_w.get()},
                        {user.user_y, y, shared_y.get()},
                        {user.bias, user.bias},
                        Unbound(desc.scratchpad_desc()),
                        dnnl::primitive(desc)});
      const Piece& made = pieces.back();
      reorders_filters = reorders_filters && !made.w.same();
      if (reorders_filters) filter_form.Add(w);
      bytes = std::max(bytes, made.x.bytes(result == Result::kX) + made.w.bytes(result == Result::kW) +
                                  made.y.bytes(result == Result::kY) + made.bias.bytes(result == Result::kW) +
                                  PieceSpace::BytesOf(made.scratchpad));
    });
  }

  int x_argument() const { return result == Result::kX ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC; }
  int w_argument() const { return result == Result::kW ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS; }
  int y_argument() const { return result == Result::kY ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST; }
  int bias_argument() const { return result == Result::kW ? DNNL_ARG_DIFF_BIAS : DNNL_ARG_BIAS; }

  // Reorders what all pieces read whole, and constant filters once for all runs. The result's own pointer is not read.
  absl::Status LoadShared(const OpContext& ctx, absl::string_view what, const float* x, const float* w, const float* y) {
    ASSIGN_OR_RETURN(kept_filters, KeptFilters(ctx, what, w));
    if (shared_x != nullptr) RETURN_IF_ERROR(shared_x->Load(ctx, what, x));
    if (shared_w != nullptr && kept_filters == nullptr) RETURN_IF_ERROR(shared_w->Load(ctx, what, w));
    return shared_y == nullptr ? absl::OkStatus() : shared_y->Load(ctx, what, y);
  }

  // The form in which the constant filters `w` are kept, or null.
  absl::StatusOr<const char*> KeptFilters(const OpContext& ctx, absl::string_view what, const float* w) {
    if (ctx.constants == nullptr || !reorders_filters) return nullptr;
    ASSIGN_OR_RETURN(const void* const kept, ctx.constants->Find(w, filter_form.name(), filter_form.bytes(), [&](void* to) {
      return CallOneDnn(what, [&] {
        for (int64_t i = 0; i < cut.pieces; ++i) {
          if (!filter_form.is_first(i)) continue;
          pieces[i].w.Convert(w + i * cut.w_step, static_cast<char*>(to) + filter_form.place(i));
        }
        return absl::OkStatus();
      });
    }));
    return static_cast<const char*>(kept);
  }

  void Execute(Piece& piece, PieceSpace& space) const {
    space.Bind(piece.scratchpad);
    piece.primitive.execute(CpuStream(), {{x_argument(), piece.x.inner()},
                                          {w_argument(), piece.w.inner()},
                                          {y_argument(), piece.y.inner()},
                                          {bias_argument(), piece.bias.inner()},
                                          {DNNL_ARG_SCRATCHPAD, piece.scratchpad}});
  }

  // Piece i of y, from x; or of dx, from dy. `bias` may be null.
  void Run(int64_t i, const float* from, const float* w, const float* bias, bool add, float* to, PieceSpace& space) {
    Piece& piece = pieces[i];
    const bool forward = result == Result::kY;
    Operand &in = forward ? piece.x : piece.y, &out = forward ? piece.y : piece.x;
    in.Load(from + i * (forward ? cut.x_step : cut.y_step), space);
    if (kept_filters != nullptr) {
      piece.w.Use(kept_filters + filter_form.place(i));
    } else {
      piece.w.Load(w + i * cut.w_step, space);
    }
    piece.bias.Load(bias == nullptr ? nullptr : bias + i * cut.bias_step, space);
    out.Point(to + i * (forward ? cut.y_step : cut.x_step), add, space);
    Execute(piece, space);
    out.Store(add);
  }

  // Pieces of images, where several, have gradients of their own that are added up.
  bool adds_up() const { return cut.pieces > 1 && cut.w_step == 0; }

  // Sets where the pieces' gradients go: to the outputs, or to temporary space until AddUp. `dbias` may be null.
  absl::Status Point(const OpContext& ctx, float* dw, float* dbias) {
    for (int64_t i = 0; i < cut.pieces; ++i) {
      Piece& piece = pieces[i];
      piece.dw = dw + i * cut.w_step;
      piece.dbias = dbias == nullptr ? nullptr : dbias + i * cut.bias_step;
      if (!adds_up()) continue;
      const int64_t elements = cut.whole.w_size() + cut.whole.out_channels;
      ASSIGN_OR_RETURN(void* const space, ctx.scratch->Get(elements * sizeof(float)));
      piece.dw = static_cast<float*>(space);
      piece.dbias = dbias == nullptr ? nullptr : piece.dw + cut.whole.w_size();
    }
    return absl::OkStatus();
  }
  // Piece i of dw and dbias. `loaded_dy`: the same images' dy, where another primitive has loaded it; or null.
  void RunFilters(int64_t i, const float* dy, const float* x, bool add_w, bool add_bias, const Operand* loaded_dy,
                  PieceSpace& space) {
    Piece& piece = pieces[i];
    add_w &= !adds_up();
    add_bias &= !adds_up();
    if (loaded_dy == nullptr) {
      piece.y.Load(dy + i * cut.y_step, space);
    } else {
      piece.y.LoadAs(dy + i * cut.y_step, *loaded_dy, space);
    }
    piece.x.Load(x + i * cut.x_step, space);
    piece.w.Point(piece.dw, add_w, space);
    if (piece.dbias != nullptr) piece.bias.Point(piece.dbias, add_bias, space);
    Execute(piece, space);
    piece.w.Store(add_w);
    if (piece.dbias != nullptr) piece.bias.Store(add_bias);
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
             [&](int64_t begin, int64_t end) { sum(&Piece::dw, begin, end, add_w, dw); });
    if (dbias != nullptr) sum(&Piece::dbias, 0, cut.whole.out_channels, add_bias, dbias);
  }

  size_t kept_bytes() const { return 2 * kCodeBytes + pieces.size() * kPieceBytes; }

  const Result result;
  const Cut cut;
  std::unique_ptr<SharedInput> shared_x, shared_w, shared_y;
  std::vector<Piece> pieces;
  bool reorders_filters;  // All pieces do: constant filters are kept in another form.
  FilterForm filter_form;
  const char* kept_filters = nullptr;  // In the call under way, unless it reorders them itself.
  size_t bytes = 0;                    // The temporary space of the piece that takes most.
};

absl::StatusOr<std::shared_ptr<Pieces>> PiecesOf(const OpContext& ctx, Result result, const ConvSize& size, bool with_bias) {
  return Prepared<Pieces>(ctx.kernels, std::tuple(result, size, with_bias), [&]() -> absl::StatusOr<std::unique_ptr<Pieces>> {
    return std::make_unique<Pieces>(result, size, with_bias);
  });
}

}  // namespace

int64_t ConvBlock() { return HasAvx512() ? 16 : 8; }

absl::Status ConvForward(const OpContext& ctx, const ConvSize& size, const float* x, const float* w, const float* bias, bool add,
                         float* y) {
  if (IsDepthwiseVolume(size)) return ConvForwardDepthwise(ctx, size, x, w, bias, add, y);
  constexpr absl::string_view kWhat = "Convolution";
  std::shared_ptr<Pieces> to_y;
  RETURN_IF_ERROR(CallOneDnn(kWhat, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(to_y, PiecesOf(ctx, Result::kY, size, bias != nullptr));
    return absl::OkStatus();
  }));
  RETURN_IF_ERROR(to_y->LoadShared(ctx, kWhat, x, w, nullptr));
  return ForEachPiece(ctx, kWhat, to_y->cut.pieces, to_y->bytes, [&](int64_t i, PieceSpace space) {
    to_y->Run(i, x, w, bias, add, y, space);
    return absl::OkStatus();
  });
}

absl::Status PrepareConvForward(const OpContext& ctx, DType dtype, const ConvSize& size, bool with_bias) {
  if (dtype == DType::kFloat64 || IsDepthwiseVolume(size)) return absl::OkStatus();
  return CallOneDnn("Convolution", [&] { return PiecesOf(ctx, Result::kY, size, with_bias).status(); });
}

absl::Status PrepareConvBackward(const OpContext& ctx, DType dtype, const ConvSize& size, bool wants_x, bool wants_w,
                                 bool wants_bias) {
  if (dtype == DType::kFloat64) return absl::OkStatus();
  return CallOneDnn("_backward_Convolution", [&]() -> absl::Status {
    if (wants_x) RETURN_IF_ERROR(PiecesOf(ctx, Result::kX, size, false).status());
    return wants_w || wants_bias ? PiecesOf(ctx, Result::kW, size, wants_bias).status() : absl::OkStatus();
  });
}

absl::Status ConvBackward(const OpContext& ctx, const ConvSize& size, const float* dy, const float* x, const float* w, ConvOut dx,
                          ConvOut dw, ConvOut dbias) {
  constexpr absl::string_view kWhat = "_backward_Convolution";
  const bool wants_x = dx.req != kNullOp, wants_w = dw.req != kNullOp || dbias.req != kNullOp;
  const bool add_x = dx.req == kAddTo, add_w = dw.req == kAddTo, add_bias = dbias.req == kAddTo;
  if (wants_w && dw.req == kNullOp) {  // The primitive makes both.
    ASSIGN_OR_RETURN(dw.data, ctx.scratch->Get(size.w_size() * sizeof(float)));
  }
  float* const dx_data = static_cast<float*>(dx.data);
  float* const dw_data = static_cast<float*>(dw.data);
  float* const dbias_data = dbias.req == kNullOp ? nullptr : static_cast<float*>(dbias.data);
  std::shared_ptr<Pieces> to_x, to_w;
  RETURN_IF_ERROR(CallOneDnn(kWhat, [&]() -> absl::Status {
    if (wants_x) {
      ASSIGN_OR_RETURN(to_x, PiecesOf(ctx, Result::kX, size, false));
    }
    if (wants_w) {
      ASSIGN_OR_RETURN(to_w, PiecesOf(ctx, Result::kW, size, dbias_data != nullptr));
      RETURN_IF_ERROR(to_w->Point(ctx, dw_data, dbias_data));
    }
    return absl::OkStatus();
  }));
  if (wants_x) RETURN_IF_ERROR(to_x->LoadShared(ctx, kWhat, nullptr, w, dy));
  if (wants_w) RETURN_IF_ERROR(to_w->LoadShared(ctx, kWhat, x, nullptr, dy));
  // Pieces of the same images read one copy of dy.
  const bool together = wants_x && wants_w && to_x->cut.part == to_w->cut.part && to_x->cut.pieces == to_w->cut.pieces;
  if (wants_x) {
    const size_t bytes = to_x->bytes + (together ? to_w->bytes : 0);
    RETURN_IF_ERROR(ForEachPiece(ctx, kWhat, to_x->cut.pieces, bytes, [&](int64_t i, PieceSpace space) {
      to_x->Run(i, dy, w, nullptr, add_x, dx_data, space);
      if (together) to_w->RunFilters(i, dy, x, add_w, add_bias, &to_x->pieces[i].y, space);
      return absl::OkStatus();
    }));
  }
  if (!wants_w) return absl::OkStatus();
  if (!together) {
    RETURN_IF_ERROR(ForEachPiece(ctx, kWhat, to_w->cut.pieces, to_w->bytes, [&](int64_t i, PieceSpace space) {
      to_w->RunFilters(i, dy, x, add_w, add_bias, nullptr, space);
      return absl::OkStatus();
    }));
  }
  to_w->AddUp(ctx, dw_data, dbias_data, add_w, add_bias);
  return absl::OkStatus();
}

}  // namespace gluond::ops
