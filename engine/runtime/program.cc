#include "engine/runtime/program.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "engine/compile/pipeline.h"
#include "engine/compile/unit.h"
#include "engine/core/affine.h"
#include "engine/core/interruption.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/passes/in_place.h"
#include "engine/passes/operator_error.h"
#include "engine/passes/pass_work.h"
#include "engine/passes/plan_memory.h"
#include "engine/runtime/row_chain.h"

namespace gluond {
namespace {

template <class T>
int64_t BytesOf(const std::vector<T>& values) {
  return static_cast<int64_t>(values.capacity() * sizeof(T));
}
int64_t BytesOf(const std::vector<bool>& values) { return static_cast<int64_t>(values.capacity() / 8); }
// A short text lies in the string itself.
int64_t BytesOf(const std::string& text) { return text.size() < sizeof(text) / 2 ? 0 : static_cast<int64_t>(text.capacity()); }

// Constants of a program that has no values yet: each lies, meanwhile, at its slot.
class ConstantSlots final : public Constants {
 public:
  explicit ConstantSlots(Program& program) : program_(program) {
    for (const uint32_t i : program.constant_variables) Bind(i, &program.slots[i]);
    for (const ProgramConstant& constant : program.constants) Bind(constant.slot, &program.slots[constant.slot]);
  }
  ~ConstantSlots() override {
    for (const uint32_t i : program_.constant_variables) Bind(i, nullptr);
    for (const ProgramConstant& constant : program_.constants) Bind(constant.slot, nullptr);
  }
  bool Contains(const void* data) override {
    const std::less<> less;
    return !less(data, program_.slots.data()) && less(data, program_.slots.data() + program_.slots.size());
  }
  absl::StatusOr<const void*> Find(const void*, absl::string_view, size_t, absl::FunctionRef<absl::Status(void*)>) override {
    return nullptr;
  }

 private:
  void Bind(uint32_t slot, void* to) { program_.slots[slot].Bind(to); }

  Program& program_;
};

class Compiler {
 public:
  Compiler(Unit& unit, const Inferred& inferred, Allocator& allocator)
      : graph_(unit.indexed()),
        inferred_(inferred),
        plan_(unit.plan),
        computes_constants_(unit.computes_constants()),
        is_train_(unit.options().is_train),
        num_constants_(unit.num_constants()),
        constants_(unit.options().constants.get()),
        device_(unit.options().device),
        program_(std::make_unique<Program>(device_.type == DeviceType::kCpu ? &allocator : nullptr)),
        slot_of_(graph_.num_entries(), Program::kNever),
        step_of_(graph_.num_nodes(), Program::kNever) {}

  absl::StatusOr<std::unique_ptr<Program>> Compile(Allocator& allocator, std::shared_ptr<SharedArena> arena, uint32_t pause_after) {
    if (plan_.arena_bytes > 0) {
      program_->shares_arena = arena != nullptr && !HasAsyncStep();
      if (!program_->shares_arena) arena = std::make_shared<SharedArena>(allocator);
      auto claim = ArenaClaim::Make(std::move(arena), static_cast<size_t>(plan_.arena_bytes));
      if (!claim.ok()) return Annotate(claim.status(), "the arena of a graph");
      program_->arena = *std::move(claim);
    }
    program_->nodes = graph_.shared_nodes();
    AddVariables();
    AddOutputSlots();
    Reserve();
    PassWork work;
    for (uint32_t id = 0; id < graph_.num_nodes(); ++id) {
      RETURN_IF_ERROR(work.Add(1 + graph_[id].inputs.size()));
      if (!plan_.skipped[id]) RETURN_IF_ERROR(AddStep(id, allocator));
    }
    AddConstants();
    for (size_t k = num_constants_; k < graph_.outputs().size(); ++k) AddOutput(graph_.outputs()[k], OwnerOf(graph_.outputs()[k]));
    Divide(pause_after);
    HashLayout();
    return std::move(program_);
  }

 private:
  bool HasAsyncStep() const {
    const auto& nodes = graph_.nodes();
    return std::any_of(nodes.begin(), nodes.end(), [](const auto& each) { return each.node->facts().async; });
  }

  void AddVariables() {
    for (const uint32_t id : graph_.variables()) {
      const uint32_t entry = graph_[id].first_entry;
      const int index = static_cast<int>(program_->inputs.size());
      const std::string& name = graph_[id].node->name();
      slot_of_[entry] = static_cast<uint32_t>(index);
      program_->inputs.push_back({name, inferred_.shapes[entry], inferred_.types[entry], false});
      program_->input_index[name] = index;
      if (constants_ != nullptr && constants_->contains(name)) program_->constant_variables.push_back(slot_of_[entry]);
    }
    program_->read_at_end.assign(program_->inputs.size(), false);
    program_->slots.resize(program_->inputs.size());
  }

  void AddOutputSlots() {
    for (const IndexedGraph::Input& output : graph_.outputs()) {
      const bool external = plan_.offset[output.entry] == MemoryPlan::kExternal && plan_.alias[output.entry] < 0;
      if (!external || slot_of_[output.entry] != Program::kNever) continue;
      slot_of_[output.entry] = static_cast<uint32_t>(program_->slots.size());
      program_->slots.emplace_back();
    }
    program_->last_reader.assign(program_->slots.size(), Program::kNever);
  }

  // Slots point into the blobs: these must not move.
  void Reserve() {
    size_t ins = 0, outs = 0, steps = 0;
    for (uint32_t id = 0; id < graph_.num_nodes(); ++id) {
      if (plan_.skipped[id]) continue;
      ins += graph_[id].inputs.size();
      outs += graph_[id].node->num_outputs();
      ++steps;
    }
    program_->ins.reserve(ins);
    program_->outs.reserve(outs);
    program_->reqs.reserve(outs);
    program_->steps.reserve(steps);
  }

  uint32_t SlotOf(uint32_t entry) const {
    return slot_of_[plan_.alias[entry] >= 0 ? static_cast<uint32_t>(plan_.alias[entry]) : entry];
  }

  bool IsInArena(uint32_t entry) const { return plan_.offset[entry] >= 0 && program_->arena.bytes() > 0; }

  void AddBlob(uint32_t entry, std::vector<TBlob>* blobs) {
    blobs->push_back({nullptr, inferred_.shapes[entry], inferred_.types[entry], device_});
    void** const use = &blobs->back().data;
    const uint32_t slot = SlotOf(entry);
    if (slot != Program::kNever) program_->slots[slot].uses.push_back(use);
    if (IsInArena(entry)) program_->arena_uses.push_back({use, plan_.offset[entry]});
  }

  // Points `blob` to a copy of its memory, for the operator.
  absl::Status Stage(uint32_t entry, TBlob* blob, Allocator& allocator) {
    absl::StatusOr<Tensor> copy = Tensor::Empty(allocator, blob->shape, blob->dtype);
    if (!copy.ok()) return Annotate(copy.status(), "the copy of an input that the operator changes");
    StagedInput& staged = program_->staged.emplace_back(StagedInput{nullptr, *std::move(copy)});
    blob->data = staged.copy.data();
    if (const uint32_t slot = SlotOf(entry); slot != Program::kNever) {
      std::vector<void**>& uses = program_->slots[slot].uses;
      *std::find(uses.rbegin(), uses.rend(), &blob->data) = &staged.memory;
    }
    std::vector<ArenaUse>& uses = program_->arena_uses;  // The step's are the last ones.
    const auto is_it = [blob](const ArenaUse& each) { return each.use == &blob->data; };
    if (IsInArena(entry)) std::find_if(uses.rbegin(), uses.rend(), is_it)->use = &staged.memory;
    return absl::OkStatus();
  }

  absl::Status AddStep(uint32_t id, Allocator& allocator) {
    const IndexedGraph::IndexedNode& indexed = graph_[id];
    const Node& node = *indexed.node;
    const uint32_t index = static_cast<uint32_t>(program_->steps.size());
    step_of_[id] = index;
    Step& step = program_->steps.emplace_back();
    step.node = &node;
    step.async = node.facts().async;
    step.computes_constants = computes_constants_[id];
    if (step.computes_constants) program_->after_constants = index + 1;
    step.first_in = static_cast<uint32_t>(program_->ins.size());
    step.num_in = node.num_inputs();
    step.first_out = static_cast<uint32_t>(program_->outs.size());
    step.num_out = node.num_outputs();
    for (const IndexedGraph::Input& input : indexed.inputs) {
      AddBlob(input.entry, &program_->ins);
      const uint32_t slot = SlotOf(input.entry);
      if (slot != Program::kNever) program_->last_reader[slot] = index;
    }
    for (uint32_t i = 0; i < step.num_out; ++i) {
      AddBlob(indexed.first_entry + i, &program_->outs);
      program_->reqs.push_back(plan_.req[indexed.first_entry + i]);
    }
    step.first_staged = static_cast<uint32_t>(program_->staged.size());
    for (const uint32_t i : node.facts().mutated) {
      if (i >= indexed.inputs.size()) continue;
      const uint32_t entry = indexed.inputs[i].entry, slot = SlotOf(entry);
      // A call with FAffine writes nothing in a prediction.
      const bool writes = is_train_ || AffineOf(node) == nullptr;
      if (slot < program_->inputs.size() && writes) program_->inputs[slot].mutated = true;
      if (step.async) RETURN_IF_ERROR(Stage(entry, &program_->ins[step.first_in + i], allocator));
    }
    step.num_staged = static_cast<uint32_t>(program_->staged.size()) - step.first_staged;
    FindVariablesToTakeOver(indexed);
    return absl::OkStatus();
  }

  // The entry whose memory `output` has: its own, unless it is an identity in place.
  IndexedGraph::Input OwnerOf(const IndexedGraph::Input& output) const {
    if (plan_.alias[output.entry] < 0) return output;
    const auto entry = static_cast<uint32_t>(plan_.alias[output.entry]);
    const auto& nodes = graph_.nodes();
    const auto after =
        std::upper_bound(nodes.begin(), nodes.end(), entry, [](uint32_t e, const auto& node) { return e < node.first_entry; });
    const auto node = static_cast<uint32_t>(after - nodes.begin()) - 1;
    return {node, entry - graph_[node].first_entry, entry};
  }

  void AddConstants() {
    const IndexedGraph::Input* const outputs = graph_.outputs().data();
    for (uint32_t k = 0; k < num_constants_; ++k) {
      const uint32_t entry = outputs[k].entry, slot = SlotOf(entry);
      is_constant_.insert(slot);
      program_->constants.push_back({{inferred_.shapes[entry], inferred_.types[entry]}, slot});
    }
    // The text numbers the nodes as they come, so that it grows as the graph does.
    for (uint32_t id = 0; id < graph_.num_nodes(); ++id) {
      if (!computes_constants_[id]) continue;
      const Node& node = *graph_[id].node;
      absl::StrAppend(&program_->constants_text, id, "=", node.is_variable() ? "" : node.op()->name());
      if (node.is_variable()) {
        const uint32_t entry = graph_[id].first_entry;
        program_->constant_inputs.push_back(slot_of_[entry]);
        absl::StrAppend(&program_->constants_text, Name(inferred_.types[entry]), inferred_.shapes[entry].ToString());
      }
      for (const auto& [key, value] : node.attrs.dict) {
        if (!node.is_variable()) absl::StrAppend(&program_->constants_text, ",", key, "=", value.size(), ":", value);
      }
      for (const IndexedGraph::Input& input : graph_[id].inputs) {
        absl::StrAppend(&program_->constants_text, " ", input.node, ".", input.index);
      }
      absl::StrAppend(&program_->constants_text, ";");
    }
    for (uint32_t k = 0; k < num_constants_; ++k) {
      const Signature& signature = program_->constants[k].signature;
      absl::StrAppend(&program_->constants_text, " ", outputs[k].node, ".", outputs[k].index, " ", Name(signature.dtype),
                      signature.shape.ToString());
    }
  }

  // `owner`: see OwnerOf.
  void AddOutput(const IndexedGraph::Input& output, const IndexedGraph::Input& owner) {
    program_->outputs.push_back({inferred_.shapes[output.entry], inferred_.types[output.entry]});
    ProgramOutput& place = program_->output_places.emplace_back();
    const uint32_t slot = SlotOf(output.entry);
    if (slot == Program::kNever) {
      place.offset = plan_.offset[output.entry];
    } else if (slot < program_->inputs.size()) {
      place.kind = ProgramOutput::kVariable;
      place.slot = slot;
      program_->read_at_end[slot] = true;
    } else if (is_constant_.contains(slot)) {
      place.kind = ProgramOutput::kConstant;
      place.slot = slot;
    } else {
      place.slot = slot;
      const auto [first, is_first] = first_of_.try_emplace(slot, static_cast<uint32_t>(program_->output_places.size() - 1));
      place.first = first->second;
      place.kind = is_first ? ProgramOutput::kOwnSlot : ProgramOutput::kRepeat;
      if (!is_first) return;
      place.step = step_of_[owner.node];
      place.req = program_->steps[place.step].first_out + owner.index;
      place.async = program_->steps[place.step].async;
      place.read = program_->slots[slot].uses.size() > 1;  // One is the step's that writes it.
      if (const auto variables = may_take_over_.find(owner.entry); variables != may_take_over_.end()) {
        place.in_place = std::move(variables->second);
      }
    }
  }

  // Whether the node is a variable's last reader is known when all steps are there, and the run's memory (MayOverwrite).
  void FindVariablesToTakeOver(const IndexedGraph::IndexedNode& indexed) {
    const OpFacts& facts = indexed.node->facts();
    if (facts.in_place.empty()) return;
    absl::flat_hash_map<uint32_t, uint32_t> reads;  // By variable.
    for (const IndexedGraph::Input& input : indexed.inputs) {
      if (const uint32_t slot = SlotOf(input.entry); slot < program_->inputs.size()) ++reads[slot];
    }
    if (reads.empty()) return;
    for (uint32_t o = 0; o < facts.num_outputs; ++o) {
      const uint32_t output = indexed.first_entry + o;
      if (slot_of_[output] == Program::kNever) continue;
      const auto variable_of = [&](uint32_t i) -> std::optional<uint32_t> {
        const uint32_t entry = indexed.inputs[i].entry, slot = SlotOf(entry);
        const bool fits =
            FitTogether(inferred_.shapes[entry], inferred_.types[entry], inferred_.shapes[output], inferred_.types[output]);
        return slot < program_->inputs.size() && fits ? std::optional(slot) : std::nullopt;
      };
      ForEachPlaceToTakeOver(
          facts, o, variable_of, [&](uint32_t v) { return reads.at(v); }, [&](uint32_t v) { may_take_over_[output].push_back(v); });
    }
  }

  // The steps of the first outputs come first: so is the graph indexed.
  void Divide(uint32_t pause_after) {
    Program& p = *program_;
    p.num_first = pause_after == 0 ? static_cast<uint32_t>(p.outputs.size()) : pause_after;
    p.pause = static_cast<uint32_t>(p.steps.size());
    p.read_first.assign(p.inputs.size(), pause_after == 0);
    p.read_rest.assign(p.inputs.size(), false);
    if (pause_after == 0) return;
    p.pause = 0;
    uint32_t end = 0;
    for (uint32_t k = 0; k < pause_after; ++k) end = std::max(end, graph_.outputs()[num_constants_ + k].node + 1);
    for (uint32_t id = 0; id < end; ++id) {
      if (step_of_[id] != Program::kNever) p.pause = std::max(p.pause, step_of_[id] + 1);
      if (graph_[id].node->is_variable()) p.read_first[slot_of_[graph_[id].first_entry]] = true;
    }
    const auto reads = [&p](uint32_t slot) { return p.last_reader[slot] != Program::kNever && p.last_reader[slot] >= p.pause; };
    for (uint32_t v = 0; v < p.inputs.size(); ++v) p.read_rest[v] = reads(v);
    for (uint32_t k = 0; k < pause_after; ++k) {
      ProgramOutput& place = p.output_places[k];
      place.read_rest = place.kind == ProgramOutput::kOwnSlot && reads(place.slot);
    }
    for (uint32_t k = pause_after; k < p.outputs.size(); ++k) {
      const ProgramOutput& place = p.output_places[k];
      if (place.kind == ProgramOutput::kVariable) p.read_rest[place.slot] = true;
      if (place.kind == ProgramOutput::kRepeat) p.output_places[place.first].read_rest = true;
    }
  }

  // A client's operator may infer other shapes each time.
  void HashLayout() {
    Program& p = *program_;
    p.layout = absl::HashOf(p.arena.bytes(), p.pause, p.num_first);
    for (const Step& step : p.steps) p.layout = absl::HashOf(p.layout, step.node->op(), step.num_in, step.num_out);
    for (const std::vector<TBlob>* blobs : {&p.ins, &p.outs}) {
      for (const TBlob& blob : *blobs) p.layout = absl::HashOf(p.layout, blob.shape, static_cast<int>(blob.dtype));
    }
    for (const ArenaUse& each : p.arena_uses) p.layout = absl::HashOf(p.layout, each.offset);
  }

  const IndexedGraph& graph_;
  const Inferred& inferred_;
  const MemoryPlan& plan_;
  const std::vector<bool>& computes_constants_;
  const bool is_train_;
  const uint32_t num_constants_;
  const absl::flat_hash_set<std::string>* const constants_;  // Null: none.
  const Device device_;
  std::unique_ptr<Program> program_;
  std::vector<uint32_t> slot_of_;                     // By entry: of variables and of outputs that have memory of their own.
  std::vector<uint32_t> step_of_;                     // By node.
  absl::flat_hash_map<uint32_t, uint32_t> first_of_;  // By slot: the first output that has it.
  absl::flat_hash_set<uint32_t> is_constant_;         // Slots.
  // By output of a node: the variables whose memory it may have, if the node reads them last.
  absl::flat_hash_map<uint32_t, std::vector<uint32_t>> may_take_over_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Program>> Program::Compile(const Graph& graph, const Signatures& known,
                                                          const ExecutorOptions& options, const Lane& lane, Allocator& allocator,
                                                          std::shared_ptr<SharedArena> arena) {
  if (allocator.device() != lane.device()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the lane is on ", lane.device().ToString(), ", the allocator on ", allocator.device().ToString()));
  }
  if (options.pause_after > graph.outputs.size() || (options.pause_after > 0 && options.constants != nullptr)) {
    return absl::InvalidArgumentError(absl::StrCat("a pause after ", options.pause_after, " of ", graph.outputs.size(),
                                                   " outputs; want one without constants, after outputs that there are"));
  }
  Unit unit(graph, known,
            {.device = lane.device(),
             .is_train = options.is_train,
             .num_first = options.pause_after,
             .constants = options.constants,
             .payer = &allocator});
  RETURN_IF_ERROR(RunPasses(Stage::kPlan, options.left_out, &unit));
  ASSIGN_OR_RETURN(const Inferred* const inferred, unit.inferred());
  Compiler compiler(unit, *inferred, allocator);
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program, compiler.Compile(allocator, std::move(arena), options.pause_after));
  program->chains = std::move(unit.chains);
  std::erase_if(program->chains,
                [&](const RowChain& chain) { return chain.first < program->pause && chain.last > program->pause; });
  program->made_bytes = unit.made_bytes();
  program->charge = unit.charge();
  return program;
}

absl::Status Program::Prepare(const ExecutorOptions& options, const Lane& lane) {
  OpContext context = lane.NewContext(options.is_train);
  ConstantSlots known(*this);
  if (!constant_variables.empty()) context.constants = &known;
  OpContext own = context;
  own.kernels = &kernels;
  std::vector<OpReqType> wanted = reqs;
  for (size_t k = 0; options.added != nullptr && k < options.added->size(); ++k) {
    const ProgramOutput& place = output_places[k];
    if ((*options.added)[k] && place.kind == ProgramOutput::kOwnSlot && !place.read) wanted[place.req] = kAddTo;
  }
  auto chain = chains.begin();
  for (uint32_t i = 0; i < steps.size(); ++i) {
    if (chain != chains.end() && i == chain->first) {
      RETURN_IF_ERROR(PrepareByRows(this, *chain, context));
      i = chain++->last - 1;
      continue;
    }
    const Step& step = steps[i];
    RETURN_IF_ERROR(PrepareCall(*step.node, own, {ins.data() + step.first_in, step.num_in},
                                {wanted.data() + step.first_out, step.num_out}, {outs.data() + step.first_out, step.num_out}));
  }
  return absl::OkStatus();
}

absl::Status Program::PrepareCall(const Node& node, const OpContext& context, absl::Span<const TBlob> in,
                                  absl::Span<const OpReqType> req, absl::Span<const TBlob> out) {
  const FPrepare* const prepare = node.facts().prepare(context.device.type);
  if (prepare == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(CheckInterrupted());
  const absl::Status prepared = (*prepare)(node.attrs, context, in, req, out);
  if (prepared.ok() || absl::IsUnimplemented(prepared) || absl::IsResourceExhausted(prepared)) return absl::OkStatus();
  return OperatorError(node, prepared);
}

int64_t Program::HostBytes() const {
  int64_t bytes = sizeof(Program) + made_bytes;
  bytes += BytesOf(steps) + BytesOf(ins) + BytesOf(outs) + BytesOf(reqs) + BytesOf(arena_uses) + BytesOf(*nodes);
  bytes += static_cast<int64_t>(staged.size() * sizeof(StagedInput));
  bytes += BytesOf(slots) + BytesOf(last_reader) + BytesOf(read_at_end) + BytesOf(read_first) + BytesOf(read_rest);
  for (const Slot& slot : slots) bytes += BytesOf(slot.uses);
  bytes += BytesOf(inputs) + static_cast<int64_t>(input_index.capacity() * (sizeof(*input_index.begin()) + 1));
  for (const Executor::Variable& input : inputs) bytes += 2 * BytesOf(input.name);  // Once more in input_index.
  bytes += BytesOf(outputs) + BytesOf(output_places);
  for (const ProgramOutput& place : output_places) bytes += BytesOf(place.in_place);
  bytes += BytesOf(constants) + BytesOf(constant_inputs) + BytesOf(constant_variables) + BytesOf(constants_text);
  bytes += BytesOf(chains);
  for (const RowChain& chain : chains) bytes += BytesOf(chain.ins) + BytesOf(chain.outs);
  return bytes;
}

bool Program::MayOverwrite(const ProgramOutput& o, uint32_t v) const {
  if (inputs[v].mutated || read_at_end[v]) return false;
  if (last_reader[v] == kNever || last_reader[v] < o.step) return true;
  return last_reader[v] == o.step && std::find(o.in_place.begin(), o.in_place.end(), v) != o.in_place.end();
}

}  // namespace gluond
