// The cells with parameters: RNNCell, LSTMCell, GRUCell, LSTMPCell. Gates lie in the parameters in Gluon's order.

#include "engine/nn/cells.h"

namespace gluond {
namespace {

using Initializer = std::optional<std::string>;
using Entries = Cell::Entries;

struct GatedFields {
  int64_t hidden_size, input_size;
  Initializer i2h_weight_initializer, h2h_weight_initializer, i2h_bias_initializer, h2h_bias_initializer;
};
template <class P>
void HiddenField(Schema<P>& s) {
  s.template Field<int64_t>("hidden_size", &P::hidden_size).Range(1, 1 << 20).Describe("Units.");
}
template <class P>
void WeightFields(Schema<P>& s) {
  s.template Field<Initializer>("i2h_weight_initializer", &P::i2h_weight_initializer)
      .Default(std::nullopt)
      .Describe("As 'Xavier(magnitude=2)'; None: the model's.");
  s.template Field<Initializer>("h2h_weight_initializer", &P::h2h_weight_initializer)
      .Default(std::nullopt)
      .Describe("As i2h_weight_initializer.");
}
template <class P>
void BiasFields(Schema<P>& s) {
  s.template Field<Initializer>("i2h_bias_initializer", &P::i2h_bias_initializer)
      .Default("zeros")
      .Describe("As i2h_weight_initializer.");
  s.template Field<Initializer>("h2h_bias_initializer", &P::h2h_bias_initializer)
      .Default("zeros")
      .Describe("As i2h_weight_initializer.");
  s.template Field<int64_t>("input_size", &P::input_size)
      .Default(int64_t{0})
      .AtLeast(0)
      .Describe("Numbers of a step; 0: from the first batch.");
}

struct RnnCellParam : Param<RnnCellParam>, GatedFields {
  std::string activation;
  static void Fields(Schema<RnnCellParam>& s) {
    HiddenField(s);
    s.Field("activation", &RnnCellParam::activation).Default("tanh").Describe("relu, sigmoid, tanh, softrelu, softsign.");
    WeightFields(s);
    BiasFields(s);
  }
};

struct ActivatedParam : Param<ActivatedParam>, GatedFields {
  std::string activation, recurrent_activation;
  static void Fields(Schema<ActivatedParam>& s) {
    HiddenField(s);
    WeightFields(s);
    BiasFields(s);
    s.Field("activation", &ActivatedParam::activation).Default("tanh").Describe("Of the new values.");
    s.Field("recurrent_activation", &ActivatedParam::recurrent_activation).Default("sigmoid").Describe("Of the gates.");
  }
};

struct ProjectedParam : Param<ProjectedParam>, GatedFields {
  int64_t projection_size;
  Initializer h2r_weight_initializer;
  static void Fields(Schema<ProjectedParam>& s) {
    HiddenField(s);
    s.Field("projection_size", &ProjectedParam::projection_size)
        .Range(1, 1 << 20)
        .Describe("Numbers of the output and of the first state.");
    WeightFields(s);
    s.Field("h2r_weight_initializer", &ProjectedParam::h2r_weight_initializer)
        .Default(std::nullopt)
        .Describe("As i2h_weight_initializer.");
    BiasFields(s);
  }
};

// A cell with gates: the projections of x and of the first state, (batch, gates * hidden_size) each.
template <class P>
class Gated : public Cell {
 public:
  // `sizes`: the states'.
  Gated(const P& p, const BlockScope& scope, int64_t gates, std::vector<int64_t> sizes)
      : Cell(scope),
        p_(p),
        rows_(gates * p.hidden_size),
        sizes_(std::move(sizes)),
        i2h_weight_(
            LayerParameter(scope, "i2h_weight", {rows_, SizeOrUnknown(p.input_size)}, DType::kFloat32, p.i2h_weight_initializer)),
        h2h_weight_(LayerParameter(scope, "h2h_weight", {rows_, sizes_[0]}, DType::kFloat32, p.h2h_weight_initializer)),
        i2h_bias_(LayerParameter(scope, "i2h_bias", {rows_}, DType::kFloat32, p.i2h_bias_initializer)),
        h2h_bias_(LayerParameter(scope, "h2h_bias", {rows_}, DType::kFloat32, p.h2h_bias_initializer)) {}

  // INVALID_ARGUMENT, NOT_FOUND: an initializer.
  virtual absl::Status Check() const {
    for (const auto* parameter : {&i2h_weight_, &h2h_weight_, &i2h_bias_, &h2h_bias_}) {
      RETURN_IF_ERROR(parameter->status());
    }
    return absl::OkStatus();
  }
  std::vector<int64_t> StateSizes() const override { return sizes_; }

 protected:
  NodeEntry Project(Formula& f, const NodeEntry& x) const { return Project(f, x, i2h_weight_, i2h_bias_); }
  NodeEntry ProjectState(Formula& f, const NodeEntry& h) const { return Project(f, h, h2h_weight_, h2h_bias_); }
  Entries Split(Formula& f, const NodeEntry& gates) const {
    const int64_t count = rows_ / p_.hidden_size;
    return f.Outputs(static_cast<size_t>(count), "SliceChannel", {gates}, {{"num_outputs", Text(count)}});
  }

  const P p_;

 private:
  NodeEntry Project(Formula& f, const NodeEntry& x, const absl::StatusOr<NodeEntry>& weight,
                    const absl::StatusOr<NodeEntry>& bias) const {
    return f("FullyConnected", {x, f.Take(weight), f.Take(bias)}, {{"num_hidden", Text(rows_)}});
  }

  const int64_t rows_;
  const std::vector<int64_t> sizes_;
  const absl::StatusOr<NodeEntry> i2h_weight_, h2h_weight_, i2h_bias_, h2h_bias_;
};

// h' = activation(i2h(x) + h2h(h)).
class RnnCell : public Gated<RnnCellParam> {
 public:
  RnnCell(const RnnCellParam& p, const BlockScope& scope) : Gated(p, scope, 1, {p.hidden_size}) {}

  absl::StatusOr<NodeEntry> Step(NodeEntry x, Entries* states) override {
    Formula f = NextStep();
    const NodeEntry h = f.Activation(f.Add(Project(f, x), ProjectState(f, (*states)[0])), p_.activation);
    *states = {h};
    return f.Result(h);
  }
};

// c' = f c + i g, h' = o activation(c').
class LstmCell : public Gated<ActivatedParam> {
 public:
  LstmCell(const ActivatedParam& p, const BlockScope& scope) : Gated(p, scope, 4, {p.hidden_size, p.hidden_size}) {}

  absl::StatusOr<NodeEntry> Step(NodeEntry x, Entries* states) override {
    Formula f = NextStep();
    const Entries gates = Split(f, f.Add(Project(f, x), ProjectState(f, (*states)[0])));
    const NodeEntry in = f.Activation(gates[0], p_.recurrent_activation);
    const NodeEntry forget = f.Activation(gates[1], p_.recurrent_activation);
    const NodeEntry fresh = f.Activation(gates[2], p_.activation);
    const NodeEntry out = f.Activation(gates[3], p_.recurrent_activation);
    const NodeEntry c = f.Add(f.Mul(forget, (*states)[1]), f.Mul(in, fresh));
    const NodeEntry h = f.Mul(out, f.Activation(c, p_.activation));
    *states = {h, c};
    return f.Result(h);
  }
};

// n = activation(i2h_n + r h2h_n), h' = (1 - z) n + z h.
class GruCell : public Gated<ActivatedParam> {
 public:
  GruCell(const ActivatedParam& p, const BlockScope& scope) : Gated(p, scope, 3, {p.hidden_size}) {}

  absl::StatusOr<NodeEntry> Step(NodeEntry x, Entries* states) override {
    Formula f = NextStep();
    const NodeEntry before = (*states)[0];
    const Entries i2h = Split(f, Project(f, x)), h2h = Split(f, ProjectState(f, before));
    const NodeEntry reset = f.Activation(f.Add(i2h[0], h2h[0]), p_.recurrent_activation);
    const NodeEntry update = f.Activation(f.Add(i2h[1], h2h[1]), p_.recurrent_activation);
    const NodeEntry fresh = f.Activation(f.Add(i2h[2], f.Mul(reset, h2h[2])), p_.activation);
    const NodeEntry h = f.Add(f.Mul(f.Sub(f("ones_like", {update}), update), fresh), f.Mul(update, before));
    *states = {h};
    return f.Result(h);
  }
};

// An LSTM whose output and first state are r = h2r(h).
class LstmpCell : public Gated<ProjectedParam> {
 public:
  LstmpCell(const ProjectedParam& p, const BlockScope& scope)
      : Gated(p, scope, 4, {p.projection_size, p.hidden_size}),
        h2r_weight_(
            LayerParameter(scope, "h2r_weight", {p.projection_size, p.hidden_size}, DType::kFloat32, p.h2r_weight_initializer)) {}

  absl::Status Check() const override {
    RETURN_IF_ERROR(Gated::Check());
    return h2r_weight_.status();
  }
  absl::StatusOr<NodeEntry> Step(NodeEntry x, Entries* states) override {
    Formula f = NextStep();
    const Entries gates = Split(f, f.Add(Project(f, x), ProjectState(f, (*states)[0])));
    const NodeEntry c =
        f.Add(f.Mul(f("sigmoid", {gates[1]}), (*states)[1]), f.Mul(f("sigmoid", {gates[0]}), f("tanh", {gates[2]})));
    const NodeEntry h = f.Mul(f("sigmoid", {gates[3]}), f("tanh", {c}));
    const NodeEntry r =
        f("FullyConnected", {h, f.Take(h2r_weight_)}, {{"num_hidden", Text(p_.projection_size)}, {"no_bias", "True"}});
    *states = {r, c};
    return f.Result(r);
  }

 private:
  const absl::StatusOr<NodeEntry> h2r_weight_;
};

template <class C, class P>
CellCatalog::Entry Entry(const char* name, const char* description) {
  return CellEntry<P>(name, description, 0,
                      [](const P& p, const BlockScope& scope, std::vector<std::unique_ptr<Cell>>) -> MadeCell {
                        auto cell = std::make_unique<C>(p, scope);
                        RETURN_IF_ERROR(cell->Check());
                        return cell;
                      });
}

}  // namespace

std::vector<CellCatalog::Entry> GatedCells() {
  return {
      Entry<RnnCell, RnnCellParam>("RNNCell", "h' = activation(i2h(x) + h2h(h)), over `length` steps."),
      Entry<LstmCell, ActivatedParam>("LSTMCell", "Long short-term memory, over `length` steps."),
      Entry<GruCell, ActivatedParam>("GRUCell", "A gated recurrent unit, over `length` steps."),
      Entry<LstmpCell, ProjectedParam>("LSTMPCell", "LSTMCell whose output and first state are projected."),
  };
}

}  // namespace gluond
