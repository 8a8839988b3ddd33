// Parts that the families of cells share. Only cell*.cc include this file.

#ifndef ENGINE_NN_CELLS_H_
#define ENGINE_NN_CELLS_H_

#include <vector>

#include "engine/nn/blocks.h"
#include "engine/nn/cell.h"

namespace gluond {

std::vector<CellCatalog::Entry> GatedCells();
std::vector<CellCatalog::Entry> CellsOfCells();

using MadeCell = absl::StatusOr<std::unique_ptr<Cell>>;

// The entry of a cell with attributes P and `count` children (-1: any number, at least one), made by
// `make(p, scope, cells)`.
template <class P, class Make>
CellCatalog::Entry CellEntry(const char* name, const char* description, int count, Make make) {
  return {name, description, P::__FIELDS__(),
          [count, make](const BlockSpec& block, const BlockScope& scope, const BlockChildren& children) -> MadeCell {
            const int given = static_cast<int>(block.children.size());
            if (count >= 0 ? given != count : given == 0) {
              return absl::InvalidArgumentError(
                  absl::StrCat("wants ", count < 0 ? "one or more" : absl::StrCat(count), " cells as children, got ", given));
            }
            ASSIGN_OR_RETURN(const P p, ParseAttrs<P>(block.attrs));
            std::vector<std::unique_ptr<Cell>> cells;
            for (size_t i = 0; i < block.children.size(); ++i) {
              ASSIGN_OR_RETURN(cells.emplace_back(), children.MakeCell(i));
            }
            return make(p, scope, std::move(cells));
          }};
}

}  // namespace gluond

#endif  // ENGINE_NN_CELLS_H_
