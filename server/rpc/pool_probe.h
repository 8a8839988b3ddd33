// PoolProbe sends an empty work through a pool of threads, again and again. So it tells a pool that hangs from a pool whose
// threads are all held by works: the disk may be slow, and messages large.

#ifndef SERVER_RPC_POOL_PROBE_H_
#define SERVER_RPC_POOL_PROBE_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "engine/runtime/account.h"
#include "engine/runtime/fair_threads.h"
#include "server/start/pulse.h"

namespace gluond::server {

class PoolProbe {
 public:
  explicit PoolProbe(std::string pool) : account_(std::make_shared<Account>(pool)), pulse_(std::move(pool)) { pulse_.Rest(); }

  // To be called now and then, on one thread. `pool`, of `most_threads`, ends before this.
  void Send(FairThreads& pool, int most_threads) {
    if (is_under_way_) {
      const FairThreads::Load load = pool.load();
      if (load.at_work >= most_threads || load.are_all) pulse_.Beat();
      return;
    }
    is_under_way_ = true;
    pulse_.Beat();
    const ScopedAccount own(account_);
    pool.Post([this] {
      pulse_.Rest();
      is_under_way_ = false;
    });
  }

 private:
  const AccountPtr account_;
  std::atomic<bool> is_under_way_ = false;
  Pulse pulse_;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_POOL_PROBE_H_
