// A session's program on a CPU's lane, its replies checked as they come.

#ifndef TESTS_FUZZ_SESSION_BENCH_H_
#define TESTS_FUZZ_SESSION_BENCH_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "gluond/v1/session.pb.h"
#include "server/session/program.h"

namespace gluond::fuzz {

// Ends the process where an oracle does not hold: a failure of a code that no client's mistake has, an answer too many or
// too few, memory that is not given back. Each call returns when the device has nothing left to do, so that a run on an
// input is much the same each time.
class SessionBench {
 public:
  // `host`: who computes the operators of clients, if anybody does.
  explicit SessionBench(CustomHostPtr host = nullptr);
  ~SessionBench();

  // Numbers the command, and does what it can. The key "key" stands for the one that the last SaveSession was told: no
  // input could guess it.
  void Execute(v1::Command command, const server::Attachments& attachments);
  // Until nothing can go on.
  void Settle();
  int64_t pending() const { return program_->pending(); }

 private:
  void OnLane(std::function<void()> work);
  void Take(v1::Reply reply, const server::Attachments& attachments, int64_t bytes);

  server::Devices& devices_;
  server::Place& home_;
  const std::shared_ptr<Lane> lane_;
  server::Models models_{4};
  std::unique_ptr<server::Runner> runner_;
  std::unique_ptr<server::SavedSessions> saved_;
  std::shared_ptr<server::SessionProgram> program_;
  uint64_t number_ = 0;
  std::string key_;
  std::map<uint64_t, int> owed_;  // Answers, by the number of their command.
};

}  // namespace gluond::fuzz

#endif  // TESTS_FUZZ_SESSION_BENCH_H_
