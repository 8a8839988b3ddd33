// Batches: a session's commands on their way. They are collected in messages, which are kept until the server has received them.

#ifndef GLUOND_CLIENT_CPP_SESSION_BATCHES_H_
#define GLUOND_CLIENT_CPP_SESSION_BATCHES_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gluond/place.h"

namespace gluond::client {

// A message is closed at this size, so that the server begins while the rest is still being made.
inline constexpr size_t kBatchBytes = size_t{1} << 20;

// Commands that travel together, numbered from `first`: a batch that is sent twice is applied once.
struct Batch {
  uint64_t first = 1;
  std::string body;  // The commands as fields of a SessionRequest.
  std::vector<Place> places;

  uint64_t last() const { return first + places.size() - 1; }
  std::string Message(uint64_t replies) const;
};

// The batches that are not sent, of which the last one is open, and those that the server may not have. Not thread-safe.
class Batches {
 public:
  Batches() { unsent_.emplace_back(); }

  // Adds a command, and returns its number.
  uint64_t Append(absl::string_view command, Place place);
  uint64_t next_number() const { return unsent_.back().first + unsent_.back().places.size(); }

  // The names are freed with a later message.
  void FreeArray(uint64_t name) { dead_arrays_.push_back(name); }
  void FreeCall(uint64_t name) { dead_calls_.push_back(name); }
  void FreeGraph(uint64_t name) { dead_graphs_.push_back(name); }
  void FreeOptimizer(uint64_t name) { dead_optimizers_.push_back(name); }
  // Adds the command that frees them, if it can leave with the next message.
  void AppendFree();
  bool has_dead() const { return dead_arrays_.size() >= kDead; }

  bool has_unsent() const { return !unsent_.front().places.empty(); }
  // The next message, which is kept from now on. Requires: has_unsent().
  std::string Take(uint64_t replies);
  // The server has all commands up to this number.
  void DropReceived(uint64_t number);
  // All that is kept is sent once more.
  void SendAgain();

  // Bytes of closed batches, sent or not.
  size_t closed_bytes() const { return closed_bytes_; }
  // The line that gave a command, as an error tells it; empty where it is forgotten.
  std::string LineOf(uint64_t number) const;

  // The most bytes of commands in one message; set when the server has told it.
  size_t most_bytes = kBatchBytes;

 private:
  // Temporaries that wait until they are freed.
  static constexpr size_t kDead = 64;

  struct Lines {
    uint64_t first;
    std::vector<Place> places;
  };

  void Close();

  std::deque<Batch> unsent_;
  std::deque<Batch> kept_;
  std::deque<Lines> lines_;
  size_t num_lines_ = 0;
  size_t closed_bytes_ = 0;
  std::vector<uint64_t> dead_arrays_, dead_calls_, dead_graphs_, dead_optimizers_;
};

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_SESSION_BATCHES_H_
