#include "engine/compile/program_report.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/core/flop.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"

namespace gluond {
namespace {

using Place = ProgramReport::Place;

class Reporter {
 public:
  Reporter(Unit& unit, const Inferred& inferred, const PassHistory& history)
      : graph_(unit.indexed()),
        inferred_(inferred),
        plan_(unit.plan),
        unit_(unit),
        history_(history),
        last_(graph_.num_entries(), 0),
        is_constant_(graph_.num_entries(), false) {
    for (uint32_t k = 0; k < unit.num_constants(); ++k) is_constant_[graph_.outputs()[k].entry] = true;
    FindLastSteps();
  }

  void Fill(ProgramReport* report) {
    for (uint32_t id = 0; id < graph_.num_nodes(); ++id) {
      if (!plan_.skipped[id]) report->steps.push_back(StepOf(id));
    }
    for (const RowChain& chain : unit_.chains) {
      for (uint32_t i = chain.first; i < chain.last; ++i) report->steps[i].chain = static_cast<int>(report->chains.size());
      report->chains.push_back({chain.first, chain.last, chain.rows, chain.chunks});
    }
    for (const ProgramReport::Step& step : report->steps) {
      if (step.computes_constants) continue;
      report->flop += step.flop;
      Add(step.bytes_read, &report->bytes_read);
      Add(step.bytes_written, &report->bytes_written);
    }
    report->arena_bytes = plan_.arena_bytes;
    report->unshared_bytes = plan_.unshared_bytes;
    for (const uint32_t id : graph_.variables()) {
      report->variables.push_back(TensorOf(*graph_[id].node, 0, graph_[id].first_entry));
      Add(report->variables.back().bytes, &report->variable_bytes);
    }
    // The outputs after a pause are variables that a step writes.
    const size_t num_first = unit_.options().num_first, num_outputs = num_first > 0 ? num_first : graph_.outputs().size();
    for (size_t k = 0; k < num_outputs; ++k) {
      Add(BytesOf(graph_.outputs()[k].entry), k < unit_.num_constants() ? &report->constant_bytes : &report->output_bytes);
    }
    for (const int64_t bytes : {report->arena_bytes, report->variable_bytes, report->output_bytes, report->constant_bytes}) {
      Add(bytes, &report->peak_bytes);
    }
  }

 private:
  static absl::flat_hash_set<uint32_t> IgnoredBy(const Node& node) {
    return {node.facts().ignored.begin(), node.facts().ignored.end()};
  }
  // Sizes of tensors that have no memory yet may add up to more than 2^63.
  static void Add(int64_t bytes, int64_t* sum) {
    if (__builtin_add_overflow(*sum, bytes, sum)) *sum = std::numeric_limits<int64_t>::max();
  }
  int64_t BytesOf(uint32_t entry) const { return inferred_.shapes[entry].Size() * SizeOf(inferred_.types[entry]); }

  // Users come first. A node that does not run hands its inputs' memory on.
  void FindLastSteps() {
    uint32_t step = 0;
    for (uint32_t id = 0; id < graph_.num_nodes(); ++id) step += plan_.skipped[id] ? 0 : 1;
    for (const IndexedGraph::Input& output : graph_.outputs()) last_[output.entry] = step == 0 ? 0 : step - 1;
    for (uint32_t id = graph_.num_nodes(); id-- > 0;) {
      const IndexedGraph::IndexedNode& indexed = graph_[id];
      if (indexed.node->is_variable()) continue;
      if (!plan_.skipped[id]) --step;
      uint32_t needed = plan_.skipped[id] ? 0 : step;
      for (uint32_t i = 0; i < indexed.node->num_outputs(); ++i) {
        uint32_t& last = last_[indexed.first_entry + i];
        if (!plan_.skipped[id]) last = std::max(last, step);
        if (plan_.skipped[id]) needed = std::max(needed, last);
      }
      const absl::flat_hash_set<uint32_t> ignored = IgnoredBy(*indexed.node);
      for (uint32_t i = 0; i < indexed.inputs.size(); ++i) {
        if (ignored.contains(i)) continue;
        uint32_t& last = last_[indexed.inputs[i].entry];
        last = std::max(last, needed);
      }
    }
  }

  ProgramReport::Tensor TensorOf(const Node& node, uint32_t index, uint32_t entry) const {
    ProgramReport::Tensor tensor;
    tensor.name = index == 0 ? node.name() : absl::StrCat(node.name(), ":", index);
    tensor.shape = inferred_.shapes[entry];
    tensor.dtype = inferred_.types[entry];
    tensor.bytes = BytesOf(entry);
    const uint32_t owner = plan_.alias[entry] >= 0 ? static_cast<uint32_t>(plan_.alias[entry]) : entry;
    if (is_constant_[owner]) {
      tensor.place = Place::kConstant;
    } else if (plan_.offset[owner] >= 0) {
      tensor.place = Place::kArena;
      tensor.offset = plan_.offset[owner];
      tensor.last_step = last_[entry];
    } else if (plan_.offset[owner] == MemoryPlan::kExternal) {
      tensor.place = Place::kCaller;
    }
    return tensor;
  }

  ProgramReport::Step StepOf(uint32_t id) {
    const IndexedGraph::IndexedNode& indexed = graph_[id];
    const Node& node = *indexed.node;
    ProgramReport::Step step;
    step.name = node.name();
    step.op = node.op()->name();
    step.pass = history_.PassOf(node);
    step.computes_constants = unit_.computes_constants()[id];
    ShapeVector in, out;
    int64_t elements = 0;
    absl::flat_hash_set<uint32_t> read;
    const absl::flat_hash_set<uint32_t> ignored = IgnoredBy(node);
    for (uint32_t i = 0; i < indexed.inputs.size(); ++i) {
      const IndexedGraph::Input& input = indexed.inputs[i];
      in.push_back(inferred_.shapes[input.entry]);
      step.inputs.push_back(TensorOf(*graph_[input.node].node, input.index, input.entry));
      if (ignored.contains(i)) continue;
      elements = std::max(elements, in.back().Size());
      if (read.insert(input.entry).second) Add(step.inputs.back().bytes, &step.bytes_read);
    }
    for (uint32_t i = 0; i < node.num_outputs(); ++i) {
      const uint32_t entry = indexed.first_entry + i;
      const bool wanted = plan_.req[entry] != kNullOp;
      out.push_back(wanted ? inferred_.shapes[entry] : Shape());
      step.outputs.push_back(TensorOf(node, i, entry));
      if (!wanted) continue;
      elements = std::max(elements, out.back().Size());
      Add(step.outputs.back().bytes, &step.bytes_written);
    }
    const FFlop* const flop = node.op()->GetAttr<FFlop>("FFlop");
    step.has_product = flop != nullptr;
    step.flop = flop != nullptr ? (*flop)(node.attrs, in, out) : static_cast<double>(elements);
    return step;
  }

  const IndexedGraph& graph_;
  const Inferred& inferred_;
  const MemoryPlan& plan_;
  Unit& unit_;
  const PassHistory& history_;
  std::vector<uint32_t> last_;  // By entry: the last step that needs it.
  std::vector<bool> is_constant_;
};

}  // namespace

absl::StatusOr<ProgramReport> ReportProgram(const Graph& graph, const Signatures& known, const UnitOptions& options,
                                            PassSet left_out, PassHistory before) {
  Unit unit(graph, known, options);
  PassWatcher watcher(unit, std::move(before));
  RETURN_IF_ERROR(RunPasses(Stage::kPlan, left_out, &unit, [&](const Pass& pass, PassTurn turn) { watcher.After(pass, turn); }));
  ASSIGN_OR_RETURN(const Inferred* const inferred, unit.inferred());
  PassHistory history = watcher.Take();
  ProgramReport report;
  Reporter(unit, *inferred, history).Fill(&report);
  report.passes = std::move(history.passes);
  return report;
}

}  // namespace gluond
