#include "gluond/layer.h"

#include <map>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/gluon/block_state.h"
#include "client/cpp/gluon/parameter_state.h"
#include "client/cpp/gluon/symbol_node.h"
#include "client/cpp/session/core.h"
#include "client/cpp/session/wire.h"
#include "client/cpp/tensor_message.h"
#include "client/cpp/type_messages.h"
#include "client/cpp/value_message.h"
#include "gluond/status_macros.h"
#include "gluond/v1/command.pb.h"
#include "gluond/v1/session.pb.h"

namespace gluond::client {

struct LayerState {
  v1::Command::Expand expand;
  BlockTree tree;
  Component loss;
  std::vector<const char*> inputs;  // Names of the variables.
  absl::Status error;               // A block within is none of the server's.

  std::mutex mutex;
  std::shared_ptr<const v1::Expansion> expansion;  // Guarded by mutex. Null: not asked for yet.
};

namespace {

// The server's operator of whole sequences, and its inputs before the states: a sequence and the parameters.
constexpr char kRecurrent[] = "RNN";
constexpr size_t kBeforeStates = 2;

std::shared_ptr<LayerState> LayerOf(BlockTree tree) {
  auto layer = std::make_shared<LayerState>();
  *layer->expand.mutable_block() = ToProto(tree);
  layer->tree = std::move(tree);
  layer->inputs = {"data"};
  return layer;
}

// The server's answer, which is the same for all layers of one kind.
absl::StatusOr<std::shared_ptr<const v1::Expansion>> ExpansionOf(LayerState& layer, Place place) {
  std::lock_guard<std::mutex> lock(layer.mutex);
  GLUOND_RETURN_IF_ERROR(layer.error);
  if (layer.expansion != nullptr) return layer.expansion;
  GLUOND_ASSIGN_OR_RETURN(const std::shared_ptr<SessionCore> session, SessionCore::Current());
  GLUOND_ASSIGN_OR_RETURN(layer.expansion, session->Expand(layer.expand.SerializeAsString(), place));
  return layer.expansion;
}

// Makes the block's parameters as the server describes them.
absl::Status MakeParameters(LayerState& layer, BlockState& block, Place place) {
  GLUOND_ASSIGN_OR_RETURN(const auto expansion, ExpansionOf(layer, place));
  std::lock_guard<std::mutex> lock(block.mutex);
  for (const v1::Variable& variable : expansion->parameters()) {
    if (block.params.Find(variable.name()).is_defined()) continue;
    gluon::ParameterOptions options;
    for (const int64_t size : variable.shape()) options.shape.push_back(std::max<int64_t>(size, 0));
    if (variable.has_dtype()) options.dtype = FromProto(variable.dtype());
    options.initializer = FromProto(variable.initializer());
    if (variable.has_grad_req()) options.grad_req = static_cast<GradReq>(variable.grad_req());
    if (variable.has_lr_mult()) options.lr_mult = variable.lr_mult();
    if (variable.has_wd_mult()) options.wd_mult = variable.wd_mult();
    block.params.Get(variable.name(), std::move(options)).state()->is_auxiliary = variable.kind() == v1::Variable::AUXILIARY;
  }
  return absl::OkStatus();
}

}  // namespace

namespace gluon {

Layer::Layer(const std::string& block, const Attributes& attributes, const std::vector<BlockBase>& children)
    : Layer([&] {
        BlockTree tree;
        tree.block = block;
        tree.attributes = attributes;
        absl::Status error;
        for (const BlockBase& child : children) {
          absl::StatusOr<BlockTree> within = child.Tree();
          if (within.ok()) tree.children.push_back(*std::move(within));
          error.Update(within.status());
        }
        std::shared_ptr<LayerState> layer = LayerOf(std::move(tree));
        layer->error = std::move(error);
        return layer;
      }()) {}

Layer::Layer(const BlockTree& tree) : Layer(LayerOf(tree)) {}

Layer::Layer(std::shared_ptr<LayerState> layer) : layer_(std::move(layer)) {
  BlockState* const block = state().get();
  if (layer_->loss.name.empty()) {
    block->tree = [layer = layer_]() -> absl::StatusOr<BlockTree> {
      GLUOND_RETURN_IF_ERROR(layer->error);
      return layer->tree;
    };
  }
  block->prepare = [layer = layer_, block] { return MakeParameters(*layer, *block, Place{}); };
}

const BlockTree& Layer::tree() const { return layer_->tree; }

void Layer::Share(const Layer& other) {
  const ParameterDict shared = other.params();
  std::lock_guard<std::mutex> lock(state()->mutex);
  state()->params = shared;
  state()->graphs.clear();
}

Symbol Layer::Call(const std::vector<Symbol>& inputs, Place place) const { return Trace(inputs, {}, place)[0]; }

std::vector<Symbol> Layer::Trace(const std::vector<Symbol>& inputs, absl::Span<const Symbol> states, Place place) const {
  const auto failed = [&](const absl::Status& status) {
    return std::vector<Symbol>(1 + states.size(), Symbol::Failed(status, place));
  };
  const auto expansion = ExpansionOf(*layer_, place);
  if (!expansion.ok()) return failed(expansion.status());
  const absl::Status status = MakeParameters(*layer_, *state(), place);
  if (!status.ok()) return failed(status);
  absl::flat_hash_map<absl::string_view, std::shared_ptr<const SymbolNode>> nodes;
  const auto is_defined = [](const Symbol& symbol) { return symbol.is_defined(); };
  if (!absl::c_all_of(inputs, is_defined) || !absl::c_all_of(states, is_defined)) {
    return failed(absl::InvalidArgumentError("a layer was called with a symbol that is not defined"));
  }
  std::map<absl::string_view, Symbol> variables;
  for (size_t i = 0; i < inputs.size(); ++i) variables[layer_->inputs[i]] = inputs[i];
  for (const auto& [name, parameter] : state()->params) variables[name] = parameter.Var();
  const auto find = [&](absl::string_view reference) {
    const size_t colon = reference.rfind(':');
    int output = 0;
    if (colon != absl::string_view::npos && absl::SimpleAtoi(reference.substr(colon + 1), &output))
      reference = reference.substr(0, colon);
    if (const auto node = nodes.find(reference); node != nodes.end()) return Symbol(node->second, output);
    const auto variable = variables.find(reference);
    return variable != variables.end()
               ? variable->second
               : Symbol::Failed(
                     absl::InternalError(absl::StrCat("the server's layer reads '", reference, "', which it does not describe")),
                     place);
  };
  std::vector<Symbol> outputs(1);
  for (const v1::Node& proto : (*expansion)->graph().nodes()) {
    auto node = std::make_shared<SymbolNode>();
    node->op = proto.op();
    node->attributes = FromProto(proto.attributes());
    node->place = place;
    for (const std::string& input : proto.inputs()) node->inputs.push_back(find(input));
    if (proto.has_custom()) node->custom = std::make_shared<v1::CustomOperatorSpec>(proto.custom());
    if (!states.empty() && proto.op() == kRecurrent) {
      const size_t count = node->inputs.size() - kBeforeStates;
      if (states.size() != count) {
        return failed(absl::InvalidArgumentError(
            absl::StrCat(layer_->tree.block, " has ", count, " recurrent state(s), got ", states.size())));
      }
      node->inputs.resize(kBeforeStates);
      node->inputs.insert(node->inputs.end(), states.begin(), states.end());
      node->attributes.emplace_back("state_outputs", true);
      for (size_t i = 0; i < count; ++i) outputs.emplace_back(node, static_cast<int>(1 + i));
    }
    nodes[proto.name()] = std::move(node);
  }
  if ((*expansion)->graph().outputs().empty()) return failed(absl::InternalError("the server's layer has no output"));
  outputs[0] = find((*expansion)->graph().outputs(0));
  return outputs;
}

NDArray Layer::Call(const std::vector<NDArray>& inputs, Place place) const {
  const internal::TraceForward trace = [this, place](const std::vector<Symbol>& symbols, internal::Sizes*) {
    return std::vector<Symbol>{Call(symbols, place)};
  };
  internal::Sizes out;
  return RunGraph(inputs, {}, trace, &out, place)[0];
}

std::pair<NDArray, std::vector<NDArray>> RecurrentLayer::operator()(const NDArray& x, const std::vector<NDArray>& states,
                                                                    Place place) const {
  const internal::TraceForward trace = [this, place](const std::vector<Symbol>& symbols, internal::Sizes*) {
    return Trace({symbols[0]}, absl::MakeConstSpan(symbols).subspan(1), place);
  };
  std::vector<NDArray> inputs = {x};
  inputs.insert(inputs.end(), states.begin(), states.end());
  internal::Sizes out;
  std::vector<NDArray> outputs = RunGraph(inputs, {states.size()}, trace, &out, place);
  return {outputs[0], {outputs.begin() + 1, outputs.end()}};
}

std::pair<Symbol, std::vector<Symbol>> RecurrentLayer::operator()(const Symbol& x, const std::vector<Symbol>& states,
                                                                  Place place) const {
  const std::vector<Symbol> outputs = Trace({x}, states, place);
  return {outputs[0], {outputs.begin() + 1, outputs.end()}};
}

std::vector<NDArray> RecurrentLayer::BeginState(int64_t samples, const ArrayOptions& options, Place place) const {
  const auto expansion = ExpansionOf(*layer_, place);
  if (!expansion.ok()) return {NDArray::Failed(expansion.status(), place)};
  for (const v1::Node& node : (*expansion)->graph().nodes()) {
    if (node.op() != kRecurrent) continue;
    const Attributes attributes = FromProto(node.attributes());
    const auto number = [&attributes](const char* name) {
      const Value* const value = Find(attributes, name);
      const double* const number = value == nullptr ? nullptr : std::get_if<double>(&value->is);
      return number == nullptr ? 0 : static_cast<int64_t>(*number);
    };
    const Value* const both = Find(attributes, "bidirectional");
    const int64_t directions = both != nullptr && *both == Value(true) ? 2 : 1;
    const Shape shape = {directions * number("num_layers"), samples, number("state_size")};
    const auto count = static_cast<size_t>(node.inputs_size()) - kBeforeStates;
    std::vector<NDArray> states;
    for (size_t i = 0; i < count; ++i) states.push_back(NDArray::Zeros(shape, options, place));
    return states;
  }
  return {
      NDArray::Failed(absl::InternalError(absl::StrCat("the server's ", layer_->tree.block, " has no recurrent operator")), place)};
}

Loss::Loss(const Component& loss, bool weighted)
    : Layer([&] {
        auto layer = std::make_shared<LayerState>();
        layer->loss = loss;
        v1::Component& component = *layer->expand.mutable_loss();
        component.set_name(loss.name);
        Fill(loss.attributes, component.mutable_attributes());
        layer->expand.set_weighted(weighted);
        layer->inputs = {"prediction", "label", "sample_weight"};
        return layer;
      }()) {}

Loss::Loss(const std::string& loss, const Attributes& attributes) : Loss(Named(loss, attributes), false) {
  weighted_ = std::shared_ptr<Loss>(new Loss(Named(loss, attributes), true));
}

NDArray Loss::operator()(const NDArray& prediction, const NDArray& label, const NDArray& sample_weight, Place place) const {
  if (sample_weight.is_defined()) return weighted_->Call(std::vector<NDArray>{prediction, label, sample_weight}, place);
  return Call(std::vector<NDArray>{prediction, label}, place);
}

Symbol Loss::operator()(const Symbol& prediction, const Symbol& label, const Symbol& sample_weight, Place place) const {
  if (sample_weight.is_defined()) return weighted_->Call(std::vector<Symbol>{prediction, label, sample_weight}, place);
  return Call(std::vector<Symbol>{prediction, label}, place);
}

const Component& Loss::component() const { return layer_->loss; }

}  // namespace gluon
}  // namespace gluond::client
