// Products of recurrent layers on a CPU, and the cells after them. Weights are packed once for all steps of a call, and once for
// all calls where they never change. A thread that has multiplied by some panels goes on with the cells of their units:
// threads wait for each other once a step.

#include <string>

#include "ops/kernel/cpu/unit_panels.h"

namespace gluond::ops {

template <class D, class C>
class UnitProduct {
 public:
  UnitProduct(const GemmSize& size, int64_t units)
      : size_(size), panels_({.depth = size.k, .units = units, .groups = size.n / units}) {}

  // `times`: the products there will be. A lone one is over before its weights would be packed, but a constant's product is of
  // panels whether these are kept or not: it has the same bits.
  absl::Status Load(const OpContext& ctx, const C* parameters, int64_t at, int64_t times) {
    weights_ = parameters + at;
    packed_ = nullptr;
    if (ctx.constants != nullptr) {
      const std::string form = absl::StrCat("unit product ", at, " ", size_.k, " ", size_.n, " ", size_.transpose_b);
      ASSIGN_OR_RETURN(const void* const kept, ctx.constants->Find(parameters, form, panels_.elements() * sizeof(C), [&](void* to) {
        panels_.Pack(ctx, weights_, size_.transpose_b, static_cast<C*>(to));
        return absl::OkStatus();
      }));
      packed_ = static_cast<const C*>(kept);
    }
    const bool constant = ctx.constants != nullptr && ctx.constants->Contains(parameters);
    if (packed_ != nullptr || (times < 2 && !constant)) return absl::OkStatus();
    if (space_ == nullptr) {
      ASSIGN_OR_RETURN(space_, Space<C>(ctx, panels_.elements()));
    }
    panels_.Pack(ctx, weights_, size_.transpose_b, space_);
    packed_ = space_;
    return absl::OkStatus();
  }

  absl::Status Multiply(const OpContext& ctx, const C* x, OpReqType req, C* y) const {
    if (packed_ == nullptr) return Gemm<D>(ctx, DTypeOf<C>, size_, x, weights_, req, y);
    ForEachPanel(ctx, [&](int64_t begin, int64_t end) { panels_.Multiply(packed_, begin, end, x, size_.m, req == kAddTo, y); });
    return absl::OkStatus();
  }
  template <class F>
  absl::Status Run(const OpContext& ctx, const C* x, OpReqType req, C* y, const F& cells) const {
    if (packed_ == nullptr) {
      if (x != nullptr) RETURN_IF_ERROR(Multiply(ctx, x, req, y));
      return ForEachUnit<D>(ctx, size_.m, cells);
    }
    ForEachPanel(ctx, [&](int64_t begin, int64_t end) {
      if (x != nullptr) panels_.Multiply(packed_, begin, end, x, size_.m, req == kAddTo, y);
      RunCells(cells, 0, size_.m, panels_.UnitsBefore(begin), panels_.UnitsBefore(end));
    });
    return absl::OkStatus();
  }

 private:
  template <class Body>
  void ForEachPanel(const OpContext& ctx, const Body& body) const {
    constexpr int64_t kLeastWork = 3 << 14;  // Multiplications, which take some microseconds.
    const int64_t pieces = std::max<int64_t>(1, size_.m * size_.n * size_.k / kLeastWork);
    Parallel(ctx, panels_.count(), (panels_.count() - 1) / pieces + 1, body);
  }

  const GemmSize size_;
  const UnitPanels<C> panels_;
  C* space_ = nullptr;          // Where this call packs weights.
  const C* weights_ = nullptr;  // The weights that are loaded,
  const C* packed_ = nullptr;   // and their panels. Null: they are not packed.
};

}  // namespace gluond::ops
