#include "client/cpp/gluon/graph.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/gluon/parameter_state.h"
#include "client/cpp/gluon/symbol_node.h"
#include "client/cpp/session/mode.h"
#include "client/cpp/session/pipeline.h"
#include "client/cpp/session/transfer.h"
#include "client/cpp/session/wire.h"
#include "client/cpp/tensor_message.h"
#include "client/cpp/type_messages.h"
#include "client/cpp/value_message.h"
#include "gluond/status_macros.h"
#include "gluond/v1/command.pb.h"

namespace gluond::client {
namespace {

// Makes a graph's nodes in topological order, without recursion: graphs may be deep.
class GraphMaker {
 public:
  // is_open: takes other variables for inputs, too.
  GraphMaker(absl::Span<const Symbol> inputs, bool is_open) : is_open_(is_open) {
    for (const Symbol& input : inputs) {
      names_[input.node().get()] = input.node()->name;
      used_[input.node()->name] = 1;
      made_.inputs.push_back(input.node()->name);
    }
  }

  absl::Status Add(const Symbol& output) {
    std::vector<std::pair<const SymbolNode*, size_t>> path = {{output.node().get(), 0}};
    while (!path.empty()) {
      auto& [node, next] = path.back();
      if (names_.contains(node)) {
        path.pop_back();
      } else if (next < node->inputs.size()) {
        path.emplace_back(node->inputs[next++].node().get(), 0);
      } else {
        const SymbolNode* const complete = node;
        path.pop_back();
        GLUOND_RETURN_IF_ERROR(complete->op.empty() ? AddVariable(*complete) : AddCall(*complete));
      }
    }
    *made_.graph.add_outputs() = Reference(output);
    return absl::OkStatus();
  }

  MadeGraph Take() && { return std::move(made_); }

 private:
  std::string Unique(const std::string& hint) {
    const int count = used_[hint]++;
    return count == 0 ? hint : absl::StrCat(hint, "_", count);
  }

  std::string Reference(const Symbol& symbol) const {
    const std::string& name = names_.at(symbol.node().get());
    return symbol.output() == 0 ? name : absl::StrCat(name, ":", symbol.output());
  }

  absl::Status AddVariable(const SymbolNode& node) {
    GLUOND_RETURN_IF_ERROR(node.error);
    if (node.parameter == nullptr && is_open_) {
      names_[&node] = node.name;  // Two of one name are one input.
      if (used_[node.name]++ == 0) made_.inputs.push_back(node.name);
      return absl::OkStatus();
    }
    if (node.parameter == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("the graph reads the variable '", node.name, "', which is neither an input nor a parameter"));
    }
    // Several symbols may stand for one parameter.
    const auto [known, is_new] = parameters_.try_emplace(node.parameter.get());
    if (is_new) {
      std::lock_guard<std::mutex> lock(node.parameter->mutex);
      known->second = Unique(node.parameter->path);
      made_.parameters.emplace_back(known->second, node.parameter);
    }
    names_[&node] = known->second;
    return absl::OkStatus();
  }

  absl::Status AddCall(const SymbolNode& node) {
    GLUOND_RETURN_IF_ERROR(node.error);
    std::string hint = absl::AsciiStrToLower(node.op);
    hint.erase(0, std::min(hint.find_first_not_of('_'), hint.size() - 1));
    v1::Node& proto = *made_.graph.add_nodes();
    const int count = calls_[hint]++;
    proto.set_name(Unique(absl::StrCat(hint, count)));
    proto.set_op(node.op);
    Fill(node.attributes, proto.mutable_attributes());
    for (const Symbol& input : node.inputs) proto.add_inputs(Reference(input));
    if (node.custom != nullptr) *proto.mutable_custom() = *node.custom;
    names_[&node] = proto.name();
    return absl::OkStatus();
  }

  const bool is_open_;
  MadeGraph made_;
  absl::flat_hash_map<const SymbolNode*, std::string> names_;
  absl::flat_hash_map<const ParameterState*, std::string> parameters_;
  absl::flat_hash_map<std::string, int> used_, calls_;
};

}  // namespace

absl::StatusOr<MadeGraph> MakeGraph(absl::Span<const Symbol> inputs, absl::Span<const Symbol> outputs, bool is_open) {
  if (outputs.empty()) return absl::InvalidArgumentError("the graph has no output");
  GraphMaker maker(inputs, is_open);
  for (const Symbol& output : outputs) {
    if (!output.is_defined()) return absl::InvalidArgumentError("an output of the graph is a symbol that is not defined");
    GLUOND_RETURN_IF_ERROR(maker.Add(output));
  }
  return std::move(maker).Take();
}

absl::StatusOr<std::shared_ptr<const SessionGraph>> SessionGraph::Define(std::shared_ptr<SessionCore> session, MadeGraph graph,
                                                                         Place place) {
  std::shared_ptr<SessionGraph> made(new SessionGraph(session, session->NewCall()));
  made->outputs_ = graph.graph.outputs_size();
  v1::Command::DefineGraph define;
  define.set_graph(made->name_);
  *define.mutable_definition() = std::move(graph.graph);
  made->variables_ = std::move(graph.inputs);
  for (auto& [name, parameter] : graph.parameters) {
    define.add_parameters(static_cast<uint32_t>(made->variables_.size()));
    made->variables_.push_back(name);
    made->parameters_.push_back(std::move(parameter));
  }
  for (const std::string& name : made->variables_) define.add_inputs(name);
  GLUOND_RETURN_IF_ERROR(session->pipeline().Submit(CommandOf(v1::Command::kDefineGraphFieldNumber, define), place));
  return made;
}

SessionGraph::~SessionGraph() { session_->pipeline().FreeGraph(name_); }

std::vector<NDArray> SessionGraph::Run(absl::Span<const NDArray> inputs, Place place) const {
  using v1::Command;
  const auto failed = [&](const absl::Status& error) {
    return std::vector<NDArray>(static_cast<size_t>(outputs_), NDArray::Failed(error, place));
  };
  std::vector<NDArray> all(inputs.begin(), inputs.end());
  all.reserve(variables_.size());
  bool has_values = true;
  const auto add_parameters = [&] {
    all.resize(inputs.size());
    has_values = true;
    for (const std::shared_ptr<ParameterState>& parameter : parameters_) {
      std::lock_guard<std::mutex> lock(parameter->mutex);
      has_values = has_values && parameter->data.is_defined();
      all.push_back(parameter->data);
    }
  };
  add_parameters();
  if (!has_values) {
    const absl::Status resolved = Resolve(inputs, place);
    if (!resolved.ok()) return failed(resolved);
    add_parameters();
  }
  const auto session = SessionOf("the block", all);
  if (!session.ok()) return failed(session.status());
  thread_local std::string message, packed, command;
  message.clear(), command.clear(), packed.clear();
  AppendNumber(Command::RunGraph::kGraphFieldNumber, name_, &message);
  for (const NDArray& array : all) AppendVarint(array.state()->name, &packed);
  AppendBytes(Command::RunGraph::kInputsFieldNumber, packed, &message);
  std::vector<NDArray> outputs;
  outputs.reserve(static_cast<size_t>(outputs_));
  packed.clear();
  for (int i = 0; i < outputs_; ++i) {
    outputs.push_back(NewArray(session_));
    outputs.back().state()->is_recorded = mode_of_thread.recording;
    AppendVarint(outputs.back().state()->name, &packed);
  }
  AppendBytes(Command::RunGraph::kOutputsFieldNumber, packed, &message);
  if (mode_of_thread.recording) AppendNumber(Command::RunGraph::kRecordingFieldNumber, 1, &message);
  if (mode_of_thread.training) AppendNumber(Command::RunGraph::kTrainingFieldNumber, 1, &message);
  AppendBytes(Command::kRunGraphFieldNumber, message, &command);
  // The server computes while the program gives more commands.
  const absl::Status status = session_->pipeline().Submit(command, place, /*hurries=*/true);
  return status.ok() ? outputs : failed(status);
}

absl::StatusOr<Model> SessionGraph::SaveAsModel(const std::string& name, const std::vector<Variable>& inputs,
                                                const gluon::SaveAsModelOptions& options, Place place) const {
  v1::Command::SaveAsModel save;
  save.set_model(name);
  save.set_replace(options.replace);
  save.set_graph(name_);
  save.set_device(options.device);
  save.set_seed(options.seed);
  for (const Variable& input : inputs) *save.add_inputs() = ToProto(input);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const gluon::Parameter parameter(parameters_[i]);
    const NDArray value = parameter.data(place);
    GLUOND_RETURN_IF_ERROR(SessionOf("SaveAsModel", {value}).status());
    v1::Command::SaveAsModel::Member& member = *save.add_parameters();
    Variable variable = DescribeParameter(*parameters_[i], variables_[inputs.size() + i]);
    variable.initializer.reset();
    *member.mutable_variable() = ToProto(variable);
    member.set_array(value.state()->name);
  }
  GLUOND_RETURN_IF_ERROR(session_->pipeline().Request(CommandOf(v1::Command::kSaveAsModelFieldNumber, save), place).status());
  GLUOND_ASSIGN_OR_RETURN(const Client client, session_->client());
  return client.GetModel(name);
}

absl::Status SessionGraph::Resolve(absl::Span<const NDArray> inputs, Place place) const {
  std::vector<std::shared_ptr<ParameterState>> without;
  bool are_known = true;
  v1::Command::InferGraph infer;
  infer.set_graph(name_);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    ParameterState& parameter = *parameters_[i];
    std::lock_guard<std::mutex> lock(parameter.mutex);
    v1::ArrayType& type = (*infer.mutable_known())[variables_[inputs.size() + i]];
    type.set_dtype(ToProto(parameter.options.dtype));
    type.set_has_shape(!parameter.options.shape.empty());
    for (const int64_t size : parameter.options.shape) type.add_shape(size > 0 ? size : -1);
    if (parameter.data.is_defined()) continue;
    if (!parameter.is_due) {
      return absl::FailedPreconditionError(
          absl::StrCat("the parameter '", parameter.path, "' has no value: call Initialize of its block, or SetData, before"));
    }
    without.push_back(parameters_[i]);
    are_known = are_known && IsKnown(parameter.options.shape);
  }
  if (!are_known) {
    for (size_t i = 0; i < inputs.size(); ++i) {
      GLUOND_ASSIGN_OR_RETURN(const Shape shape, inputs[i].shape(place));
      GLUOND_ASSIGN_OR_RETURN(const DType dtype, inputs[i].dtype(place));
      v1::ArrayType& type = (*infer.mutable_known())[variables_[i]];
      type.set_has_shape(true);
      type.set_dtype(ToProto(dtype));
      for (const int64_t size : shape) type.add_shape(size);
    }
    GLUOND_ASSIGN_OR_RETURN(const v1::Reply reply,
                            session_->pipeline().Request(CommandOf(v1::Command::kInferGraphFieldNumber, infer), place));
    if (static_cast<size_t>(reply.graph().inputs_size()) != variables_.size()) {
      return absl::InternalError("the server's answer has another number of variables; is it of another release?");
    }
    for (size_t i = 0; i < parameters_.size(); ++i) {
      std::lock_guard<std::mutex> lock(parameters_[i]->mutex);
      const v1::ArrayType& type = reply.graph().inputs(static_cast<int>(inputs.size() + i));
      parameters_[i]->options.shape.assign(type.shape().begin(), type.shape().end());
    }
  }
  return Begin(*session_, without, place);
}

}  // namespace gluond::client
