// Client is a typed connection to a gluond server. Copies share the connection; thread-safe.
//
//   const Client client = Client::Connect("127.0.0.1:50051").value();  // Each call gives an absl::Status or StatusOr.
//   const nn::Sequential net = {nn::Dense({.units = 64}), nn::Dense({.units = 10})};
//   const Model model = client.DefineModel("mlp", net, {Input("data", {-1, 784})}).value();
//   absl::Status status = model.Initialize(Named("Xavier"));
//   status.Update(model.CreateTrainer({.loss = Named("SoftmaxCrossEntropyLoss")}).status());
//   const auto report = model.TrainStep({{"data", images}, {"label", labels}});
//
// deploy/examples/cpp has a whole program.
//
// Errors are the server's own words. UNAVAILABLE: there is no server, or it stayed away longer than Options::retry_for.
// DEADLINE_EXCEEDED: the call took longer than its timeout; it may have been applied.

#ifndef GLUOND_CLIENT_H_
#define GLUOND_CLIENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "gluond/error.h"
#include "gluond/export.h"
#include "gluond/model.h"
#include "gluond/network.h"
#include "gluond/options.h"
#include "gluond/tensor.h"
#include "gluond/types.h"
#include "gluond/version.h"

namespace gluond::client {

class Symbol;

namespace gluon {
class BlockBase;
}

// The oldest protocol that a server may speak (GetServerInfoResponse.protocol; one that tells none speaks 1).
inline constexpr uint32_t kLowestProtocol = 2;

// FAILED_PRECONDITION: the server is too old for this client; says what to do.
GLUOND_EXPORT absl::Status CheckServer(const GetServerInfoResponse& server, uint32_t lowest = kLowestProtocol);

struct DefineOptions {
  std::string device = "";  // Default: the server's first.
  uint64_t seed = 0;
  absl::Duration ttl = absl::InfiniteDuration();  // Without a call for so long, the model is deleted.
  bool replace = false;
  bool group = false;  // Trained by all servers of the group that this one leads.
  // The parts into which the rows of a batch are cut, a power of two; equal numbers give equal bits. Only with `group`.
  std::optional<int64_t> virtual_shards = {};
};

struct InvokeOptions {
  bool training = false;
  uint64_t seed = 0;
  std::string device = "";
};

struct LoadOptions {
  bool replace = false;
  bool parameters_only = false;
  std::string device = "";
};

// A column of a dataset. Rows leave it as x * scale + shift, in the dtype of the input that they feed.
struct DatasetColumn {
  std::string name;
  Tensor values;
  std::optional<double> scale = {};
  std::optional<double> shift = {};
};

class GLUOND_EXPORT Client {
 public:
  // Connects and asks for the server's limits. UNAVAILABLE: nobody answers at host:port.
  // FAILED_PRECONDITION: as CheckServer.
  static absl::StatusOr<Client> Connect(const std::string& address, Options options = {});

  // For the library itself: the same over a connection that is made already.
  static absl::StatusOr<Client> Connect(std::shared_ptr<Connection> connection);

  // The same client, with another deadline for each call. Models keep the one that they have.
  Client WithTimeout(absl::Duration timeout) const;

  // A network of the server's layers and of nn::Sequential. INVALID_ARGUMENT: another block is in it, whose Forward is this
  // program's: trace it (Symbol), or save it from a session (BlockBase::SaveAsModel).
  absl::StatusOr<Model> DefineModel(const std::string& name, const gluon::BlockBase& block,
                                    const std::vector<Variable>& variables = {}, const DefineOptions& options = {}) const;
  // The network whose outputs these symbols are. Its parameters have their paths as names, and the initializers of theirs.
  absl::StatusOr<Model> DefineModel(const std::string& name, absl::Span<const Symbol> outputs,
                                    const std::vector<Variable>& variables = {}, const DefineOptions& options = {}) const;
  // The same as the server is told it.
  absl::StatusOr<Model> DefineModel(const std::string& name, const BlockTree& block, const std::vector<Variable>& variables = {},
                                    const DefineOptions& options = {}) const;
  absl::StatusOr<Model> DefineModel(const std::string& name, const Graph& graph, const std::vector<Variable>& variables = {},
                                    const DefineOptions& options = {}) const;

  // A view of a model that exists already. Asks nothing: the model's first call says whether it exists.
  Model GetModel(std::string name) const;
  absl::StatusOr<std::vector<ModelDescription>> ListModels() const;
  // The program to which a model, or a published version, is compiled.
  absl::StatusOr<ExplainResponse> Explain(const ExplainRequest& request) const;

  absl::StatusOr<Model> LoadCheckpoint(const std::string& checkpoint, const std::string& model,
                                       const LoadOptions& options = {}) const;
  absl::StatusOr<std::vector<Checkpoint>> ListCheckpoints() const;
  absl::Status DeleteCheckpoint(const std::string& checkpoint) const;

  // Uploads and commits. Goes on where an upload by the same client_id stopped. Where the server
  // has the same columns already, checksums included, it does nothing; ALREADY_EXISTS: it has
  // others.
  absl::Status UploadDataset(const std::string& name, const std::vector<DatasetColumn>& columns) const;
  absl::StatusOr<std::vector<Dataset>> ListDatasets() const;
  absl::Status DeleteDataset(const std::string& name) const;

  // The saves of sessions: those of Python programs, for the most part.
  absl::StatusOr<std::vector<SavedSession>> ListSavedSessions() const;

  // Published versions of models (Model::Publish): of the name `served`, or of all.
  absl::StatusOr<std::vector<ServedVersion>> ListVersions(const std::string& served = "") const;
  // Gives labels to versions, and each its part of the requests. Returns the name's versions.
  absl::StatusOr<std::vector<ServedVersion>> RouteVersions(const RouteVersionsRequest& routes) const;
  // Ends a version for good, when its last request is answered.
  absl::Status RetireVersion(const std::string& served, int64_t version) const;

  absl::StatusOr<std::vector<Tensor>> Invoke(const std::string& op, std::vector<Tensor> inputs, const Attributes& attributes = {},
                                             const InvokeOptions& options = {}) const;
  absl::StatusOr<std::vector<Operator>> ListOperators(const std::string& contains = "", bool full = false) const;
  absl::StatusOr<Operator> DescribeOperator(const std::string& op) const;
  absl::StatusOr<CheckGradientResponse> CheckGradient(const std::string& op, std::vector<Tensor> inputs,
                                                      const Attributes& attributes = {}) const;

  absl::StatusOr<GetServerInfoResponse> GetServerInfo() const;

  // The group that the server leads. FAILED_PRECONDITION: it leads none.
  absl::StatusOr<GetGroupResponse> GetGroup() const;
  // Lets a member (GroupMember.member) leave between two steps. NOT_FOUND: there is no such member.
  absl::Status DrainMember(int64_t member) const;

  const std::shared_ptr<Connection>& connection() const { return connection_; }

 private:
  explicit Client(std::shared_ptr<Connection> connection);

  std::shared_ptr<Connection> connection_;
  absl::Duration timeout_;
};

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_H_
