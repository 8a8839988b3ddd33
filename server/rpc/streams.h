// Streams keeps the conversations of one kind that a server has, until gRPC is done with each; SharedStreams divides
// their number among peers and tenants. Thread-safe.
//
//   return echos.Start(runner, opening);

#ifndef SERVER_RPC_STREAMS_H_
#define SERVER_RPC_STREAMS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "engine/core/mutex.h"
#include "engine/core/status_macros.h"
#include "server/rpc/draining.h"
#include "server/rpc/shares.h"

namespace gluond::server {

template <class T>
class Streams {
 public:
  // Keeps the stream, and what it holds of a limit, until Remove. UNAVAILABLE: it is to be finished at once.
  absl::Status Add(std::shared_ptr<T> stream, Shares::Permit permit = {}) {
    MutexLock lock(mu_);
    T* const key = stream.get();
    streams_[key] = {std::move(stream), std::move(permit)};
    return draining_ ? Draining() : absl::OkStatus();
  }
  void Remove(T* stream) {
    Entry removed;  // Ends without the lock.
    MutexLock lock(mu_);
    const auto node = streams_.extract(stream);
    if (!node.empty()) removed = std::move(node.mapped());
  }
  // Refuses new streams. Returns the others.
  std::vector<std::shared_ptr<T>> Drain() {
    {
      MutexLock lock(mu_);
      draining_ = true;
    }
    return List();
  }
  std::vector<std::shared_ptr<T>> List() const {
    std::vector<std::shared_ptr<T>> list;
    MutexLock lock(mu_);
    for (const auto& [key, entry] : streams_) list.push_back(entry.stream);
    return list;
  }
  int64_t size() const {
    MutexLock lock(mu_);
    return static_cast<int64_t>(streams_.size());
  }

 private:
  struct Entry {
    std::shared_ptr<T> stream;
    Shares::Permit permit;
  };

  mutable Mutex mu_;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  absl::flat_hash_map<T*, Entry> streams_ ABSL_GUARDED_BY(mu_);
};

template <class T>
class SharedStreams : public Streams<T> {
 public:
  // As Shares.
  SharedStreams(std::string what, int64_t limit, std::string flag, int64_t Quotas::*quota = nullptr)
      : shares_(std::move(what), limit, std::move(flag), quota) {}

  // As Streams::Add, and RESOURCE_EXHAUSTED.
  absl::Status Add(std::shared_ptr<T> stream) {
    absl::StatusOr<Shares::Permit> permit = shares_.Enter(stream->peer(), 1, stream->reach().tenant());
    const absl::Status entered = permit.status();
    RETURN_IF_ERROR(Streams<T>::Add(std::move(stream), entered.ok() ? *std::move(permit) : Shares::Permit()));
    return entered;
  }
  // A new stream of these arguments, which begins to read, or ends with the error of Add.
  template <class... Arguments>
  std::shared_ptr<T> Start(Arguments&&... arguments) {
    const auto stream = T::template Make<T>(std::forward<Arguments>(arguments)...);
    const absl::Status status = Add(stream);
    status.ok() ? stream->Read() : stream->End(status);
    return stream;
  }

 private:
  Shares shares_;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_STREAMS_H_
