#include <algorithm>
#include <cstring>

#include "engine/core/op.h"
#include "gtest/gtest.h"
#include "tests/engine/passes/test_ops.h"

namespace gluond::testing {
namespace {

constexpr double kGarbage = -12345.0;

class Runner {
 public:
  Runner(const IndexedGraph& graph, const Inferred& inferred) : graph_(graph), inferred_(inferred) {}

  TBlob Blob(uint32_t entry, double* data) const { return {data, inferred_.shapes[entry], DType::kFloat64, {}}; }

  // Runs node `id` with memory(entry) for each of its entries.
  template <class Memory>
  void Run(uint32_t id, Memory memory, const std::vector<OpReqType>& req) const {
    const IndexedGraph::IndexedNode& indexed = graph_[id];
    const Node& node = *indexed.node;
    std::vector<TBlob> in, out;
    for (const auto& input : indexed.inputs) in.push_back(Blob(input.entry, memory(input.entry)));
    for (uint32_t i = 0; i < node.num_outputs(); ++i) {
      out.push_back(Blob(indexed.first_entry + i, memory(indexed.first_entry + i)));
    }
    const auto* compute = node.op()->GetAttr<FCompute>("FCompute<cpu>");
    ASSERT_NE(compute, nullptr) << node.op()->name();
    // An ignored input may have no memory; the kernels here read what they are given.
    static std::vector<double> nothing(4096, kGarbage);
    for (TBlob& blob : in)
      if (blob.data == nullptr) blob.data = nothing.data();
    EXPECT_EQ((*compute)(node.attrs, OpContext{}, in, req, out), absl::OkStatus());
  }

 private:
  const IndexedGraph& graph_;
  const Inferred& inferred_;
};

std::vector<bool> Ignored(const Node& node) {
  std::vector<bool> ignored(node.num_inputs());
  if (const auto* f = node.op()->GetAttr<FIgnoreInputs>("FIgnoreInputs")) {
    for (uint32_t i : (*f)(node.attrs)) ignored[i] = true;
  }
  return ignored;
}

}  // namespace

NodeEntry Call(const std::string& op, const std::string& name, std::vector<NodeEntry> inputs, AttrDict dict) {
  return MakeNode(op, name, std::move(inputs), std::move(dict));
}

Signatures SignaturesOf(const Variables& variables) {
  Signatures signatures;
  for (const auto& [name, values] : variables) {
    signatures[name] = {Shape{static_cast<int64_t>(values.size())}, DType::kFloat64};
  }
  return signatures;
}

std::vector<Values> RunUnplanned(const IndexedGraph& graph, const Inferred& inferred, const Variables& variables) {
  std::vector<Values> values(graph.num_entries());
  for (uint32_t e = 0; e < graph.num_entries(); ++e) values[e].resize(inferred.shapes[e].Size(), kGarbage);
  const Runner runner(graph, inferred);
  for (uint32_t id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = *graph[id].node;
    if (node.is_variable()) {
      values[graph[id].first_entry] = variables.at(node.name());
    } else {
      runner.Run(
          id, [&](uint32_t e) { return values[e].data(); }, std::vector<OpReqType>(node.num_outputs(), kWriteTo));
    }
  }
  return values;
}

std::vector<Values> Evaluate(const Graph& graph, const Variables& variables) {
  const IndexedGraph indexed(graph);
  const absl::StatusOr<Inferred> inferred = InferShapeType(indexed, SignaturesOf(variables));
  if (!inferred.ok()) {
    ADD_FAILURE() << inferred.status();
    return {};
  }
  const std::vector<Values> values = RunUnplanned(indexed, *inferred, variables);
  std::vector<Values> outputs;
  for (const auto& output : indexed.outputs()) outputs.push_back(values[output.entry]);
  return outputs;
}

void CheckPlannedRun(const IndexedGraph& graph, const Inferred& inferred, const MemoryPlan& plan, const Variables& variables,
                     const std::vector<Values>& expected) {
  ASSERT_EQ(plan.arena_bytes % sizeof(double), 0u);
  std::vector<double> arena(plan.arena_bytes / sizeof(double), kGarbage);
  std::vector<Values> external(graph.num_entries());
  for (uint32_t id : graph.variables()) external[graph[id].first_entry] = variables.at(graph[id].node->name());
  const auto memory = [&](uint32_t entry) -> double* {
    if (plan.alias[entry] >= 0) return external[plan.alias[entry]].data();
    if (plan.offset[entry] == MemoryPlan::kNone) return nullptr;
    if (plan.offset[entry] != MemoryPlan::kExternal) return arena.data() + plan.offset[entry] / sizeof(double);
    external[entry].resize(inferred.shapes[entry].Size(), kGarbage);
    return external[entry].data();
  };
  const auto value = [&](uint32_t entry) {
    const double* data = memory(entry);
    return data == nullptr ? Values{} : Values(data, data + inferred.shapes[entry].Size());
  };
  const Runner runner(graph, inferred);
  for (uint32_t id = 0; id < graph.num_nodes(); ++id) {
    const Node& node = *graph[id].node;
    if (plan.skipped[id]) continue;
    const std::vector<bool> ignored = Ignored(node);
    for (uint32_t i = 0; i < node.num_inputs(); ++i) {
      if (ignored[i]) continue;
      ASSERT_EQ(value(graph[id].inputs[i].entry), expected[graph[id].inputs[i].entry])
          << "input " << i << " of node " << id << " (" << node.op()->name() << ")";
    }
    const auto first = plan.req.begin() + graph[id].first_entry;
    runner.Run(id, memory, {first, first + node.num_outputs()});
  }
  for (const auto& output : graph.outputs()) {
    ASSERT_EQ(value(output.entry), expected[output.entry]) << "output " << graph[output.node].node->name();
  }
}

}  // namespace gluond::testing
