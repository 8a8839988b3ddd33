// CellList made of cells: in a row, in both directions, with dropout, zoneout or a residual connection.

#include <algorithm>

#include "engine/nn/cells.h"

namespace gluond {
namespace {

using CellList = std::vector<std::unique_ptr<Cell>>;
using Entries = Cell::Entries;
using Dims = std::vector<int64_t>;

// A cell of cells has all their states, one cell's after the other's.
class CellOfCells : public Cell {
 public:
  CellOfCells(const BlockScope& scope, CellList cells) : Cell(scope), cells_(std::move(cells)) {}

  std::vector<int64_t> StateSizes() const override {
    std::vector<int64_t> sizes;
    for (const auto& cell : cells_) {
      for (int64_t size : cell->StateSizes()) sizes.push_back(size);
    }
    return sizes;
  }

 protected:
  const CellList cells_;
};

class CellRow : public CellOfCells {
 public:
  using CellOfCells::CellOfCells;

  absl::StatusOr<NodeEntry> Step(NodeEntry x, Entries* states) override {
    Entries after;
    size_t begin = 0;
    for (const auto& cell : cells_) {
      const size_t end = begin + cell->StateSizes().size();
      Entries share(states->begin() + static_cast<ptrdiff_t>(begin), states->begin() + static_cast<ptrdiff_t>(end));
      begin = end;
      ASSIGN_OR_RETURN(x, cell->Step(std::move(x), &share));
      after.insert(after.end(), share.begin(), share.end());
    }
    *states = std::move(after);
    return x;
  }
  absl::StatusOr<Entries> Unroll(Entries steps) override {
    for (const auto& cell : cells_) {
      ASSIGN_OR_RETURN(steps, cell->Unroll(std::move(steps)));
    }
    return steps;
  }
  bool IsRow() const override { return true; }
};

class BidirectionalCell : public CellOfCells {
 public:
  using CellOfCells::CellOfCells;

  absl::StatusOr<NodeEntry> Step(NodeEntry, Entries*) override {
    return absl::InvalidArgumentError(
        "a BidirectionalCell cannot be stepped: it reads whole sequences. Put the cell "
        "that is around it around the cells in it");
  }
  absl::StatusOr<Entries> Unroll(Entries steps) override {
    Entries reversed(steps.rbegin(), steps.rend());
    ASSIGN_OR_RETURN(steps, cells_[0]->Unroll(std::move(steps)));
    ASSIGN_OR_RETURN(reversed, cells_[1]->Unroll(std::move(reversed)));
    Formula f = scope().NewFormula("bi_");
    for (size_t i = 0; i < steps.size(); ++i) {
      steps[i] = f("Concat", {steps[i], reversed[steps.size() - 1 - i]}, {{"dim", "1"}});
    }
    RETURN_IF_ERROR(f.status());
    return steps;
  }
  bool IsBidirectional() const override { return true; }
};

struct DropoutCellParam : Param<DropoutCellParam> {
  double rate;
  Dims axes;
  static void Fields(Schema<DropoutCellParam>& s) {
    s.Field("rate", &DropoutCellParam::rate).Range(0, 1).Describe("Share of the elements that training zeroes.");
    s.Field("axes", &DropoutCellParam::axes).Default(Dims{}).Describe("Axes that share one mask.");
  }
};

class DropoutCell : public Cell {
 public:
  DropoutCell(const DropoutCellParam& p, const BlockScope& scope) : Cell(scope), p_(p) {}

  std::vector<int64_t> StateSizes() const override { return {}; }
  absl::StatusOr<NodeEntry> Step(NodeEntry x, Entries*) override {
    if (p_.rate == 0) {
      RETURN_IF_ERROR(scope().Count());  // A row of such cells makes no calls, but takes its time.
      return x;
    }
    Formula f = NextStep();
    return f.Result(f("Dropout", {std::move(x)}, {{"p", Text(p_.rate)}, {"axes", Text(p_.axes)}}));
  }
  // The sequence is one tensor for the axes.
  absl::StatusOr<NodeEntry> UnrollSequence(NodeEntry x, int64_t, int) override { return Step(std::move(x), nullptr); }

 private:
  const DropoutCellParam p_;
};

// A cell around another one, with its states.
class CellAround : public CellOfCells {
 public:
  using CellOfCells::CellOfCells;

 protected:
  Cell& base() const { return *cells_[0]; }
};

struct ZoneoutParam : Param<ZoneoutParam> {
  double zoneout_outputs, zoneout_states;
  static void Fields(Schema<ZoneoutParam>& s) {
    s.Field("zoneout_outputs", &ZoneoutParam::zoneout_outputs)
        .Default(0.0)
        .Range(0, 1)
        .Describe("Share of the output that training keeps as it was one step before.");
    s.Field("zoneout_states", &ZoneoutParam::zoneout_states)
        .Default(0.0)
        .Range(0, 1)
        .Describe("Share of the states that training keeps.");
  }
};

class ZoneoutCell : public CellAround {
 public:
  ZoneoutCell(const ZoneoutParam& p, const BlockScope& scope, CellList cells) : CellAround(scope, std::move(cells)), p_(p) {}

  absl::StatusOr<NodeEntry> Step(NodeEntry x, Entries* states) override {
    const Entries old = *states;
    ASSIGN_OR_RETURN(NodeEntry y, base().Step(std::move(x), states));
    Formula f = NextStep();
    if (p_.zoneout_outputs != 0) {
      if (!before_) before_ = f("zeros_like", {y});
      y = Zoned(f, p_.zoneout_outputs, y, before_);
    }
    for (size_t i = 0; i < old.size() && p_.zoneout_states != 0; ++i) {
      (*states)[i] = Zoned(f, p_.zoneout_states, (*states)[i], old[i]);
    }
    before_ = y;
    return f.Result(y);
  }

 private:
  // Dropout of ones says which elements are new: outside of training, all.
  static NodeEntry Zoned(Formula& f, double rate, const NodeEntry& fresh, const NodeEntry& old) {
    return f("where", {f("Dropout", {f("ones_like", {fresh})}, {{"p", Text(rate)}}), fresh, old});
  }

  const ZoneoutParam p_;
  NodeEntry before_;
};

class ResidualCell : public CellAround {
 public:
  using CellAround::CellAround;

  absl::StatusOr<NodeEntry> Step(NodeEntry x, Entries* states) override {
    ASSIGN_OR_RETURN(const NodeEntry y, base().Step(x, states));
    Formula f = NextStep();
    return f.Result(f.Add(y, x));
  }
  absl::StatusOr<Entries> Unroll(Entries steps) override {
    ASSIGN_OR_RETURN(Entries outputs, base().Unroll(steps));
    Formula f = NextStep();
    for (size_t i = 0; i < steps.size(); ++i) outputs[i] = f.Add(outputs[i], steps[i]);
    RETURN_IF_ERROR(f.status());
    return outputs;
  }
};

struct VariationalDropoutParam : Param<VariationalDropoutParam> {
  double drop_inputs, drop_states, drop_outputs;
  static void Fields(Schema<VariationalDropoutParam>& s) {
    using P = VariationalDropoutParam;
    s.Field("drop_inputs", &P::drop_inputs).Default(0.0).Range(0, 1).Describe("Share of the inputs.");
    s.Field("drop_states", &P::drop_states).Default(0.0).Range(0, 1).Describe("Share of the first state.");
    s.Field("drop_outputs", &P::drop_outputs).Default(0.0).Range(0, 1).Describe("Share of the outputs.");
  }
};

class VariationalDropoutCell : public CellAround {
 public:
  VariationalDropoutCell(const VariationalDropoutParam& p, const BlockScope& scope, CellList cells)
      : CellAround(scope, std::move(cells)), inputs_{p.drop_inputs, {}}, states_{p.drop_states, {}}, outputs_{p.drop_outputs, {}} {}

  absl::StatusOr<NodeEntry> Step(NodeEntry x, Entries* states) override {
    Formula before = NextStep();
    if (!states->empty()) (*states)[0] = states_.On(before, (*states)[0]);
    x = inputs_.On(before, x);
    RETURN_IF_ERROR(before.status());
    ASSIGN_OR_RETURN(const NodeEntry y, base().Step(std::move(x), states));
    Formula after = NextStep();
    return after.Result(outputs_.On(after, y));
  }

 private:
  // One mask for all steps.
  struct Mask {
    double rate;
    NodeEntry mask;

    NodeEntry On(Formula& f, const NodeEntry& x) {
      if (rate == 0) return x;
      if (!mask) mask = f("Dropout", {f("ones_like", {x})}, {{"p", Text(rate)}});
      return f.Mul(x, mask);
    }
  };

  Mask inputs_, states_, outputs_;
};

template <class C>
MadeCell MakeCellOfCells(const NoParam&, const BlockScope& scope, CellList cells) {
  return std::make_unique<C>(scope, std::move(cells));
}

// Zoneout steps its cell, and is no cell of a whole row, as in Gluon.
MadeCell MakeZoneout(const ZoneoutParam& p, const BlockScope& scope, CellList cells) {
  if (cells[0]->IsRow() || cells[0]->IsBidirectional()) {
    return absl::InvalidArgumentError(
        "is not offered around a row of cells or a BidirectionalCell; put it around the "
        "cells in it");
  }
  return std::make_unique<ZoneoutCell>(p, scope, std::move(cells));
}

}  // namespace

std::vector<CellCatalog::Entry> CellsOfCells() {
  return {
      CellEntry<NoParam>("SequentialRNNCell", "CellList one above the other.", -1, &MakeCellOfCells<CellRow>),
      CellEntry<NoParam>("HybridSequentialRNNCell", "The same as SequentialRNNCell.", -1, &MakeCellOfCells<CellRow>),
      CellEntry<NoParam>("BidirectionalCell", "One cell forwards and one backwards; the output is both, side by side.", 2,
                         &MakeCellOfCells<BidirectionalCell>),
      CellEntry<DropoutCellParam>("DropoutCell", "Dropout of its input.", 0,
                                  [](const DropoutCellParam& p, const BlockScope& scope, CellList) -> MadeCell {
                                    return std::make_unique<DropoutCell>(p, scope);
                                  }),
      CellEntry<ZoneoutParam>("ZoneoutCell", "A cell whose output and states, in training, partly stay as they were.", 1,
                              &MakeZoneout),
      CellEntry<NoParam>("ResidualCell", "A cell whose input is added to its output.", 1, &MakeCellOfCells<ResidualCell>),
      CellEntry<VariationalDropoutParam>("VariationalDropoutCell",
                                         "Dropout with one mask for all steps (Gal and Ghahramani, 2016).", 1,
                                         [](const VariationalDropoutParam& p, const BlockScope& scope, CellList cells) -> MadeCell {
                                           return std::make_unique<VariationalDropoutCell>(p, scope, std::move(cells));
                                         }),
  };
}

}  // namespace gluond
