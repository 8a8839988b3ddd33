#include "server/rpc/router.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gluond::server {
namespace {

// The client has made the method's name up; so many bytes of it are repeated to him.
constexpr size_t kLongest = 200;
// Its name in logs.
constexpr absl::string_view kUnknown = "unknown";

// So many calls may come at once before gRPC puts them into a list of its own.
constexpr int kAwaited = 256;

class Refusal final : public Stream {
 public:
  Refusal(Peers& peers, const Opening& opening, absl::Status why) : Stream(peers, opening), why_(std::move(why)) {}

 private:
  void OnBegin() override { Finish(why_); }
  void OnRead(Slices*) override {}
  void OnCancelled() override {}
  void OnOver() override { delete this; }

  const absl::Status why_;
};

absl::Status NoMethod(absl::string_view method) {
  return absl::UnimplementedError(absl::StrCat("there is no method '", method.substr(0, kLongest),
                                               "'; gRPC's reflection lists those that there are"));
}

}  // namespace

void Router::Add(const RawService& service) {
  for (const auto& row : service.rows()) rows_[row->method.path] = row.get();
}

void Router::Start(grpc::ServerCompletionQueue& queue) {
  {
    MutexLock lock(mu_);
    queue_ = &queue;
  }
  for (int i = 0; i < kAwaited; ++i) Await();
  arrivals_.Start(queue);
}

void Router::Stop() {
  arrivals_.Stop();
  MutexLock lock(mu_);
  queue_ = nullptr;
}

void Router::Await() {
  MutexLock lock(mu_);
  if (queue_ == nullptr) return;
  ++calls_;
  GenericCall::Await(service_, *queue_, *this);
}

void Router::Wait() {
  MutexLock lock(mu_);
  while (calls_ > 0) gone_.Wait(mu_);
}

void Router::Gone() {
  if (--calls_ > 0) return;  // As long as calls are taken.
  MutexLock lock(mu_);
  gone_.NotifyAll();
}

void Router::Accept(GenericCall* call) {
  Await();
  grpc::GenericServerContext& context = call->context();
  Gatekeeper::Admitted caller;
  absl::Status status;
  if (gatekeeper_ != nullptr) status = gatekeeper_->Admit(context.method(), context, &caller);
  const bool is_refused = !status.ok();
  if (status.ok() && caller.reach.tenant() != nullptr) status = caller.reach.tenant()->TakeRequest();
  const auto row = rows_.find(context.method());
  const bool is_known = row != rows_.end();
  if (status.ok() && !is_known) status = NoMethod(context.method());
  if (status.ok() && row->second->method.audit != Audit::kNone) status = runner_.audit.Check();
  const Stream::Opening opening = {.call = call, .counts = is_known ? row->second->counts.get() : &unknown_,
                                   .caller = caller.identity, .reach = caller.reach, .method = is_known ? row->first : kUnknown,
                                   .access = runner_.access.is_open() ? &runner_.access : nullptr,
                                   .audit = status.ok() && runner_.audit.is_open() ? &runner_.audit : nullptr,
                                   .open_calls = status.ok() && caller.identity != nullptr ? &open_calls_ : nullptr};
  if (status.ok()) {
    Stream* const stream = row->second->start(opening);
    if (opening.open_calls != nullptr) open_calls_.Add(stream);
    return stream->Begin();
  }
  auto* const refusal = new Refusal(runner_.peers, opening, status);
  Tell(*refusal, status, is_refused);
  refusal->Begin();
}

void Router::Tell(Stream& refused, const absl::Status& why, bool for_caller) {
  runner_.log.Failed({.method = refused.method(), .status = why, .peer = refused.peer()->name(),
                      .request_id = refused.request_id(), .traceparent = refused.traceparent()});
  if (!for_caller) return;
  runner_.audit.Tell({refused.method(), why.code(), refused.caller() == nullptr ? "" : refused.caller()->name,
                      /*target=*/"", refused.peer()->name(), refused.request_id()});
}

void Router::EndRevoked() {
  open_calls_.RevokeUnless(
      [this](const Stream& call) { return gatekeeper_->MayGoOn(call.method(), *call.caller(), call.reach()); });
}

}  // namespace gluond::server
