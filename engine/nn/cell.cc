#include "engine/nn/cell.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/nn/blocks.h"
#include "engine/nn/cells.h"

namespace gluond {
namespace {

enum UnrollLayout { kUnrollNTC, kUnrollTNC };

// The attributes of a cell at the place of a block, besides its own.
struct UnrollParam : Param<UnrollParam> {
  int64_t length;
  int layout;
  static void Fields(Schema<UnrollParam>& s) {
    s.Field("length", &UnrollParam::length)
        .Range(1, 1 << 16)
        .Describe("Steps of the sequence. Cells within a cell have neither length nor layout.");
    s.Field("layout", &UnrollParam::layout)
        .Enum({{"NTC", kUnrollNTC}, {"TNC", kUnrollTNC}})
        .Default("NTC")
        .Describe("Axes of input and output: T steps, N samples, C numbers.");
  }
};

absl::StatusOr<NodeEntry> UnrollAsBlock(const CellCatalog::Entry& entry, const BlockSpec& block, const BlockScope& scope,
                                        NodeEntry x, const BlockChildren& children) {
  AttrDict unroll;
  BlockSpec cell = block;
  for (const FieldSpec& field : UnrollParam::GetSchema().fields()) {
    if (auto attr = cell.attrs.extract(field.doc.name)) unroll.insert(std::move(attr));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<Cell> made, entry.make(cell, scope, children));
  ASSIGN_OR_RETURN(const UnrollParam p, ParseAttrs<UnrollParam>(unroll));
  return made->UnrollSequence(std::move(x), p.length, p.layout == kUnrollNTC ? 1 : 0);
}

// Zeros (batch, size) for x (batch, ...): slices, as the size of the batch is not known yet.
NodeEntry ZeroState(Formula& f, const NodeEntry& x, int64_t size) {
  const NodeEntry rows = f("Reshape", {x}, {{"shape", "(0, -1)"}});
  const NodeEntry first = f("slice_axis", {rows}, {{"axis", "1"}, {"begin", "0"}, {"end", "1"}});
  const NodeEntry column = f("Reshape", {f("zeros_like", {first})}, {{"shape", "(-1, 1)"}});
  return f("broadcast_axis", {column}, {{"axis", "(1,)"}, {"size", Text(std::vector<int64_t>{size})}});
}

}  // namespace

Formula Cell::NextStep() { return scope_.NewFormula(absl::StrCat("t", steps_++, "_")); }

absl::StatusOr<Cell::Entries> Cell::Unroll(Entries steps) {
  Formula f = scope_.NewFormula("begin_");
  Entries states;
  for (int64_t size : StateSizes()) states.push_back(ZeroState(f, steps[0], size));
  RETURN_IF_ERROR(f.status());
  for (NodeEntry& step : steps) {
    ASSIGN_OR_RETURN(step, Step(std::move(step), &states));
  }
  return steps;
}

absl::StatusOr<NodeEntry> Cell::UnrollSequence(NodeEntry x, int64_t length, int axis) {
  Formula f = scope_.NewFormula();
  Entries steps = f.Outputs(static_cast<size_t>(length), "SliceChannel", {std::move(x)},
                            {{"num_outputs", Text(length)}, {"axis", Text(axis)}, {"squeeze_axis", "True"}});
  RETURN_IF_ERROR(f.status());
  ASSIGN_OR_RETURN(steps, Unroll(std::move(steps)));
  return f.Result(f("stack", std::move(steps), {{"axis", Text(axis)}}));
}

const CellCatalog& Cells() {
  static const CellCatalog& catalog = *[] {
    std::vector<CellCatalog::Entry> entries = GatedCells();
    for (CellCatalog::Entry& entry : CellsOfCells()) entries.push_back(std::move(entry));
    return new CellCatalog("cell", std::move(entries));
  }();
  return catalog;
}

std::vector<BlockCatalog::Entry> CellBlocks() {
  std::vector<BlockCatalog::Entry> blocks;
  for (const CellCatalog::Entry& entry : Cells().entries()) {
    std::vector<ArgumentDoc> attributes = entry.attributes;
    for (ArgumentDoc& doc : UnrollParam::__FIELDS__()) attributes.push_back(std::move(doc));
    blocks.push_back({entry.name, entry.description, std::move(attributes),
                      [&entry](const BlockSpec& block, const BlockScope& scope, NodeEntry x, const BlockChildren& children) {
                        return UnrollAsBlock(entry, block, scope, std::move(x), children);
                      }});
  }
  return blocks;
}

std::vector<std::string> CellChildNames(absl::string_view type) {
  if (type == "BidirectionalCell") return {"l_cell", "r_cell"};
  for (absl::string_view around : {"ZoneoutCell", "ResidualCell", "VariationalDropoutCell"}) {
    if (type == around) return {"base_cell"};
  }
  return {};
}

}  // namespace gluond
