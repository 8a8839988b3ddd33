// SessionCalls: the prepared operator calls and the graphs of one session, by the client's names for them.

#ifndef SERVER_SESSION_CALLS_H_
#define SERVER_SESSION_CALLS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/imperative/graph_call.h"
#include "engine/imperative/prepared_op.h"
#include "engine/runtime/budget.h"
#include "gluond/v1/session.pb.h"
#include "server/start/limits.h"

namespace gluond::server {

class SessionCalls {
 public:
  static constexpr int kLargeNodes = 256;  // A graph of more nodes is a large one.

  // `memory` pays for the work of making graphs, and `pay` for the nodes of their gradients.
  SessionCalls(const Limits& limits, std::shared_ptr<Budget> memory, PayForNodes pay)
      : limits_(limits), memory_(std::move(memory)), pay_(std::move(pay)) {}

  // Mistakes in a call are told when it is used. RESOURCE_EXHAUSTED: there are too many calls, or they take too much.
  absl::Status Prepare(const v1::Command::Prepare& prepare);
  absl::StatusOr<PreparedOpPtr> Find(uint64_t name, size_t num_inputs);

  // INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED: the graph is wrong; uses of it fail as well.
  absl::Status Define(const v1::Command::DefineGraph& define);
  absl::StatusOr<std::shared_ptr<CachedGraph>> FindGraph(uint64_t name) const;

  void Free(const v1::Command::Free& free);
  // Lets go of the gradients that graphs keep for the next time.
  void ForgetGradients();

  // Whether the graph, if there is one, takes long to look at.
  bool IsLarge(uint64_t graph) const;
  // Roughly the memory that calls, and graphs without gradients, take.
  int64_t bytes() const { return bytes_; }

 private:
  struct Prepared {
    std::string op;
    AttrDict attrs;
    absl::Status status;                                 // The attributes' error.
    std::vector<std::pair<size_t, PreparedOpPtr>> made;  // By number of inputs.
    int64_t bytes = 0;
  };
  struct Defined {
    absl::Status status;
    std::shared_ptr<CachedGraph> graph;
    int64_t bytes = 0;
    bool large = false;
  };

  // Counts `bytes` more, or says that they are too many.
  absl::Status Charge(int64_t bytes);
  template <class Named>
  void Erase(Named& named, uint64_t name);

  const Limits limits_;
  const std::shared_ptr<Budget> memory_;
  const PayForNodes pay_;
  absl::flat_hash_map<uint64_t, Prepared> calls_;
  absl::flat_hash_map<uint64_t, Defined> graphs_;
  int64_t bytes_ = 0;
};

// The types of a graph's arrays, as far as they are known. `memory` pays for the inference.
absl::StatusOr<v1::GraphType> InferGraph(const CachedGraph& graph, const v1::Command::InferGraph& infer,
                                         const std::shared_ptr<Budget>& memory);

}  // namespace gluond::server

#endif  // SERVER_SESSION_CALLS_H_
