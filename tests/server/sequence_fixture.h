// Calls that arrive at Sequences, and what becomes of them.

#ifndef TESTS_SERVER_SEQUENCE_FIXTURE_H_
#define TESTS_SERVER_SEQUENCE_FIXTURE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "server/rpc/sequence.h"

namespace gluond::server {

// The outcome of one arrival.
struct Outcome {
  std::unique_ptr<Sequences::Turn> turn;  // It runs.
  std::string answer;                     // It was a repetition.
  absl::Status refused;
};

inline std::shared_ptr<Outcome> Arrive(Sequences& sequences, uint64_t number, uint64_t payload = 0,
                                       const std::string& client = "ann", const std::string& model = "lenet") {
  auto outcome = std::make_shared<Outcome>();
  sequences.Arrive({client, model, number, payload,
                    [outcome](std::unique_ptr<Sequences::Turn> turn) { outcome->turn = std::move(turn); },
                    [outcome](const std::string& answer) { outcome->answer = answer; },
                    [outcome](absl::Status status) { outcome->refused = std::move(status); }});
  return outcome;
}

inline void Apply(Sequences& sequences, uint64_t number, const std::string& answer) {
  auto outcome = Arrive(sequences, number);
  ASSERT_NE(outcome->turn, nullptr) << outcome->refused;
  outcome->turn->Applied(answer);
}

}  // namespace gluond::server

#endif  // TESTS_SERVER_SEQUENCE_FIXTURE_H_
