#include "server/rpc/router.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/account.h"
#include "engine/runtime/budget.h"
#include "server/rpc/find_in.h"
#include "server/rpc/runner.h"

namespace gluond::server {
namespace {

// The client has made the method's name up; so many bytes of it are repeated to him.
constexpr size_t kLongest = 200;

// So many calls may come at once before gRPC puts them into a list of its own.
constexpr int kAwaited = 256;

// A call takes so many bytes beside its headers and its messages.
constexpr int64_t kCallBytes = 16 << 10;

class Refusal final : public Stream {
 public:
  // `is_charged`: the call's memory is; nothing is kept of one that is not. `for_caller`: it is refused for whoever made it.
  Refusal(Runner& runner, const Opening& opening, absl::Status why, bool is_charged, bool for_caller)
      : Stream(runner, opening), why_(std::move(why)), is_charged_(is_charged), for_caller_(for_caller) {}

 private:
  void OnBegin() override {
    LogFailure(why_);
    if (for_caller_ && !IsRefusal(why_.code())) TellAudit({.code = why_.code(), .request_id = request_id()});
    is_charged_ ? Finish(why_) : Abort(why_);
  }
  void OnRead(Slices*) override {}
  void OnCancelled() override {}
  void OnOver() override {}

  const absl::Status why_;
  const bool is_charged_, for_caller_;
};

// HTTP/2 counts so many bytes for a header beside its own, and has so many bytes of earlier headers that a client may mean
// by a byte each.
constexpr size_t kEntryBytes = 32;
constexpr int64_t kTableBytes = 4096;

// As HTTP/2 counts them.
int64_t HeaderBytes(const grpc::GenericServerContext& context) {
  size_t bytes = context.method().size() + context.host().size() + 2 * kEntryBytes;
  for (const auto& [key, value] : context.client_metadata()) bytes += key.size() + value.size() + kEntryBytes;
  return static_cast<int64_t>(bytes);
}

// The bytes of long headers that the client must have sent: those that differ, beyond all that HTTP/2 could remember.
int64_t SentBytes(const grpc::GenericServerContext& context) {
  absl::flat_hash_set<std::pair<absl::string_view, absl::string_view>> known;
  size_t bytes = 0;
  for (const auto& [key, value] : context.client_metadata()) {
    const absl::string_view k(key.data(), key.size()), v(value.data(), value.size());
    if (known.insert({k, v}).second) bytes += k.size() + v.size() + kEntryBytes;
  }
  return std::max<int64_t>(0, static_cast<int64_t>(bytes) - kTableBytes);
}

absl::Status CheckHeaders(int64_t bytes) {
  if (bytes <= Router::kMostHeaders) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the call has ", bytes, " bytes of headers, more than the ",
                                                   Router::kMostHeaders, " that a call may have; send fewer or shorter metadata"));
}

absl::Status NoMethod(absl::string_view method) {
  return absl::UnimplementedError(
      absl::StrCat("there is no method '", method.substr(0, kLongest), "'; gRPC's reflection lists those that there are"));
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
  GrpcCall::Await(service_, *queue_, *this);
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

struct Router::Arrival {
  Guest guest;
  int64_t header_bytes;
  const RawService::Row& row;
  Gatekeeper::Admitted caller{};
  bool is_for_caller = false;  // The call is refused for whoever makes it.
};

absl::Status Router::Admit(GrpcCall& call, Arrival* arrival) {
  grpc::GenericServerContext& context = call.context();
  RETURN_IF_ERROR(CheckHeaders(arrival->header_bytes));
  if (gatekeeper_ != nullptr) {
    const std::optional<Access> wanted = &arrival->row == &unknown_ ? std::nullopt : std::optional(arrival->row.method.access);
    absl::Status status = gatekeeper_->Admit(wanted, context, &arrival->caller);
    arrival->is_for_caller = !status.ok();
    if (!status.ok()) return status;
  }
  if (absl::Status status = arrival->guest.MayStay(); !status.ok()) {
    runner_.peers.WasReset(*arrival->guest.peer());  // A client that goes on opening calls floods, as one that resets them does.
    return status;
  }
  if (arrival->caller.reach.tenant() != nullptr) RETURN_IF_ERROR(arrival->caller.reach.tenant()->TakeRequest());
  if (&arrival->row == &unknown_) return NoMethod(context.method());
  return arrival->row.method.audit == Audit::kNone ? absl::OkStatus() : runner_.audit.Check();
}

void Router::Accept(std::shared_ptr<GrpcCall> call) {
  Await();
  const RawService::Row* const* const row = FindIn(rows_, call->context().method());
  Arrival arrival = {.guest = Guest(runner_.peers, call->context().c_call()),
                     .header_bytes = HeaderBytes(call->context()),
                     .row = row == nullptr ? unknown_ : **row};
  if (arrival.header_bytes > kMostReadHeaders) runner_.peers.SentFarTooLongHeaders(*arrival.guest.peer());
  if (arrival.header_bytes > kTableBytes) arrival.guest.peer()->Gave(SentBytes(call->context()));
  absl::Status status = Admit(*call, &arrival);
  const Gatekeeper::Admitted& caller = arrival.caller;
  const ScopedAccount account(Stream::AccountOf(*arrival.guest.peer(), caller.reach));
  Reservation memory(Budget::PartOf(runner_.memory));
  const absl::Status charged = memory.Grow(kCallBytes + arrival.header_bytes);
  if (status.ok()) status = charged;
  const Stream::Opening opening = {.call = call,
                                   .guest = &arrival.guest,
                                   .memory = &memory,
                                   .method = &arrival.row.method,
                                   .counts = arrival.row.counts.get(),
                                   .caller = caller.identity,
                                   .reach = caller.reach};
  if (status.ok()) {
    const RawService::Row& row = arrival.row;
    const std::shared_ptr<Stream> stream =
        row.start != nullptr ? row.start(opening) : Stream::Make<UnaryCall>(runner_, row.unary, opening);
    {
      MutexLock lock(streams_mu_);
      streams_.insert(stream.get());
    }
    return stream->Begin();
  }
  Stream::Make<Refusal>(runner_, opening, status, charged.ok(), arrival.is_for_caller)->Begin();
}

void Router::Over(Stream* stream) {
  MutexLock lock(streams_mu_);
  streams_.erase(stream);
  while (revoking_ == stream) revoked_.Wait(streams_mu_);
}

absl::Status Router::MayGoOn(const Stream& stream) const {
  if (stream.caller() == nullptr) return absl::OkStatus();
  return gatekeeper_->MayGoOn(stream.method().access, *stream.caller(), stream.reach());
}

void Router::EndRevoked() {
  MutexLock lock(streams_mu_);
  std::vector<Stream*> to_revoke;
  for (Stream* const stream : streams_) {
    if (!MayGoOn(*stream).ok()) to_revoke.push_back(stream);
  }
  for (Stream* const stream : to_revoke) {
    // Another call may have come to the place of one that has ended meanwhile.
    if (!streams_.contains(stream)) continue;
    const absl::Status why = MayGoOn(*stream);
    if (why.ok()) continue;
    revoking_ = stream;
    lock.Unlock();  // To end a call may end others, or wake whoever waits for them.
    stream->Revoke(why);
    lock.Lock();
    revoking_ = nullptr;
    revoked_.NotifyAll();
  }
}

void Router::CancelLate() {
  const auto now = Stream::Clock::now();
  MutexLock lock(streams_mu_);
  for (Stream* const stream : streams_) stream->CancelIfLate(now);
}

}  // namespace gluond::server
