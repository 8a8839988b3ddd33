// The cost of one small operator of the imperative API on the lane: chains of 1,000 on 10 floats, through
// Imperative::Invoke and through a session's commands. Figures are per operator. To be run by hand, when the machine is
// quiet.

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/imperative/imperative.h"
#include "server/session/program.h"

namespace gluond::server {
namespace {

constexpr int kChain = 1000;

template <class T>
T OrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::exit(1);
}

struct Row {
  const char* op;
  AttrDict attrs;
  size_t num_inputs;
};
const Row& RowAt(int64_t i) {
  static const std::vector<Row>& rows =
      *new std::vector<Row>{{"_plus_scalar", {{"scalar", "1"}}, 1}, {"broadcast_add", {}, 2}, {"elemwise_add", {}, 2}};
  return rows[static_cast<size_t>(i)];
}

Devices& TheDevices() {
  static Devices& devices = *OrDie(Devices::Open("cpu", 1, {})).release();
  return devices;
}
Models& TheModels() {
  static Models& models = *new Models(1);
  return models;
}
SavedSessions& TheSaves() {
  const auto no_log = [](absl::string_view) {};
  static Runner& runner = *new Runner({}, no_log, TheDevices().memory());
  static SavedSessions& saves = *new SavedSessions(runner, nullptr, 1 << 20, no_log);
  return saves;
}
Place& Home() { return *TheDevices().offered()[0]; }
Lane& TheLane() {
  static const std::shared_ptr<Lane>& lane = *new std::shared_ptr<Lane>(Home().lanes->Take());
  return *lane;
}

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void OnLane(const std::function<void()>& work) {
  std::promise<void> done;
  TheLane().Post([&] {
    work();
    done.set_value();
  });
  done.get_future().wait();
}

// Runs `chain` again and again, until nothing is pending. Reports the lane's processor time for one of its operators,
// which a busy machine makes no longer.
void Measure(benchmark::State& state, const std::function<void()>& chain, const std::function<int64_t()>& pending) {
  double all = 0;
  for (auto _ : state) {
    double begin = 0, end = 0;
    OnLane([&] {
      begin = CpuSeconds();
      chain();
      end = CpuSeconds();
    });
    for (int64_t left = 1; left > 0;) {
      OnLane([&] {
        left = pending();
        if (left > 0) end = CpuSeconds();
      });
    }
    all += end - begin;
    state.SetIterationTime(end - begin);
  }
  state.counters["ns_per_op"] = 1e9 * all / static_cast<double>(state.iterations() * kChain);
}

Array Ten() {
  Tensor tensor = OrDie(Tensor::Empty(*Home().allocator, Shape{10}, DType::kFloat32));
  std::fill_n(tensor.data<float>(), 10, 1.0f);
  return {std::make_shared<Value>(std::move(tensor)), {}, nullptr};
}

// y = op(y) or op(y, x), each y in the place of the one before.
Array Chain(Imperative& imperative, const PreparedOpPtr& call, size_t num_inputs, const Array& x, bool recording) {
  Imperative::Options options;
  options.recording = recording;
  Array y = x;
  for (int i = 0; i < kChain; ++i) {
    std::vector<Array> inputs;
    inputs.reserve(num_inputs);
    inputs.push_back(std::move(y));
    if (num_inputs > 1) inputs.push_back(x);
    y = std::move(imperative.Invoke(call, std::move(inputs), options).outputs[0]);
  }
  return y;
}

void BM_Invoke(benchmark::State& state) {
  const Row& row = RowAt(state.range(0));
  const bool recording = state.range(1) != 0;
  state.SetLabel(std::string(row.op) + (recording ? ", recorded" : ""));
  Imperative imperative(Scheduler::Create({{Device(), &TheLane(), Home().allocator}}));
  const PreparedOpPtr call = OrDie(PrepareOp(row.op, row.attrs, row.num_inputs));
  Array x = Ten();
  x.mark = std::make_shared<Mark>();
  const auto chain = [&] { Chain(imperative, call, row.num_inputs, x, recording); };
  Measure(state, chain, [&] { return imperative.scheduler().pending(); });
}
BENCHMARK(BM_Invoke)->ArgsProduct({{0, 1, 2}, {0, 1}})->UseManualTime();

// Figures are per operator of the forward pass.
void BM_RecordAndDifferentiate(benchmark::State& state) {
  const Row& row = RowAt(state.range(0));
  state.SetLabel(row.op);
  Imperative imperative(Scheduler::Create({{Device(), &TheLane(), Home().allocator}}));
  const PreparedOpPtr call = OrDie(PrepareOp(row.op, row.attrs, row.num_inputs));
  Array x = Ten();
  x.mark = std::make_shared<Mark>();
  const auto step = [&] {
    const Array y = Chain(imperative, call, row.num_inputs, x, /*recording=*/true);
    benchmark::DoNotOptimize(OrDie(imperative.Backward({y}, {}, {}, {})));
  };
  Measure(state, step, [&] { return imperative.scheduler().pending(); });
}
BENCHMARK(BM_RecordAndDifferentiate)->DenseRange(0, 2)->UseManualTime();

void BM_Execute(benchmark::State& state) {
  const Row& row = RowAt(state.range(0));
  const bool recording = state.range(1) != 0, is_fresh = state.range(2) != 0;
  const std::string label = std::string(row.op) + (recording ? ", recorded" : "");
  state.SetLabel(label + (is_fresh ? ", names of their own" : ", in place"));
  std::shared_ptr<SessionProgram> program;
  uint64_t number = 0;
  const auto execute = [&](const v1::Command& command) { program->Execute(++number, command, {}); };
  const auto no_answers = [](v1::Reply reply, Attachments, int64_t) {
    std::fprintf(stderr, "%s\n", reply.ShortDebugString().c_str());
  };
  v1::Command put, prepare, mark;
  put.mutable_put()->set_array(1);
  put.mutable_put()->mutable_tensor()->add_shape(10);
  put.mutable_put()->mutable_tensor()->mutable_fill()->set_constant(1);
  prepare.mutable_prepare()->set_call(1);
  prepare.mutable_prepare()->set_op(row.op);
  for (const auto& [name, text] : row.attrs) (*prepare.mutable_prepare()->mutable_attributes())[name].set_string_value(text);
  v1::Command::Mark::Marked* marked = mark.mutable_mark()->add_arrays();
  marked->set_variable(1);
  marked->set_gradient(2);

  // Names of their own: array i + 10 is made from array i + 9, and freed with the next command, as a client does.
  std::vector<v1::Command> commands;
  for (uint64_t i = 0; i < kChain; ++i) {
    v1::Command::Invoke& invoke = *commands.emplace_back().mutable_invoke();
    invoke.set_call(1);
    invoke.set_recording(recording);
    invoke.add_inputs(i == 0 ? 1 : is_fresh ? i + 9 : 10);
    if (row.num_inputs > 1) invoke.add_inputs(1);
    invoke.add_outputs(is_fresh ? i + 10 : 10);
    if (is_fresh && i > 0) commands.emplace_back().mutable_free()->add_arrays(i + 9);
  }
  v1::Command free;
  free.mutable_free()->add_arrays(is_fresh ? kChain + 9 : 10);
  OnLane([&] {
    program = SessionProgram::Create({TheDevices(), TheModels(), TheSaves()}, Home(), TheLane(), {}, no_answers);
    execute(put), execute(prepare), execute(mark);
  });
  const auto all = [&] {
    for (const v1::Command& command : commands) execute(command);
    execute(free);
  };
  Measure(state, all, [&] { return program->pending(); });
  OnLane([&] { program.reset(); });
}
BENCHMARK(BM_Execute)->ArgsProduct({{0, 1}, {0, 1}, {0, 1}})->UseManualTime();

}  // namespace
}  // namespace gluond::server

BENCHMARK_MAIN();
