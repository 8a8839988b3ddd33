#include "gluond/client.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "client/cpp/connect.h"
#include "client/cpp/connection.h"
#include "client/cpp/gluon/graph.h"
#include "client/cpp/gluon/parameter_state.h"
#include "gluond/block.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace {

using Groups = v1::GroupService::Stub;
using Models = v1::ModelService::Stub;
using Operators = v1::OperatorService::Stub;
using Sessions = v1::SessionService::Stub;
using Training = v1::TrainingService::Stub;
using Serving = v1::ServingService::Stub;

// A larger chunk wins nothing, and costs memory on both sides.
constexpr int64_t kLargestChunk = 4 << 20;
constexpr int32_t kPageSize = 1000;

// All entries, page by page, of a method that lists them. `field` gives those of an answer.
template <class Entry, class Method, class Request, class Field>
absl::StatusOr<std::vector<Entry>> ListAll(Connection& connection, Method method, Request request, Field field,
                                           absl::Duration timeout) {
  std::vector<Entry> all;
  request.set_page_size(kPageSize);
  for (;;) {
    GLUOND_ASSIGN_OR_RETURN(const auto response, connection.Call(method, request, timeout));
    for (const auto& entry : field(response)) all.push_back(FromProto(entry));
    if (response.next_page_token().empty()) return all;
    request.set_page_token(response.next_page_token());
  }
}

template <class Request>
Request ForOperator(const std::string& op, const std::vector<Tensor>& inputs, const Attributes& attributes) {
  Request request;
  request.set_op(op);
  for (const Tensor& input : inputs) *request.add_inputs() = ToProto(input);
  Fill(attributes, request.mutable_attributes());
  return request;
}

// Sends `request`, which has the network, with the rest of the model.
absl::Status Define(Connection& connection, const std::string& name, v1::DefineModelRequest request,
                    const std::vector<Variable>& variables, const DefineOptions& options, absl::Duration timeout) {
  if (options.virtual_shards.has_value() && !options.group) {
    return absl::InvalidArgumentError("virtual_shards are the parts of a batch in a group of servers; set `group` as well");
  }
  request.set_model(name);
  for (const Variable& variable : variables) *request.add_variables() = ToProto(variable);
  request.set_device(options.device);
  request.set_seed(options.seed);
  request.set_replace(options.replace);
  if (options.ttl != absl::InfiniteDuration()) {
    request.mutable_ttl()->set_seconds(absl::ToInt64Seconds(options.ttl));
  }
  if (options.group) request.mutable_placement()->set_group(true);
  if (options.virtual_shards.has_value()) request.mutable_placement()->set_virtual_shards(*options.virtual_shards);
  return connection.Apply(&Models::DefineModel, std::move(request), timeout).status();
}

}  // namespace

Client::Client(std::shared_ptr<Connection> connection)
    : connection_(std::move(connection)), timeout_(connection_->options().timeout) {}

absl::StatusOr<Client> Client::Connect(const std::string& address, Options options) {
  GLUOND_ASSIGN_OR_RETURN(std::shared_ptr<grpc::Channel> channel, NewChannel(address, options.access));
  return Connect(std::make_shared<Connection>(address, std::move(options), std::move(channel)));
}

absl::StatusOr<Client> Connect(std::shared_ptr<grpc::Channel> channel, Options options) {
  return Client::Connect(std::make_shared<Connection>("the channel", std::move(options), std::move(channel)));
}

const std::shared_ptr<grpc::Channel>& ChannelOf(const Client& client) { return client.connection()->channel(); }

absl::StatusOr<Client> Client::Connect(std::shared_ptr<Connection> connection) {
  Client client(connection);
  GLUOND_ASSIGN_OR_RETURN(const auto server, client.GetServerInfo());
  GLUOND_RETURN_IF_ERROR(CheckServer(server));
  if (server.limits.max_chunk_bytes > 0) {
    connection->set_chunk_bytes(std::min<int64_t>(server.limits.max_chunk_bytes, kLargestChunk));
  }
  return client;
}

absl::Status CheckServer(const GetServerInfoResponse& server, uint32_t lowest) {
  const uint32_t protocol = std::max<uint32_t>(server.protocol, 1);
  if (protocol >= lowest) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the server is too old: gluond ", server.version, " speaks protocol ", protocol,
                                                    ", and this client, gluond ", kRelease, ", needs ", lowest,
                                                    " or newer; start a newer server, or use the client of the server's release"));
}

Client Client::WithTimeout(absl::Duration timeout) const {
  Client client = *this;
  client.timeout_ = timeout;
  return client;
}

absl::StatusOr<Model> Client::DefineModel(const std::string& name, const gluon::BlockBase& block,
                                          const std::vector<Variable>& variables, const DefineOptions& options) const {
  GLUOND_ASSIGN_OR_RETURN(const BlockTree tree, block.Tree());
  return DefineModel(name, tree, variables, options);
}

absl::StatusOr<Model> Client::DefineModel(const std::string& name, absl::Span<const Symbol> outputs,
                                          const std::vector<Variable>& variables, const DefineOptions& options) const {
  GLUOND_ASSIGN_OR_RETURN(MadeGraph made, MakeGraph({}, outputs, /*is_open=*/true));
  v1::DefineModelRequest request;
  *request.mutable_graph() = std::move(made.graph);
  std::vector<Variable> all = variables;
  for (const auto& [path, parameter] : made.parameters) all.push_back(DescribeParameter(*parameter, path));
  GLUOND_RETURN_IF_ERROR(Define(*connection_, name, std::move(request), all, options, timeout_));
  return GetModel(name);
}

absl::StatusOr<Model> Client::DefineModel(const std::string& name, const BlockTree& block, const std::vector<Variable>& variables,
                                          const DefineOptions& options) const {
  v1::DefineModelRequest request;
  *request.mutable_block() = ToProto(block);
  GLUOND_RETURN_IF_ERROR(Define(*connection_, name, std::move(request), variables, options, timeout_));
  return GetModel(name);
}

absl::StatusOr<Model> Client::DefineModel(const std::string& name, const Graph& graph, const std::vector<Variable>& variables,
                                          const DefineOptions& options) const {
  v1::DefineModelRequest request;
  *request.mutable_graph() = ToProto(graph);
  GLUOND_RETURN_IF_ERROR(Define(*connection_, name, std::move(request), variables, options, timeout_));
  return GetModel(name);
}

Model Client::GetModel(std::string name) const { return Model(connection_, std::move(name)); }

absl::StatusOr<std::vector<ModelDescription>> Client::ListModels() const {
  return ListAll<ModelDescription>(
      *connection_, &Models::ListModels, v1::ListModelsRequest(), [](const auto& page) -> const auto& { return page.models(); },
      timeout_);
}

absl::StatusOr<Model> Client::LoadCheckpoint(const std::string& checkpoint, const std::string& model,
                                             const LoadOptions& options) const {
  v1::LoadCheckpointRequest request;
  request.set_checkpoint(checkpoint);
  request.set_model(model);
  request.set_replace(options.replace);
  request.set_parameters_only(options.parameters_only);
  request.set_device(options.device);
  GLUOND_RETURN_IF_ERROR(connection_->Apply(&Models::LoadCheckpoint, std::move(request), timeout_).status());
  return GetModel(model);
}

absl::StatusOr<std::vector<Checkpoint>> Client::ListCheckpoints() const {
  return ListAll<Checkpoint>(
      *connection_, &Models::ListCheckpoints, v1::ListCheckpointsRequest(),
      [](const auto& page) -> const auto& { return page.checkpoints(); }, timeout_);
}

absl::StatusOr<ExplainResponse> Client::Explain(const ExplainRequest& request) const {
  return Described(connection_->Call(&Models::Explain, ToProto(request), timeout_));
}

absl::Status Client::DeleteCheckpoint(const std::string& checkpoint) const {
  v1::DeleteCheckpointRequest request;
  request.set_checkpoint(checkpoint);
  return connection_->Delete(&Models::DeleteCheckpoint, request, timeout_);
}

absl::StatusOr<std::vector<ServedVersion>> Client::ListVersions(const std::string& served) const {
  v1::ListVersionsRequest request;
  request.set_served(served);
  return ListAll<ServedVersion>(
      *connection_, &Serving::ListVersions, request, [](const auto& page) -> const auto& { return page.versions(); }, timeout_);
}

absl::StatusOr<std::vector<ServedVersion>> Client::RouteVersions(const RouteVersionsRequest& routes) const {
  GLUOND_ASSIGN_OR_RETURN(const auto response, connection_->Call(&Serving::RouteVersions, ToProto(routes), timeout_));
  std::vector<ServedVersion> versions;
  for (const auto& version : response.versions()) versions.push_back(FromProto(version));
  return versions;
}

absl::Status Client::RetireVersion(const std::string& served, int64_t version) const {
  v1::RetireVersionRequest request;
  request.set_served(served);
  request.set_version(version);
  return connection_->Delete(&Serving::RetireVersion, request, timeout_);
}

absl::StatusOr<std::vector<Dataset>> Client::ListDatasets() const {
  return ListAll<Dataset>(
      *connection_, &Training::ListDatasets, v1::ListDatasetsRequest(),
      [](const auto& page) -> const auto& { return page.datasets(); }, timeout_);
}

absl::Status Client::DeleteDataset(const std::string& name) const {
  v1::DeleteDatasetRequest request;
  request.set_dataset(name);
  return connection_->Delete(&Training::DeleteDataset, request, timeout_);
}

absl::StatusOr<std::vector<SavedSession>> Client::ListSavedSessions() const {
  return ListAll<SavedSession>(
      *connection_, &Sessions::ListSavedSessions, v1::ListSavedSessionsRequest(),
      [](const auto& page) -> const auto& { return page.sessions(); }, timeout_);
}

absl::StatusOr<std::vector<Tensor>> Client::Invoke(const std::string& op, std::vector<Tensor> inputs, const Attributes& attributes,
                                                   const InvokeOptions& options) const {
  auto request = ForOperator<v1::InvokeRequest>(op, std::move(inputs), attributes);
  request.set_encoding(v1::Tensor::RAW);
  request.set_training(options.training);
  request.set_seed(options.seed);
  request.set_device(options.device);
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Call(&Operators::Invoke, request, timeout_));
  std::vector<Tensor> outputs;
  for (v1::Tensor& proto : *response.mutable_outputs()) {
    GLUOND_ASSIGN_OR_RETURN(outputs.emplace_back(), FromProto(std::move(proto)));
  }
  return outputs;
}

absl::StatusOr<std::vector<Operator>> Client::ListOperators(const std::string& contains, bool full) const {
  v1::ListOperatorsRequest request;
  request.set_contains(contains);
  request.set_full(full);
  return ListAll<Operator>(
      *connection_, &Operators::ListOperators, request, [](const auto& page) -> const auto& { return page.operators(); }, timeout_);
}

absl::StatusOr<Operator> Client::DescribeOperator(const std::string& op) const {
  v1::DescribeOperatorRequest request;
  request.set_op(op);
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Call(&Operators::DescribeOperator, request, timeout_));
  return FromProto(response.operator_());
}

absl::StatusOr<CheckGradientResponse> Client::CheckGradient(const std::string& op, std::vector<Tensor> inputs,
                                                            const Attributes& attributes) const {
  return Described(connection_->Call(&Operators::CheckGradient,
                                     ForOperator<v1::CheckGradientRequest>(op, std::move(inputs), attributes), timeout_));
}

absl::StatusOr<GetServerInfoResponse> Client::GetServerInfo() const {
  return Described(connection_->Call(&v1::ServerService::Stub::GetServerInfo, v1::GetServerInfoRequest(), timeout_));
}

absl::StatusOr<GetGroupResponse> Client::GetGroup() const {
  return Described(connection_->Call(&Groups::GetGroup, v1::GetGroupRequest(), timeout_));
}

absl::Status Client::DrainMember(int64_t member) const {
  v1::DrainMemberRequest request;
  request.set_member(member);
  return connection_->Delete(&Groups::DrainMember, request, timeout_);
}

}  // namespace gluond::client
