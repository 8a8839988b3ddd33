// A sequence, whose weights are packed, against its steps one by one, whose weights are not: results and gradients, for odd
// sizes. And the bits of a sequence, which are the same however many threads there are. The BUILD file runs it with several
// sets of instructions.

#include "ops/kernel/equal_rows.h"
#include "ops/kernel/rnn.h"
#include "tests/ops/kernel/kernel_context.h"

namespace gluond::ops {
namespace {

using Vector = std::vector<double>;

Vector Rough(int64_t n, double step, double size = 1) {
  Vector numbers;
  for (int64_t i = 0; i < n; ++i) numbers.push_back(size * std::sin(step * static_cast<double>(i) + 1));
  return numbers;
}

Vector Slice(const Vector& all, int64_t at, int64_t n) { return {all.begin() + at, all.begin() + at + n}; }
void Add(const Vector& part, int64_t at, Vector* all) {
  for (size_t i = 0; i < part.size(); ++i) (*all)[static_cast<size_t>(at) + i] += part[i];
}

// The arguments of both passes, and their results. A vector that is empty is none.
struct Arguments {
  Vector x, parameters, state, cell, length, dy, dstate, dcell;
};
struct Results {
  Vector y, state, cell, dx, dparameters, dstate, dcell;
};
constexpr Vector Results::*kResults[] = {&Results::y,           &Results::state,  &Results::cell, &Results::dx,
                                         &Results::dparameters, &Results::dstate, &Results::dcell};

// A result's memory, which begins as zeros that the pass adds to, or as numbers that it replaces.
class Result {
 public:
  Result(DType type, int64_t n, OpReqType req)
      : values_(type, Vector(static_cast<size_t>(n), req == kAddTo ? 0 : 99)), n_(n), req_(req) {}
  Target target() { return n_ == 0 ? Target() : Target{values_.blob(), req_}; }
  TBlob blob() { return values_.blob(); }
  Vector numbers() const {
    Vector numbers;
    for (int64_t i = 0; i < n_; ++i) numbers.push_back(values_[i]);
    return numbers;
  }

 private:
  Values values_;
  int64_t n_;
  OpReqType req_;
};

Results Evaluate(const OpContext& ctx, DType type, const RnnSize& s, const Arguments& a, OpReqType req = kWriteTo) {
  const DType kept = type == DType::kFloat64 ? type : DType::kFloat32;
  const int64_t states = s.layers * s.directions * s.state(), cells = s.lstm() ? states : 0;
  Values x(type, a.x), parameters(type, a.parameters), state(type, a.state), cell(type, a.cell), length(DType::kFloat32, a.length);
  RnnInputs in = {x.blob({s.steps, s.batch, s.input}), parameters.blob(), state.blob(), cell.blob(), {}};
  if (!a.length.empty()) in.length = length.blob();
  Result y(type, s.outputs(), req), last(type, states, req), last_cell(type, cells, req), reserve(kept, s.reserve(), kWriteTo);
  EXPECT_EQ(RnnForward<cpu>(ctx, s, in, y.target(), last.target(), last_cell.target(), reserve.target()), absl::OkStatus());
  Values dy(type, a.dy), dstate(type, a.dstate), dcell(type, a.dcell);
  Result dx(type, x.blob().Size(), req), dparameters(type, s.parameters(), req), dfirst(type, states, req),
      dfirst_cell(type, cells, req);
  EXPECT_EQ(RnnBackward<cpu>(ctx, s, in, reserve.blob(), dy.blob(), dstate.blob(), s.lstm() ? dcell.blob() : TBlob(), dx.target(),
                             dparameters.target(), dfirst.target(), dfirst_cell.target()),
            absl::OkStatus());
  return {y.numbers(),           last.numbers(),   last_cell.numbers(),  dx.numbers(),
          dparameters.numbers(), dfirst.numbers(), dfirst_cell.numbers()};
}

// A direction of one layer.
struct OneDirection {
  RnnSize both;
  int64_t direction;

  RnnSize step() const {
    RnnSize s = both;
    s.steps = s.directions = 1;
    return s;
  }
  // Its part of the parameters, or of their gradients, in the layout of a layer without another direction.
  template <class Move>
  void ForEachPart(const Move& move) const {
    const RnnSize s = step();
    move(both.WeightsAt(0, direction), int64_t{0}, s.BiasesAt(0, 0));
    move(both.BiasesAt(0, direction), s.BiasesAt(0, 0), 2 * s.gates());
  }
};

// One direction of a layer, step by step, added to *results.
void AddDirection(const OpContext& ctx, const OneDirection& d, const Arguments& a, Results* results) {
  const RnnSize s = d.step();
  const int64_t steps = d.both.steps, at = d.direction * s.state(), row = d.both.directions * s.units;
  Arguments one;
  one.parameters.resize(static_cast<size_t>(s.parameters()));
  d.ForEachPart([&](int64_t from, int64_t to, int64_t n) { Add(Slice(a.parameters, from, n), to, &one.parameters); });
  const auto time = [&](int64_t i) { return d.direction == 0 ? i : steps - 1 - i; };
  const auto step_of = [&](int64_t t) {
    one.x = Slice(a.x, t * s.batch * s.input, s.batch * s.input);
    one.dy.clear();
    for (int64_t n = 0; n < s.batch; ++n) {
      const Vector part = Slice(a.dy, (t * s.batch + n) * row + d.direction * s.units, s.units);
      one.dy.insert(one.dy.end(), part.begin(), part.end());
    }
    one.length.clear();
    for (const double length : a.length) one.length.push_back(static_cast<double>(t) < length ? 1 : 0);
  };
  std::vector<Vector> states = {Slice(a.state, at, s.state())}, cells = {s.lstm() ? Slice(a.cell, at, s.state()) : Vector()};
  one.dstate = Vector(static_cast<size_t>(s.state()));
  one.dcell = one.dstate;
  for (int64_t i = 0; i < steps; ++i) {
    step_of(time(i));
    one.state = states.back();
    one.cell = cells.back();
    const Results r = Evaluate(ctx, DType::kFloat64, s, one);
    for (int64_t n = 0; n < s.batch; ++n) {
      Add(Slice(r.y, n * s.units, s.units), (time(i) * s.batch + n) * row + d.direction * s.units, &results->y);
    }
    states.push_back(r.state);
    cells.push_back(r.cell);
  }
  Add(states.back(), at, &results->state);
  Add(cells.back(), at, &results->cell);
  one.dstate = Slice(a.dstate, at, s.state());
  if (s.lstm()) one.dcell = Slice(a.dcell, at, s.state());
  for (int64_t i = steps - 1; i >= 0; --i) {
    step_of(time(i));
    one.state = states[static_cast<size_t>(i)];
    one.cell = cells[static_cast<size_t>(i)];
    const Results r = Evaluate(ctx, DType::kFloat64, s, one);
    Add(r.dx, time(i) * s.batch * s.input, &results->dx);
    d.ForEachPart([&](int64_t to, int64_t from, int64_t n) { Add(Slice(r.dparameters, from, n), to, &results->dparameters); });
    one.dstate = r.dstate;
    one.dcell = r.dcell;
  }
  Add(one.dstate, at, &results->dstate);
  if (s.lstm()) Add(one.dcell, at, &results->dcell);
}

Results StepByStep(const OpContext& ctx, const RnnSize& s, const Arguments& a) {
  Results results;
  results.y.resize(a.dy.size());
  results.state.resize(a.state.size());
  results.cell.resize(s.lstm() ? a.cell.size() : 0);
  results.dx.resize(a.x.size());
  results.dparameters.resize(a.parameters.size());
  results.dstate.resize(a.state.size());
  results.dcell.resize(results.cell.size());
  for (int64_t direction = 0; direction < s.directions; ++direction) AddDirection(ctx, {s, direction}, a, &results);
  return results;
}

Arguments ArgumentsFor(const RnnSize& s, bool with_lengths) {
  const int64_t states = s.layers * s.directions * s.state();
  Arguments a = {Rough(s.rows() * s.input, 0.7),
                 Rough(s.parameters(), 1.3, 1.5 / std::sqrt(static_cast<double>(s.units))),
                 Rough(states, 0.9),
                 Rough(s.lstm() ? states : 0, 1.1),
                 {},
                 Rough(s.outputs(), 1.7),
                 Rough(states, 2.1),
                 Rough(s.lstm() ? states : 0, 2.3)};
  for (int64_t n = 0; with_lengths && n < s.batch; ++n) a.length.push_back(static_cast<double>((n * 5 + 2) % (s.steps + 1)));
  return a;
}

void ExpectNear(const Results& got, const Results& want, double tolerance, const std::string& where) {
  for (const auto result : kResults) {
    double scale = 1;
    for (const double v : want.*result) scale = std::max(scale, std::abs(v));
    ASSERT_EQ((got.*result).size(), (want.*result).size()) << where;
    for (size_t i = 0; i < (want.*result).size(); ++i) {
      ASSERT_NEAR((got.*result)[i], (want.*result)[i], tolerance * scale) << where << ", number " << i;
    }
  }
}

class RnnSteps : public testing::TestWithParam<RnnMode> {};

TEST_P(RnnSteps, EqualASequence) {
  for (const int64_t units : {1, 3, 17, 256}) {
    for (const int64_t batch : {1, 2, 20}) {
      for (const int64_t steps : {2, 35}) {
        for (const bool both_ways : {false, true}) {
          if (both_ways && units == 256 && batch > 1) continue;  // It would take seconds.
          KernelContext context;
          const RnnSize s = {GetParam(), steps, batch, /*input=*/5, units, /*layers=*/1, both_ways ? 2 : 1, 0.0};
          const std::string where = absl::StrCat(units, " units, ", batch, " sequences, ", steps, " steps, both ways: ", both_ways);
          const Arguments a = ArgumentsFor(s, both_ways);
          const Results want = StepByStep(context.ctx, s, a);
          ExpectNear(Evaluate(context.ctx, DType::kFloat64, s, a), want, 1e-11, where + ", float64");
          ExpectNear(Evaluate(context.ctx, DType::kFloat32, s, a), want, 1e-4, where + ", float32");
          ExpectNear(Evaluate(context.ctx, DType::kFloat32, s, a, kAddTo), want, 1e-4, where + ", added");
        }
      }
    }
  }
}

TEST_P(RnnSteps, HaveTheSameBitsHoweverManyThreadsThereAre) {
  for (const int64_t batch : {1, 7}) {
    const RnnSize s = {GetParam(), /*steps=*/9, batch, /*input=*/40, /*units=*/135, /*layers=*/2, /*directions=*/2, 0.0};
    const Arguments a = ArgumentsFor(s, true);
    KernelContext context;
    context.ctx.threads = nullptr;
    const Results alone = Evaluate(context.ctx, DType::kFloat32, s, a);
    for (const int threads : {1, 2, 3, 5}) {
      Team team(threads);
      context.ctx.threads = &team;
      const Results got = Evaluate(context.ctx, DType::kFloat32, s, a);
      for (const auto result : kResults) EXPECT_EQ(got.*result, alone.*result) << threads << " threads, " << batch << " sequences";
    }
  }
}

// Equal sequences of a batch have equal results, to the bit, wherever they are in the batch.
TEST_P(RnnSteps, OfEqualSequencesHaveEqualBits) {
  const RnnSize one = {GetParam(), /*steps=*/5, /*batch=*/1, /*input=*/40, /*units=*/67, /*layers=*/1, /*directions=*/1, 0.0};
  for (const int64_t batch : {2, 7, 20}) {
    RnnSize s = one;
    s.batch = batch;
    Arguments a = ArgumentsFor(one, false);
    const auto repeat = [&](Vector* all, int64_t rows) {
      const int64_t size = static_cast<int64_t>(all->size()) / rows;
      Vector repeated;
      for (int64_t row = 0; row < rows; ++row) {
        const Vector part = Slice(*all, row * size, size);
        for (int64_t n = 0; n < batch; ++n) repeated.insert(repeated.end(), part.begin(), part.end());
      }
      *all = repeated;
    };
    repeat(&a.x, one.steps);
    repeat(&a.dy, one.steps);
    for (Vector* const all : {&a.state, &a.cell, &a.dstate, &a.dcell}) repeat(all, 1);
    KernelContext context;
    const Vector y = Evaluate(context.ctx, DType::kFloat32, s, a).y;
    const double allowed = HasEqualRows() ? 0 : 1e-5;
    for (size_t i = 0; i < y.size(); ++i) {
      const size_t row = i / static_cast<size_t>(s.units), of_first = row / static_cast<size_t>(batch) * static_cast<size_t>(batch);
      ASSERT_NEAR(y[i], y[of_first * static_cast<size_t>(s.units) + i % static_cast<size_t>(s.units)], allowed)
          << batch << " " << i;
    }
  }
}

// Weights that never change are packed in the first call, also where there is one step.
TEST_P(RnnSteps, PackConstantWeightsOnce) {
  for (const int64_t steps : {1, 6}) {
    const RnnSize s = {GetParam(), steps, /*batch=*/2, /*input=*/4, /*units=*/70, /*layers=*/2, /*directions=*/2, 0.0};
    const Arguments a = ArgumentsFor(s, false);
    KernelContext context;
    Values x(DType::kFloat32, a.x), parameters(DType::kFloat32, a.parameters), state(DType::kFloat32, a.state);
    Values cell(DType::kFloat32, a.cell);
    const RnnInputs in = {x.blob({s.steps, s.batch, s.input}), parameters.blob(), state.blob(), cell.blob(), {}};
    const auto run = [&] {
      Result y(DType::kFloat32, s.outputs(), kWriteTo), reserve(DType::kFloat32, s.reserve(), kWriteTo);
      EXPECT_EQ(RnnForward<cpu>(context.ctx, s, in, y.target(), {}, {}, reserve.target()), absl::OkStatus());
      return y.numbers();
    };
    const Vector want = run();
    OneConstant constant(parameters.data());
    context.ctx.constants = &constant;
    const Vector first = run();
    for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(first[i], want[i], 1e-5);
    EXPECT_GE(constant.forms(), 4u);
    for (int64_t layer = 0; layer < s.layers; ++layer) {
      for (int64_t direction = 0; direction < s.directions; ++direction) {
        float* const weights = static_cast<float*>(parameters.data()) + s.WeightsAt(layer, direction) + s.gates() * s.inputs(layer);
        std::fill_n(weights, s.gates() * s.units, 0.f);
      }
    }
    EXPECT_EQ(run(), first);
  }
}

std::string NameOf(const testing::TestParamInfo<RnnMode>& mode) {
  constexpr const char* kNames[] = {"Relu", "Tanh", "Lstm", "Gru"};
  return kNames[static_cast<int>(mode.param)];
}
INSTANTIATE_TEST_SUITE_P(Modes, RnnSteps, testing::Values(RnnMode::kRelu, RnnMode::kTanh, RnnMode::kLstm, RnnMode::kGru), NameOf);

}  // namespace
}  // namespace gluond::ops
