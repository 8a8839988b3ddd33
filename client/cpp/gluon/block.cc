#include "gluond/block.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/gluon/block_state.h"
#include "client/cpp/gluon/parameter_state.h"
#include "client/cpp/gluon/symbol_node.h"
#include "gluond/files.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace gluon {
namespace {

// Calls `visit` with the path and state of each block, outer ones first. A block that is registered twice is visited twice.
void Walk(const std::shared_ptr<BlockState>& state, const std::function<void(const std::string&, BlockState&)>& visit) {
  std::vector<std::pair<std::string, std::shared_ptr<BlockState>>> left = {{"", state}};
  while (!left.empty()) {
    const auto [path, block] = std::move(left.back());
    left.pop_back();
    visit(path, *block);
    std::lock_guard<std::mutex> lock(block->mutex);
    for (auto child = block->children.rbegin(); child != block->children.rend(); ++child) {
      left.emplace_back(path.empty() ? child->first : absl::StrCat(path, ".", child->first), child->second);
    }
  }
}

std::vector<Symbol> InputsFor(size_t count) {
  std::vector<Symbol> inputs;
  for (size_t i = 0; i < count; ++i) inputs.push_back(Symbol::Variable(count == 1 ? "data" : absl::StrCat("data", i)));
  return inputs;
}

// Remembers a graph that runs, for SaveAsModel. The inputs' kinds are asked for there, of those arrays that live on.
void NoteRun(BlockState& block, const std::shared_ptr<const SessionGraph>& graph, const std::vector<NDArray>& inputs) {
  std::lock_guard<std::mutex> lock(block.mutex);
  if (block.last == graph) return;
  block.last = graph;
  block.last_inputs.clear();
  const std::vector<Symbol> variables = InputsFor(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    Variable& input = block.last_inputs.emplace_back();
    input.name = variables[i].node()->name;
    input.kind = Variable::Kind::kInput;
    ArrayState& state = *inputs[i].state();
    std::lock_guard<std::mutex> state_lock(state.mutex);
    if (state.dtype.has_value()) input.dtype = state.dtype;
    if (!state.shape.has_value()) continue;
    input.shape = *state.shape;
    if (!input.shape.empty()) input.shape[0] = -1;
  }
}

absl::StatusOr<std::shared_ptr<const SessionGraph>> Traced(const std::shared_ptr<SessionCore>& session, size_t count,
                                                           const internal::TraceForward& trace, internal::Sizes* out,
                                                           size_t* outputs, Place place) {
  const std::vector<Symbol> inputs = InputsFor(count);
  const std::vector<Symbol> results = trace(inputs, out);
  *outputs = results.size();
  GLUOND_ASSIGN_OR_RETURN(MadeGraph made, MakeGraph(inputs, results));
  return SessionGraph::Define(session, std::move(made), place);
}

}  // namespace

BlockBase::BlockBase() : state_(std::make_shared<BlockState>()) {}

ParameterDict BlockBase::params() const {
  if (state_->prepare != nullptr) state_->prepare().IgnoreError();
  return state_->params;
}

ParameterDict BlockBase::CollectParams() const {
  ParameterDict all;
  absl::flat_hash_set<const ParameterState*> known;  // Shared parameters have the first path.
  Walk(state_, [&](const std::string& path, BlockState& block) {
    if (block.prepare != nullptr) block.prepare().IgnoreError();
    for (const auto& [name, parameter] : block.params) {
      if (known.insert(parameter.state().get()).second) all.Add(path.empty() ? name : absl::StrCat(path, ".", name), parameter);
    }
  });
  return all;
}

absl::StatusOr<BlockTree> BlockBase::Tree() const {
  if (state_->tree != nullptr) return state_->tree();
  return absl::InvalidArgumentError(
      "the block's Forward is this program's own, and no server knows it: give the block's outputs as symbols, net(Symbol::Variable("
      "\"data\")), or save it from a session (SaveAsModel)");
}

void BlockBase::Initialize(const Component& initializer, const InitializeOptions& options, Place place) const {
  CollectParams().Initialize(initializer, options, place);
}

void BlockBase::ZeroGrad(Place place) const { CollectParams().ZeroGrad(place); }

void BlockBase::Cast(DType dtype, Place place) const {
  for (auto [name, parameter] : CollectParams()) parameter.Cast(dtype, place);
}

absl::Status BlockBase::SaveParameters(const std::string& path, Place place) const {
  NamedArrays arrays;
  for (const auto& [name, parameter] : CollectParams()) arrays.emplace_back(name, parameter.data(place));
  return SaveArrays(path, arrays, place);
}

absl::Status BlockBase::LoadParameters(const std::string& path, Place place) const {
  GLUOND_ASSIGN_OR_RETURN(const NamedTensors loaded, LoadTensors(path));
  const ParameterDict parameters = CollectParams();
  const auto unfit = [&path](const std::string& why) { return absl::InvalidArgumentError(absl::StrCat("'", path, "' ", why)); };
  std::vector<std::pair<Parameter, const Tensor*>> found;
  for (const auto& [name, tensor] : loaded) {
    // Files of models have kinds before the names.
    const std::string bare = name.substr(absl::StartsWith(name, "arg:") || absl::StartsWith(name, "aux:") ? 4 : 0);
    const Parameter parameter = parameters.Find(bare);
    if (!parameter.is_defined()) return unfit(absl::StrCat("has the parameter '", name, "', which the block has not"));
    const Shape shape = parameter.shape();
    if (!Fits(shape, tensor.shape())) {
      return unfit(absl::StrCat("has the parameter '", name, "' in the shape ", ToString(tensor.shape()), ", and the block in ",
                                ToString(shape)));
    }
    found.emplace_back(parameter, &tensor);
  }
  for (const auto& [name, parameter] : parameters) {
    const bool is_there = std::any_of(found.begin(), found.end(), [&p = parameter](const auto& each) { return each.first.Is(p); });
    if (!is_there) return unfit(absl::StrCat("lacks the parameter '", name, "'"));
  }
  // All fit: now none is left out.
  for (auto& [parameter, tensor] : found) parameter.SetData(NDArray(*tensor, "", place), place);
  return absl::OkStatus();
}

absl::StatusOr<Model> BlockBase::SaveAsModel(const std::string& name, const SaveAsModelOptions& options, Place place) const {
  std::shared_ptr<const SessionGraph> graph;
  std::vector<Variable> inputs;
  {
    std::lock_guard<std::mutex> lock(state_->mutex);
    graph = state_->last;
    inputs = state_->last_inputs;
  }
  if (graph == nullptr) {
    return absl::FailedPreconditionError(
        "SaveAsModel: the block has no graph yet; call Hybridize(), and then the block with a batch");
  }
  if (!options.inputs.empty() && options.inputs.size() != inputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("SaveAsModel: the block has ", inputs.size(), " inputs, and options.inputs names ", options.inputs.size()));
  }
  for (size_t i = 0; i < options.inputs.size(); ++i) {
    inputs[i].shape = options.inputs[i].shape;
    inputs[i].dtype = options.inputs[i].dtype;
  }
  return graph->SaveAsModel(name, inputs, options, place);
}

void BlockBase::Hybridize(bool active) const {
  Walk(state_, [active](const std::string&, BlockState& block) {
    std::lock_guard<std::mutex> lock(block.mutex);
    block.is_hybrid = active;
    block.graphs.clear();
  });
}

void BlockBase::AddChild(const std::string& name, const BlockBase& child) const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  state_->children.emplace_back(name, child.state_);
  state_->graphs.clear();
}

bool BlockBase::RunsAsGraph() const {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->is_hybrid;
}

bool BlockBase::HasDeferred() const {
  for (const auto& [name, parameter] : state_->params) {
    ParameterState& state = *parameter.state();
    std::lock_guard<std::mutex> lock(state.mutex);
    if (state.is_due && !state.data.is_defined()) return true;
  }
  return false;
}

std::vector<NDArray> BlockBase::RunGraph(const std::vector<NDArray>& inputs, const internal::Sizes& in,
                                         const internal::TraceForward& trace, internal::Sizes* out, Place place) const {
  const auto session = inputs.empty() ? SessionCore::Current() : SessionOf("the block", inputs);
  absl::StatusOr<std::shared_ptr<const SessionGraph>> graph = nullptr;
  size_t outputs = 1;
  if (session.ok()) {
    internal::Sizes form = in;
    form.push_back(inputs.size());
    std::unique_lock<std::mutex> lock(state_->mutex);
    const std::pair<SessionCore*, internal::Sizes> key = {session->get(), form};
    auto found = state_->graphs.find(key);
    if (found == state_->graphs.end()) {
      lock.unlock();
      BlockState::Traced traced = {absl::UnknownError(""), {}, 1};
      traced.graph = Traced(*session, inputs.size(), trace, &traced.out, &traced.outputs, place);
      lock.lock();
      found = state_->graphs.insert_or_assign(key, std::move(traced)).first;
    }
    graph = found->second.graph;
    outputs = found->second.outputs;
    *out = found->second.out;
  } else {  // The form of the outputs is still wanted.
    graph = session.status();
    outputs = trace(InputsFor(inputs.size()), out).size();
  }
  if (!graph.ok()) return std::vector<NDArray>(outputs, NDArray::Failed(graph.status(), place));
  NoteRun(*state_, *graph, inputs);
  return (*graph)->Run(inputs, place);
}

void BlockBase::Resolve(const std::vector<NDArray>& inputs, const internal::TraceForward& trace, Place place) const {
  const auto session = SessionOf("the block", inputs);
  if (!session.ok()) return;  // The call tells it.
  internal::Sizes out;
  size_t outputs;
  const auto graph = Traced(*session, inputs.size(), trace, &out, &outputs, place);
  const absl::Status status = graph.ok() ? (*graph)->Resolve(inputs, place) : graph.status();
  if (status.ok()) return;
  for (const auto& [name, parameter] : state_->params) {
    ParameterState& state = *parameter.state();
    std::lock_guard<std::mutex> lock(state.mutex);
    if (!state.data.is_defined()) state.data = NDArray::Failed(status, place);
  }
}

}  // namespace gluon

namespace nn {

Sequential::Sequential() : blocks_(std::make_shared<std::vector<gluon::AnyBlock>>()) {
  state()->tree = [blocks = std::weak_ptr(blocks_)]() -> absl::StatusOr<BlockTree> {
    BlockTree tree;
    tree.block = "HybridSequential";
    const auto held = blocks.lock();
    if (held == nullptr) return tree;
    for (const gluon::AnyBlock& block : *held) {
      GLUOND_ASSIGN_OR_RETURN(tree.children.emplace_back(), block.base().Tree());
    }
    return tree;
  };
}

Sequential::Sequential(std::initializer_list<gluon::AnyBlock> blocks) : Sequential() {
  for (const gluon::AnyBlock& block : blocks) Add(block);
}

void Sequential::Add(const gluon::AnyBlock& block) {
  AddChild(absl::StrCat(blocks_->size()), block.base());
  blocks_->push_back(block);
}

}  // namespace nn
}  // namespace gluond::client
