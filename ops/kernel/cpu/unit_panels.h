// UnitPanels: a matrix B that one batch of rows after another is multiplied by, as each step of a recurrent layer does. It is
// packed once, in panels. A panel has all columns of a few units, so that the thread that has multiplied by it can go on with
// the cells of these units.
//
//   const UnitPanels<float> panels({.depth = units, .units = units, .groups = 4});
//   panels.Pack(ctx, b, /*transposed=*/true, packed);
//   panels.Multiply(packed, begin, end, x, rows, /*add=*/true, y);  // The columns of panels [begin, end).
//
// An element's terms are added up in their order, whatever the rows beside it and the panels of a call: equal rows have
// equal results. Float or double.

#ifndef OPS_KERNEL_CPU_UNIT_PANELS_H_
#define OPS_KERNEL_CPU_UNIT_PANELS_H_

#include <algorithm>
#include <cstdint>

#include "engine/core/op_context.h"

namespace gluond::ops {

// B has `depth` rows, and a column for each unit in each group (a gate), group by group. There are 1, 3 or 4 groups.
struct UnitMatrix {
  int64_t depth, units, groups;
};

// A panel is [depth][vectors][lanes]. Its vector v has the units from panel * width + v * unit_step on, and columns likewise.
struct PanelLayout {
  int64_t depth, units, columns, vectors, lanes, width, unit_step, vector_step;
};

template <class C>
class UnitPanels {
 public:
  explicit UnitPanels(const UnitMatrix& matrix);

  int64_t count() const { return (at_.units - 1) / at_.width + 1; }
  // Units of the panels before this one.
  int64_t UnitsBefore(int64_t panel) const { return std::min(panel * at_.width, at_.units); }
  // The packed matrix has so many.
  int64_t elements() const { return count() * at_.depth * at_.vectors * at_.lanes; }

  // `transposed`: `b` has the columns of B one after the other. `to` is 64-byte aligned.
  void Pack(const OpContext& ctx, const C* b, bool transposed, C* to) const;
  // y = x B, or y += x B, in the columns of panels [begin, end). Rows of x, and of y, follow one another.
  void Multiply(const C* packed, int64_t begin, int64_t end, const C* x, int64_t rows, bool add, C* y) const;

 private:
  void PackPanel(const C* b, bool transposed, int64_t panel, C* to) const;

  const PanelLayout at_;
};

}  // namespace gluond::ops

#endif  // OPS_KERNEL_CPU_UNIT_PANELS_H_
