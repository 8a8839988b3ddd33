// The cost of compiling, pass by pass, for graphs of several forms and sizes: milliseconds, and how much more twice the nodes
// cost. Linear passes cost about twice as much.
//
//   compile_bench [FORM ...] [NODES ...]      Default: all forms, 10000 20000 100000 200000.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/compile/pipeline.h"
#include "engine/core/op_facts.h"
#include "engine/nn/node_spec.h"
#include "engine/passes/gradient.h"
#include "engine/passes/infer.h"
#include "engine/passes/validate.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/lane.h"

namespace gluond::bench {
namespace {

template <class T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) std::fprintf(stderr, "compile_bench: %s\n", value.status().ToString().c_str()), std::exit(1);
  return *std::move(value);
}

using Specs = std::vector<NodeSpec>;

NodeSpec Sum(std::string name, std::vector<EntrySpec> terms) {
  std::string count = absl::StrCat(terms.size());
  return {"add_n", std::move(name), std::move(terms), {{"num_args", std::move(count)}}};
}

// A long thin graph.
Specs Chain(int64_t nodes) {
  Specs specs = {{"tanh", "n0", {{"x"}}}};
  for (int64_t i = 1; i < nodes; ++i) specs.push_back({"tanh", absl::StrCat("n", i), {{absl::StrCat("n", i - 1)}}});
  return specs;
}

// Every node reads the 64 before it, and is read by the 64 after it.
Specs Readers(int64_t nodes) {
  Specs specs = {{"tanh", "n0", {{"x"}}}};
  for (int64_t i = 1; i < nodes; ++i) {
    std::vector<EntrySpec> terms;
    for (int64_t k = std::max<int64_t>(0, i - 64); k < i; ++k) terms.push_back({absl::StrCat("n", k)});
    specs.push_back(Sum(absl::StrCat("n", i), std::move(terms)));
  }
  return specs;
}

// All calls read the input; sums of 64 join them. All of their values are alive at once.
Specs Wide(int64_t nodes) {
  Specs specs;
  std::vector<EntrySpec> row;
  for (int64_t i = 0; i < nodes; ++i) {
    specs.push_back({"_plus_scalar", absl::StrCat("n", i), {{"x"}}, {{"scalar", absl::StrCat(i)}}});
    row.push_back({specs.back().name});
  }
  while (row.size() > 1) {
    std::vector<EntrySpec> next;
    for (size_t i = 0; i < row.size(); i += 64) {
      specs.push_back(Sum(absl::StrCat("s", specs.size()), {row.begin() + i, row.begin() + std::min(row.size(), i + 64)}));
      next.push_back({specs.back().name});
    }
    row = std::move(next);
  }
  return specs;
}

// First all calls of a long chain, then sums that read them from the first to the last: their values die late, one by one.
Specs Ladder(int64_t nodes) {
  Specs specs = Chain(nodes / 2);
  const std::string first = absl::StrCat("n", nodes / 2 - 1);
  for (int64_t i = 0; i < nodes / 2; ++i) {
    specs.push_back({"elemwise_add", absl::StrCat("s", i), {{i == 0 ? first : absl::StrCat("s", i - 1)}, {absl::StrCat("n", i)}}});
  }
  return specs;
}

// Layers with parameters: three nodes in one of four are operators.
Specs Layers(int64_t nodes) {
  Specs specs;
  std::string x = "x";
  for (int64_t i = 0; i < nodes / 4; ++i) {
    const std::string dense = absl::StrCat("d", i);
    specs.push_back({"FullyConnected", dense, {{x}}, {{"num_hidden", "4"}}});
    specs.push_back({"Activation", x = absl::StrCat("a", i), {{dense}}, {{"act_type", "relu"}}});
  }
  return specs;
}

// Each output of the graph is a short way from the input.
Specs Outputs(int64_t nodes) {
  Specs specs;
  for (int64_t i = 0; i < nodes; ++i)
    specs.push_back({"_plus_scalar", absl::StrCat("n", i), {{"x"}}, {{"scalar", absl::StrCat(i)}}});
  return specs;
}

using Costs = std::vector<std::pair<std::string, double>>;  // Milliseconds.

class Stopwatch {
 public:
  template <class Work>
  auto Time(const std::string& name, Work work) {
    struct Add {
      Costs& costs;
      const std::string& name;
      const double begin = Now();
      ~Add() { costs.emplace_back(name, Now() - begin); }
    } add{costs_, name};
    return work();
  }
  Costs costs() const { return costs_; }

 private:
  static double Now() {  // The thread's own processor time: other work on the machine counts for little.
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
  }

  Costs costs_;
};

class Compiling {
 public:
  Costs Of(const Specs& specs, bool is_train) {
    Stopwatch watch;
    const Signature x = {{64, 4}, DType::kFloat32};
    std::optional<ModelDefinition> definition = watch.Time("expand", [&] {
      return OrDie(ExpandNodes(specs, {{"x", x.shape}}, {}));
    });
    Graph graph{definition->outputs};
    auto names = std::make_shared<absl::flat_hash_set<std::string>>();
    for (const Parameter& parameter : definition->parameters) names->insert(parameter.name);
    if (is_train) {
      std::vector<NodeEntry> xs;
      PostOrderVisit(graph.outputs, [&](const NodePtr& node) {
        if (node->is_variable()) xs.push_back({node, 0});
      });
      const Gradients made = watch.Time(
          "gradient", [&] { return OrDie(BuildGradient(graph.outputs, xs, std::vector<NodeEntry>(graph.outputs.size()))); });
      graph.outputs.insert(graph.outputs.end(), made.begin(), made.end());
    }
    definition.reset();
    const Signatures known = {{"x", x}};
    {
      Unit unit(graph, known, {.is_train = is_train, .constants = is_train ? nullptr : names});
      watch.Time("infer", [&] { OrDie(unit.inferred()); });
      for (const Pass& pass : Passes()) {
        if (is_train && pass.runs_for != Pass::For::kAll) continue;
        watch.Time(std::string(pass.name), [&] { OrDie<int>(pass.run(&unit).ok() ? absl::StatusOr<int>(0) : pass.run(&unit)); });
      }
      num_nodes_ = unit.indexed().num_nodes();
    }
    auto executor = watch.Time("all", [&] {
      return OrDie(
          Executor::Compile(graph, known, {.is_train = is_train, .constants = is_train ? nullptr : names}, *lane_, *allocator_));
    });
    watch.Time("destroy", [&] { executor.reset(), graph.outputs.clear(); });
    return watch.costs();
  }
  uint32_t num_nodes() const { return num_nodes_; }

 private:
  uint32_t num_nodes_ = 0;
  std::shared_ptr<Budget> budget_ = std::make_shared<Budget>("the benchmark", int64_t{1} << 33, "a flag");
  std::unique_ptr<DeviceAllocator> allocator_ = OrDie(DeviceAllocator::Create(Device(), budget_));
  std::shared_ptr<Lane> lane_ = OrDie(Lane::Create({}, {.threads = 1}, *allocator_));
};

void Run(const std::set<std::string>& wanted, const std::vector<int64_t>& sizes) {
  Compiling compiling;
  const std::vector<std::pair<const char*, Specs (*)(int64_t)>> forms = {
      {"chain", Chain}, {"readers", Readers}, {"wide", Wide}, {"ladder", Ladder}, {"layers", Layers}, {"outputs", Outputs}};
  for (const auto& [form, make] : forms) {
    if (!wanted.empty() && !wanted.contains(form)) continue;
    for (const bool is_train : {false, true}) {
      std::map<std::string, double> before;
      int64_t size_before = 0;
      for (const int64_t size : sizes) {
        // Each sum of 64 terms has 63 nodes in the gradient.
        const Costs costs = compiling.Of(make(form == std::string("readers") && is_train ? size / 32 : size), is_train);
        std::printf("%s %s %lld (%u nodes):", form, is_train ? "train" : "predict", static_cast<long long>(size),
                    compiling.num_nodes());
        for (const auto& [name, milliseconds] : costs) {
          std::printf(" %s %.1f", name.c_str(), milliseconds);
          if (size == 2 * size_before) std::printf(" (x%.2f)", milliseconds / before[name]);
          before[name] = milliseconds;
        }
        std::printf("\n");
        std::fflush(stdout);
        size_before = size;
      }
    }
  }
}

}  // namespace
}  // namespace gluond::bench

int main(int argc, char** argv) {
  std::set<std::string> forms;
  std::vector<int64_t> sizes;
  for (int i = 1; i < argc; ++i) {
    int64_t size;
    if (absl::SimpleAtoi(argv[i], &size)) {
      sizes.push_back(size);
    } else {
      forms.insert(argv[i]);
    }
  }
  if (sizes.empty()) sizes = {10000, 20000, 100000, 200000};
  gluond::bench::Run(forms, sizes);
}
