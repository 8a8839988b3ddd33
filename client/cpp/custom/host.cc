#include "client/cpp/custom/host.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/custom/functions.h"
#include "client/cpp/session/core.h"
#include "client/cpp/value_message.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace {

constexpr char kHostMethod[] = "/gluond.v1.OperatorService/HostOperators";
// How long an offer waits for the stream, and for the server's confirmation.
constexpr absl::Duration kOpen = absl::Seconds(30);
// A name that is another client's is asked for so long, so often: that client may have just ended, unnoticed as yet.
constexpr absl::Duration kClaim = absl::Seconds(5), kClaimPause = absl::Milliseconds(200);
constexpr int64_t kMostUnwritten = int64_t{4} << 20;
constexpr std::chrono::milliseconds kWatch{500};
constexpr absl::Duration kFirstHostPause = absl::Milliseconds(100), kLongestHostPause = absl::Seconds(2);

bool IsFatal(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNIMPLEMENTED || code == grpc::StatusCode::INVALID_ARGUMENT ||
         code == grpc::StatusCode::PERMISSION_DENIED || code == grpc::StatusCode::UNAUTHENTICATED;
}

std::string OfferMessage(const std::string& name, bool shared) {
  v1::HostRequest request;
  request.mutable_offer()->set_op_type(name);
  request.mutable_offer()->set_shared(shared);
  return request.SerializeAsString();
}

std::mutex hosts_mutex;
std::map<std::pair<std::string, std::string>, std::weak_ptr<Host>>& Hosts() {
  static auto* hosts = new std::map<std::pair<std::string, std::string>, std::weak_ptr<Host>>;
  return *hosts;
}

}  // namespace

std::shared_ptr<Host> Host::Of(const std::shared_ptr<SessionCore>& session, Settings settings) {
  std::lock_guard<std::mutex> lock(hosts_mutex);
  std::weak_ptr<Host>& known = Hosts()[{settings.address, settings.key}];
  std::shared_ptr<Host> host = known.lock();
  if (host == nullptr) {
    host.reset(new Host(std::move(settings)));
    known = host;
  }
  std::lock_guard<std::mutex> host_lock(host->mutex_);
  host->sessions_.push_back(session);
  return host;
}

Host::Host(Settings settings) : settings_(std::move(settings)), last_write_(absl::Now()) {
  pool_ = std::make_unique<CallbackPool>([this](const v1::Callback& call) { Run(call); },
                                         [this](const v1::Callback& call, const std::string& why) {
                                           v1::HostRequest request;
                                           v1::CallbackResult& result = *request.mutable_result();
                                           result.set_call(call.call());
                                           result.mutable_failure()->set_type("RESOURCE_EXHAUSTED");
                                           result.mutable_failure()->set_message(why);
                                           Answer(call.call(), request.SerializeAsString());
                                         },
                                         settings_.most_threads);
  thread_ = std::thread([this] { Live(); });
}

Host::~Host() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    ends_ = true;
    running_.clear();
    if (stream_ != nullptr) stream_->Kick();
    changed_.notify_all();
  }
  thread_.join();
  pool_.reset();
}

absl::Status Host::Offer(const std::string& name, bool shared) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    const auto offered = offered_.find(name);
    if (is_open_ && offered != offered_.end() && offered->second == shared && known_.count(name) > 0) return absl::OkStatus();
  }
  const absl::Time end = absl::Now() + kClaim;
  while (true) {
    const bool is_last = absl::Now() >= end;
    const absl::Status status = TryOffer(name, shared);
    if (status.ok() || is_last || !absl::IsAlreadyExists(status)) return status;
    absl::SleepFor(kClaimPause);
  }
}

absl::Status Host::Open() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, absl::ToChronoNanoseconds(kOpen), [this] { return has_ended_ || ends_ || is_open_; });
  if (is_open_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("the server at ", settings_.address,
                                             " cannot call this program: ", problem_.empty() ? "it does not answer" : problem_));
}

absl::Status Host::TryOffer(const std::string& name, bool shared) {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto [offered, is_new] = offered_.try_emplace(name, shared);
  if (is_new || offered->second != shared) {
    offered->second = shared;
    known_.erase(name);
    refused_.erase(name);
    if (stream_ != nullptr) {
      outgoing_.push_back(OfferMessage(name, shared));
      stream_->Kick();
    }
  }
  const auto is_decided = [&] { return has_ended_ || ends_ || (is_open_ && (known_.count(name) > 0 || refused_.count(name) > 0)); };
  changed_.wait_for(lock, absl::ToChronoNanoseconds(kOpen), is_decided);
  if (is_open_ && known_.count(name) > 0) return absl::OkStatus();
  const auto refused = refused_.find(name);
  const bool is_refused = refused != refused_.end();
  const std::string why = is_refused ? refused->second : problem_.empty() ? "it does not answer" : problem_;
  offered_.erase(name);
  if (is_refused) refused_.erase(refused);
  const std::string text =
      absl::StrCat("the server at ", settings_.address, " cannot be offered the custom operator '", name, "': ", why);
  return is_refused ? absl::AlreadyExistsError(text) : absl::UnavailableError(text);
}

std::shared_ptr<SessionCore> Host::Session() {
  std::lock_guard<std::mutex> lock(mutex_);
  std::shared_ptr<SessionCore> found;
  for (auto session = sessions_.rbegin(); session != sessions_.rend() && found == nullptr; ++session) found = session->lock();
  sessions_.erase(std::remove_if(sessions_.begin(), sessions_.end(), [](const auto& each) { return each.expired(); }),
                  sessions_.end());
  return found;
}

void Host::Run(const v1::Callback& call) {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (running_.count(call.call()) == 0) return;  // It has been cancelled while it waited.
  }
  v1::HostRequest request;
  *request.mutable_result() = callbacks_.Answer(call, Session());
  if (const size_t bytes = request.ByteSizeLong(); bytes > settings_.most_bytes) {
    v1::CallbackResult& result = *request.mutable_result();
    result.mutable_failure()->set_type("RESOURCE_EXHAUSTED");
    result.mutable_failure()->set_message(absl::StrCat("the values that it computed have ", bytes, " bytes, more than the ",
                                                       settings_.most_bytes,
                                                       " that the server takes in one message (--max_message_bytes)"));
  }
  Answer(call.call(), request.SerializeAsString());
}

void Host::Answer(uint64_t call, const std::string& message) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (running_.erase(call) == 0 || stream_ == nullptr) return;  // Nobody waits for it any more.
  outgoing_.push_back(message);
  Send(*stream_, false);
}

void Host::Send(Stream& stream, bool is_sign_of_life) {
  while (!outgoing_.empty() && !is_full_) {
    is_full_ = stream.Write(outgoing_.front()) > kMostUnwritten;
    outgoing_.pop_front();
    last_write_ = absl::Now();
    is_sign_of_life = false;
  }
  if (is_full_) {
    stream.SayWhenWritten();
  } else if (is_sign_of_life) {
    stream.Write("");
    last_write_ = absl::Now();
  }
}

void Host::Live() {
  absl::Duration pause = absl::ZeroDuration();
  while (true) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait_for(lock, absl::ToChronoNanoseconds(pause), [this] { return ends_; });
      if (ends_) return;
    }
    const grpc::Status end = RunStream();
    std::lock_guard<std::mutex> lock(mutex_);
    is_open_ = false;
    known_.clear();
    running_.clear();
    outgoing_.clear();
    problem_ = end.error_message();
    const bool has_session = std::any_of(sessions_.begin(), sessions_.end(), [](const auto& each) { return !each.expired(); });
    has_ended_ = IsFatal(end.error_code()) || !has_session;
    changed_.notify_all();
    if (has_ended_) return;
    pause = pause_;
    pause_ = std::min(std::max(2 * pause_, kFirstHostPause), kLongestHostPause);
  }
}

grpc::Status Host::RunStream() {
  auto channel = settings_.new_channel();
  if (!channel.ok()) {
    return grpc::Status(static_cast<grpc::StatusCode>(channel.status().code()), std::string(channel.status().message()));
  }
  v1::HostRequest hello;
  hello.mutable_open()->set_scope(settings_.scope);
  hello.mutable_open()->set_key(settings_.key);
  hello.mutable_open()->set_client_id(settings_.client_id);
  const auto stream = std::make_shared<Stream>(*std::move(channel), kHostMethod, hello.SerializeAsString());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stream_ = stream;
    is_full_ = false;
    last_write_ = absl::Now();
    for (const auto& [name, shared] : offered_) outgoing_.push_back(OfferMessage(name, shared));
    Send(*stream, false);
  }
  Attend(*stream);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stream_ = nullptr;
  }
  stream->Close();
  return stream->status();
}

void Host::Attend(Stream& stream) {
  bool has_cancelled = false;
  while (true) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (ends_ && !has_cancelled) {
        has_cancelled = true;
        stream.Cancel();
      }
      Send(stream, absl::Now() - last_write_ > beat_);
    }
    const int64_t event = stream.Attend(kWatch, std::chrono::milliseconds(0));
    pool_->RefuseIfStalled();
    if (event == Stream::kEnded) return;
    if (event >= 0) {
      Take(stream, event);
    } else if (event == Stream::kWritable) {
      std::lock_guard<std::mutex> lock(mutex_);
      is_full_ = false;
    }
  }
}

void Host::Take(Stream& stream, int64_t size) {
  std::string data(static_cast<size_t>(size), '\0');
  const int64_t number = stream.Copy(data.data(), size);
  v1::HostResponse response;
  if (!response.ParseFromString(data)) stream.Cancel();
  stream.Drop(number);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (response.has_opened()) {
      is_open_ = true;
      pause_ = absl::ZeroDuration();
      beat_ = std::max(absl::Milliseconds(300), FromProto(response.opened().lease()) / 3);
    }
    for (const v1::Callback& call : response.callbacks()) running_.insert(call.call());
    for (const uint64_t call : response.cancelled()) running_.erase(call);
    known_.insert(response.offered().begin(), response.offered().end());
    for (const v1::RefusedOperator& refused : response.refused()) refused_[refused.op_type()] = refused.reason();
    changed_.notify_all();
  }
  for (const uint64_t function : response.released()) ReleaseFunction(function);
  for (const std::string& name : response.taken_over()) {
    std::fprintf(stderr, "gluond: another client computes the shared operator '%s' from now on\n", name.c_str());
  }
  for (v1::Callback& call : *response.mutable_callbacks()) pool_->Take(std::move(call));
}

}  // namespace gluond::client
