// The gradients of a session: the arrays that want one, the gradients' names, and the backward passes.

#ifndef SERVER_SESSION_GRADIENTS_H_
#define SERVER_SESSION_GRADIENTS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/imperative/imperative.h"
#include "gluond/v1/session.pb.h"
#include "server/session/answers.h"
#include "server/session/arrays.h"

namespace gluond::server {

// FAILED_PRECONDITION, reason STALE_GRADIENT: names these arrays. Requires: there is one.
absl::Status StaleGradients(const std::vector<uint64_t>& arrays);

// `command`: the number of the command, for failures. Used on the session's lane.
class SessionGradients {
 public:
  // All arguments outlive it.
  SessionGradients(Imperative& imperative, SessionArrays& arrays, SessionAnswers& answers);
  ~SessionGradients();

  absl::Status Mark(const v1::Command::Mark& mark, uint64_t command);
  absl::StatusOr<v1::Freshness> Fresh(const v1::Command::Fresh& fresh);
  // To the end, or with `out_grads` up to the first function; Continue goes on from a function.
  absl::StatusOr<v1::BackwardState> Backward(const v1::Command::Backward& backward, uint64_t command);
  absl::StatusOr<v1::BackwardState> Continue(const v1::Command::ContinueBackward& go_on, uint64_t command);

 private:
  using Names = SessionArrays::Names;
  struct Ongoing;  // A Backward, where it has to outlive its command.
  using OngoingPtr = std::unique_ptr<Ongoing>;

  absl::StatusOr<OngoingPtr> Differentiate(const v1::Command::Backward& backward, uint64_t command);
  absl::StatusOr<v1::BackwardState> Run(OngoingPtr ongoing, const Names& out_grads, uint64_t command);
  absl::Status End(Ongoing& ongoing, uint64_t command);
  absl::Status Accumulate(gluond::Mark& mark, Array gradient, uint64_t command);

  Imperative& imperative_;
  SessionArrays& arrays_;
  SessionAnswers& answers_;                            // Hears of each value that is going to be computed.
  absl::flat_hash_map<uint64_t, OngoingPtr> stopped_;  // By the Backward's number.
  PreparedOpPtr zeros_like_, add_;                     // Null until they are needed.
};

}  // namespace gluond::server

#endif  // SERVER_SESSION_GRADIENTS_H_
