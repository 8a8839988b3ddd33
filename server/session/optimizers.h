// SessionOptimizers: the optimizers of one session by the client's names for them. An optimizer steps arrays of the session; its
// states are arrays, too, or its own.

#ifndef SERVER_SESSION_OPTIMIZERS_H_
#define SERVER_SESSION_OPTIMIZERS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/imperative/graph_call.h"
#include "engine/imperative/imperative.h"
#include "gluond/v1/command.pb.h"
#include "server/session/answers.h"
#include "server/session/arrays.h"
#include "server/session/optimizer_step.h"
#include "server/start/limits.h"

namespace gluond::server {

// Used on the session's lane.
class SessionOptimizers {
 public:
  // The references outlive it. `pay` pays for the nodes of updates.
  SessionOptimizers(Imperative& imperative, SessionArrays& arrays, SessionAnswers& answers, const Limits& limits, PayForNodes pay)
      : imperative_(imperative), arrays_(arrays), answers_(answers), limits_(limits), pay_(std::move(pay)) {}

  // INVALID_ARGUMENT, RESOURCE_EXHAUSTED: the definition is wrong; steps of it fail as well.
  absl::Status Define(const v1::Command::DefineOptimizer& define);
  // An error that the arrays do not have: there is no such optimizer or array, or a gradient is stale.
  absl::Status Step(const v1::Command::StepOptimizer& step, uint64_t command);
  void Free(const v1::Command::Free& free);

  // Whether the next step, if there is such an optimizer, takes long to begin.
  bool IsLong(uint64_t optimizer) const;
  // Roughly the memory that optimizers take beside their tensors.
  int64_t bytes() const { return bytes_; }

 private:
  struct Defined {
    absl::Status status;
    std::shared_ptr<OptimizerDefinition> definition;
    int64_t bytes = 0;
  };
  using Definition = OptimizerDefinition;
  using Names = SessionArrays::Names;
  static absl::Status Fill(const v1::Command::DefineOptimizer& define, Definition* definition);
  // The places of the weights that the command names. INVALID_ARGUMENT: there are none such, or numbers do not fit them.
  static absl::StatusOr<std::vector<uint32_t>> PlacesOf(const Definition& definition, const v1::Command::StepOptimizer& step);
  // FAILED_PRECONDITION, without any freshness left: a gradient must be fresh, and is not.
  absl::Status CheckFresh(const Definition& definition, const std::vector<uint32_t>& places);
  void ClearFresh(const Definition& definition, const std::vector<uint32_t>& places);
  // Finds all arrays that the step reads, for `stepped_`, and changes nothing.
  absl::Status Find(Definition& definition, const std::vector<uint32_t>& places, const v1::Command::StepOptimizer& step);
  // The step of `stepped_`.
  void Run(const std::shared_ptr<Definition>& definition, double rescale, uint64_t command);
  // Whether there is an array for the status to be the value of.
  bool Poison(const Definition& definition, const absl::Status& status, uint64_t command);
  void Erase(uint64_t name);

  Imperative& imperative_;
  SessionArrays& arrays_;
  SessionAnswers& answers_;
  const Limits& limits_;
  const PayForNodes pay_;
  absl::flat_hash_map<uint64_t, Defined> optimizers_;
  int64_t bytes_ = 0;
  std::vector<SteppedWeight> stepped_;  // Used in Step alone.
  const std::shared_ptr<const void> alive_ = std::make_shared<int>();
};

}  // namespace gluond::server

#endif  // SERVER_SESSION_OPTIMIZERS_H_
