// Graphs of a client in a session.

#ifndef GLUOND_CLIENT_CPP_GLUON_GRAPH_H_
#define GLUOND_CLIENT_CPP_GLUON_GRAPH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/cpp/session/core.h"
#include "gluond/block.h"
#include "gluond/ndarray.h"
#include "gluond/place.h"
#include "gluond/symbol.h"
#include "gluond/v1/graph.pb.h"

namespace gluond::client {

struct ParameterState;

// A graph as the server is told it.
struct MadeGraph {
  v1::Graph graph;
  std::vector<std::string> inputs;  // Names of the variables that are no parameters.
  // Names of the others, in order of first use.
  std::vector<std::pair<std::string, std::shared_ptr<ParameterState>>> parameters;
};

// The graph of outputs that read these inputs, which are variables of different names. The error of a symbol that has failed.
// is_open: other variables are inputs, too. INVALID_ARGUMENT: there is such a one, and it is not; there is no output.
absl::StatusOr<MadeGraph> MakeGraph(absl::Span<const Symbol> inputs, absl::Span<const Symbol> outputs, bool is_open = false);

// A graph that a session knows. The session forgets it with the object.
class SessionGraph {
 public:
  static absl::StatusOr<std::shared_ptr<const SessionGraph>> Define(std::shared_ptr<SessionCore> session, MadeGraph graph,
                                                                    Place place);
  ~SessionGraph();
  SessionGraph(const SessionGraph&) = delete;

  const std::vector<std::shared_ptr<ParameterState>>& parameters() const { return parameters_; }
  const std::shared_ptr<SessionCore>& session() const { return session_; }

  // Its outputs. Parameters without values get them, if they were initialized. Failures are the outputs' own.
  std::vector<NDArray> Run(absl::Span<const NDArray> inputs, Place place) const;
  // Makes a model of the graph and of the parameters' values.
  absl::StatusOr<Model> SaveAsModel(const std::string& name, const std::vector<Variable>& inputs,
                                    const gluon::SaveAsModelOptions& options, Place place) const;
  // Gives parameters that were initialized, and have no values yet, their shapes and values. FAILED_PRECONDITION: one was not
  // initialized.
  absl::Status Resolve(absl::Span<const NDArray> inputs, Place place) const;

 private:
  SessionGraph(std::shared_ptr<SessionCore> session, uint64_t name) : session_(std::move(session)), name_(name) {}

  const std::shared_ptr<SessionCore> session_;
  const uint64_t name_;
  std::vector<std::string> variables_;
  std::vector<std::shared_ptr<ParameterState>> parameters_;
  int outputs_ = 0;
};

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_GLUON_GRAPH_H_
