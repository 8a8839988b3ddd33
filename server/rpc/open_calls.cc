#include "server/rpc/open_calls.h"

#include <vector>

#include "server/rpc/stream.h"

namespace gluond::server {

void OpenCalls::Add(Stream* call) {
  MutexLock lock(mu_);
  calls_.insert(call);
}

void OpenCalls::Remove(Stream* call) {
  MutexLock lock(mu_);
  calls_.erase(call);
  while (revoking_ == call) revoked_.Wait(mu_);
}

void OpenCalls::RevokeUnless(absl::FunctionRef<absl::Status(const Stream& call)> may_go_on) {
  MutexLock lock(mu_);
  std::vector<Stream*> to_revoke;
  for (Stream* const call : calls_) {
    if (!may_go_on(*call).ok()) to_revoke.push_back(call);
  }
  for (Stream* const call : to_revoke) {
    // Another call may have come to the place of one that has ended meanwhile.
    if (!calls_.contains(call)) continue;
    const absl::Status why = may_go_on(*call);
    if (why.ok()) continue;
    revoking_ = call;
    lock.Unlock();  // To end a call may end others, or wake whoever waits for them.
    call->Revoke(why);
    lock.Lock();
    revoking_ = nullptr;
    revoked_.NotifyAll();
  }
}

void OpenCalls::CancelLate() {
  const auto now = Stream::Clock::now();
  MutexLock lock(mu_);
  for (Stream* const call : calls_) call->CancelIfLate(now);
}

}  // namespace gluond::server
