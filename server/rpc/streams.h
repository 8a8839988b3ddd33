// SharedStreams keeps the conversations of one kind that a server has, until gRPC is done with each, and divides their
// number among peers and tenants. Thread-safe.
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
#include "absl/status/statusor.h"
#include "engine/core/mutex.h"
#include "server/rpc/calls_under_way.h"
#include "server/rpc/shares.h"

namespace gluond::server {

template <class T>
class SharedStreams {
 public:
  // As Shares.
  SharedStreams(std::string what, int64_t limit, std::string flag, int64_t Quotas::*quota = nullptr)
      : shares_(std::move(what), limit, std::move(flag), quota) {}

  // Keeps the stream, and what it holds of the limit, until Remove. UNAVAILABLE, RESOURCE_EXHAUSTED: it is to be finished at once.
  absl::Status Add(std::shared_ptr<T> stream) {
    absl::StatusOr<Shares::Permit> permit = shares_.Enter(stream->peer(), 1, stream->reach().tenant());
    const absl::Status entered = permit.status();
    T* const key = stream.get();
    MutexLock lock(mu_);
    streams_[key] = {std::move(stream), entered.ok() ? *std::move(permit) : Shares::Permit()};
    return draining_ ? Draining() : entered;
  }
  // A new stream of these arguments, which begins to read, or ends with the error of Add.
  template <class... Arguments>
  std::shared_ptr<T> Start(Arguments&&... arguments) {
    const auto stream = T::template Make<T>(std::forward<Arguments>(arguments)...);
    const absl::Status status = Add(stream);
    status.ok() ? stream->Read() : stream->End(status);
    return stream;
  }
  void Remove(T* stream) {
    Streams removed;  // Ends without the lock.
    MutexLock lock(mu_);
    removed.insert(streams_.extract(stream));
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
    for (const auto& [key, entry] : streams_) list.push_back(entry.first);
    return list;
  }
  int64_t size() const {
    MutexLock lock(mu_);
    return static_cast<int64_t>(streams_.size());
  }

 private:
  // The streams, with what each holds of the limit.
  using Streams = absl::flat_hash_map<T*, std::pair<std::shared_ptr<T>, Shares::Permit>>;

  Shares shares_;
  mutable Mutex mu_;
  bool draining_ ABSL_GUARDED_BY(mu_) = false;
  Streams streams_ ABSL_GUARDED_BY(mu_);
};

}  // namespace gluond::server

#endif  // SERVER_RPC_STREAMS_H_
