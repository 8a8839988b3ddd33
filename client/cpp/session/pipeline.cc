#include "client/cpp/session/pipeline.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/channel.h"
#include "client/cpp/session/mode.h"
#include "client/cpp/session/wire.h"
#include "client/cpp/value_message.h"
#include "gluond/error.h"

namespace gluond::client {
namespace {

using std::chrono::milliseconds;

constexpr char kMethod[] = "/gluond.v1.SessionService/Run";
constexpr uint32_t kProtocol = 3, kLowestOfServer = 3;
const char* const kFeatures[] = {"models-of-sessions", "pages", "registry-hash", "saved-sessions", "unknown-commands"};
// Bytes of a message that are kept for the fields around the values; half of a very short message is.
constexpr size_t kMargin = 4096;
// Bytes that are not known to be received; a thread that adds more waits.
constexpr size_t kMostBytes = size_t{64} << 20;
constexpr int64_t kMostWaitingBytes = int64_t{4} << 20;
// So many small commands leave without waiting for more; twice as many the next time, up to a limit, if nothing is asked meanwhile.
constexpr int kFew = 8, kMostFew = 128;
// A command of so many bytes does not wait for others.
constexpr size_t kLong = size_t{64} << 10;
// A command that does not hurry leaves within this time. After the last message the thread looks for commands for so long.
constexpr absl::Duration kDoze = absl::Milliseconds(20), kDrowsy = absl::Seconds(1);
// After an answer a program is likely to ask again within this time.
constexpr milliseconds kLikely{20};
constexpr milliseconds kLead{50};
constexpr absl::Duration kFirstContact = absl::Seconds(2);
// Between attempts to open a stream: the first pause, which doubles, and the longest.
constexpr absl::Duration kFirstPause = absl::Milliseconds(50), kLongestPause = absl::Seconds(2);

// A forked child has none of gRPC's threads: what its parent opened is the parent's.
std::atomic<int> forks{0};
int Forks() {
  static const bool counts = pthread_atfork(nullptr, nullptr, [] { ++forks; }) == 0;
  return counts ? forks.load(std::memory_order_relaxed) : 0;
}

absl::Status Forked() {
  return absl::FailedPreconditionError(
      "this array was made before a fork, by the parent process, whose session the child does not share; "
      "connect in the child, and hand values over as tensors");
}

// The ends of a stream after which another one may take the session up. gRPC and proxies tell a broken connection by INTERNAL and
// UNKNOWN, too.
bool MayGoOn(grpc::StatusCode code) {
  return code == grpc::StatusCode::UNAVAILABLE || code == grpc::StatusCode::CANCELLED || code == grpc::StatusCode::INTERNAL ||
         code == grpc::StatusCode::UNKNOWN || code == grpc::StatusCode::OK;
}

bool IsUnknownCommand(const v1::Failure& failure) {
  return failure.status().code() == static_cast<int>(absl::StatusCode::kUnimplemented) &&
         ReasonOf(FromProto(failure.status())) == "UNKNOWN_COMMAND";
}

absl::Duration LeaseOf(const v1::SessionOpened& opened) { return FromProto(opened.lease()); }

}  // namespace

Pipeline::Pipeline(Settings settings)
    : settings_(std::move(settings)), most_few_(kFew), last_write_(absl::Now()), process_(Forks()) {}

absl::StatusOr<std::unique_ptr<Pipeline>> Pipeline::Open(Settings settings) {
  std::unique_ptr<Pipeline> pipeline(new Pipeline(std::move(settings)));
  Pipeline& self = *pipeline;
  self.thread_ = std::thread([&self] { self.Live(); });
  std::unique_lock<std::mutex> lock(self.mutex_);
  self.changed_.wait(lock, [&self] { return self.stands_ || !self.is_new_ || !self.stopped_.ok(); });
  if (!self.stopped_.ok()) return self.stopped_;
  lock.unlock();
  return pipeline;
}

Pipeline::~Pipeline() {
  if (process_ != Forks()) {  // The child's copy of the object: no thread of it is here.
    thread_.detach();
    (void)new std::shared_ptr<Stream>(std::move(stream_));
    return;
  }
  {
    std::unique_lock<std::mutex> lock(mutex_);
    if (stands_ && stopped_.ok()) {
      is_finishing_ = true;
      if (stream_ != nullptr) stream_->Kick();
      changed_.wait_for(lock, std::chrono::seconds(1), [this] { return !stopped_.ok(); });
    }
  }
  Stop(absl::CancelledError("the session has ended"));
  thread_.join();
}

size_t Pipeline::most_bytes() const {
  const auto most = static_cast<size_t>(opened_.max_message_bytes());
  return most - std::min(kMargin, most / 2);
}

absl::Status Pipeline::status() {
  if (process_ != Forks()) return Forked();
  std::lock_guard<std::mutex> lock(mutex_);
  return stopped_;
}

absl::Status Pipeline::AppendLocked(absl::string_view command, Place place, bool hurries, uint64_t* number) {
  if (!stopped_.ok()) return stopped_;
  if (command.size() > most_bytes()) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the call takes ", command.size(), " bytes on its way to the server, which takes ", most_bytes(),
                     " in one message (--max_message_bytes); give it fewer arrays or attributes, or a "
                     "graph in parts"));
  }
  *number = batches_.Append(command, place);
  if (batches_.has_dead()) batches_.AppendFree();
  if (++few_ > most_few_) {
    most_few_ = std::min(2 * most_few_, kMostFew);
    hurries = true;
  }
  if (hurries || command.size() >= kLong || is_asleep_) {
    if (!is_full_) Say(false);
    if (is_asleep_ && stream_ != nullptr) {
      is_asleep_ = false;
      stream_->Kick();  // From now on the thread looks for commands that do not hurry.
    }
  }
  return absl::OkStatus();
}

absl::Status Pipeline::Submit(absl::string_view command, Place place, bool hurries) {
  if (process_ != Forks()) return Forked();
  std::unique_lock<std::mutex> lock(mutex_);
  uint64_t number;
  absl::Status status = AppendLocked(command, place, hurries, &number);
  while (status.ok() && batches_.closed_bytes() > kMostBytes) {
    lock.unlock();
    const bool has_led = Lead();
    lock.lock();
    if (!has_led) {
      changed_.wait_for(lock, kLead, [this] { return batches_.closed_bytes() <= kMostBytes || !stopped_.ok(); });
    }
    if (!stopped_.ok()) return stopped_;
  }
  return status;
}

absl::StatusOr<std::shared_ptr<Waiter>> Pipeline::Ask(absl::string_view command, Place place) {
  if (process_ != Forks()) return Forked();
  auto waiter = std::make_shared<Waiter>();
  std::lock_guard<std::mutex> lock(mutex_);
  most_few_ = kFew;
  // The waiter stands before the command can leave.
  const uint64_t expected = batches_.next_number();
  waiters_[expected] = waiter;
  waiter->number = expected;
  const absl::Status status = AppendLocked(command, place, true, &waiter->number);
  if (!status.ok()) {
    waiters_.erase(expected);
    return status;
  }
  return waiter;
}

absl::StatusOr<v1::Reply> Pipeline::Await(const std::shared_ptr<Waiter>& waiter) {
  struct Around {
    Around() {
      if (around_wait) around_wait(true);
    }
    ~Around() {
      if (around_wait) around_wait(false);
    }
  } around;
  std::unique_lock<std::mutex> lock(mutex_);
  while (!waiter->is_done) {
    if (!stopped_.ok()) return stopped_;
    lock.unlock();
    const bool has_led = Lead();
    lock.lock();
    if (!has_led) changed_.wait(lock, [&] { return waiter->is_done || !stopped_.ok(); });
  }
  absl::Status status = ErrorOf(waiter->reply);
  if (!status.ok()) return status;
  return std::move(waiter->reply);
}

absl::StatusOr<v1::Reply> Pipeline::Request(absl::string_view command, Place place) {
  auto waiter = Ask(command, place);
  if (!waiter.ok()) return waiter.status();
  return Await(*waiter);
}

bool Pipeline::IsDone(const std::shared_ptr<Waiter>& waiter) {
  std::lock_guard<std::mutex> lock(mutex_);
  return waiter->is_done || !stopped_.ok();
}

void Pipeline::Note(absl::Status error) {
  std::lock_guard<std::mutex> lock(mutex_);
  noted_.Update(std::move(error));
}

void Pipeline::FreeArray(uint64_t name) {
  if (process_ != Forks()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  batches_.FreeArray(name);
}

void Pipeline::FreeCall(uint64_t name) {
  if (process_ != Forks()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  batches_.FreeCall(name);
}

void Pipeline::FreeGraph(uint64_t name) {
  if (process_ != Forks()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  batches_.FreeGraph(name);
}

void Pipeline::FreeOptimizer(uint64_t name) {
  if (process_ != Forks()) return;
  std::lock_guard<std::mutex> lock(mutex_);
  batches_.FreeOptimizer(name);
}

void Pipeline::set_patience(absl::Duration patience) {
  std::lock_guard<std::mutex> lock(mutex_);
  patience_ = patience;
}

absl::Status Pipeline::ErrorOf(const v1::Reply& reply) {
  if (!noted_.ok()) return std::exchange(noted_, absl::OkStatus());
  if (reply.failures().empty() && unasked_.empty()) return absl::OkStatus();
  const absl::Status status = Describe(unasked_.empty() ? reply.failures(0) : unasked_.front(), reply.number());
  unasked_.clear();
  return status;
}

absl::Status Pipeline::Describe(const v1::Failure& failure, uint64_t asking) {
  const absl::Status told = FromProto(failure.status());
  std::string text(told.message());
  const std::string traceback = TracebackOf(told);
  if (!traceback.empty()) absl::StrAppend(&text, "\nThe custom operator's own words:\n", traceback);
  const std::string line = failure.command() == asking ? "" : batches_.LineOf(failure.command());
  if (!line.empty()) absl::StrAppend(&text, "\nThe call that failed: ", line);
  absl::Status status(told.code(), text);
  told.ForEachPayload([&status](absl::string_view url, const absl::Cord& payload) { status.SetPayload(url, payload); });
  return status;
}

void Pipeline::Say(bool is_sign_of_life) {
  if (!stands_ || stream_ == nullptr) return;
  few_ = 0;
  batches_.AppendFree();
  while (!is_full_ && batches_.has_unsent()) {
    last_write_ = absl::Now();
    is_full_ = stream_->Write(batches_.Take(replies_)) > kMostWaitingBytes;
    unacknowledged_bytes_ = 0;
    is_sign_of_life = false;
  }
  if (is_full_) {
    stream_->SayWhenWritten();
  } else if (is_sign_of_life || unacknowledged_bytes_ > kBatchBytes) {
    last_write_ = absl::Now();
    std::string received;
    AppendNumber(v1::SessionRequest::kRepliesReceivedFieldNumber, replies_, &received);
    stream_->Write(received);
    unacknowledged_bytes_ = 0;
  }
}

bool Pipeline::Lead() {
  std::shared_ptr<Stream> stream;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!stands_) return false;
    stream = stream_;
  }
  if (stream == nullptr) return false;
  const int64_t event = stream->Lead(kLead);
  if (event >= 0) {
    Take(*stream, event);
  } else if (event == Stream::kWritable) {
    std::lock_guard<std::mutex> lock(mutex_);
    is_full_ = false;
    Say(false);
  }
  return event >= Stream::kWritable;
}

void Pipeline::Take(Stream& stream, int64_t size) {
  std::string data(static_cast<size_t>(size), '\0');
  const int64_t number = stream.Copy(data.data(), size);
  if (number == 0) return;
  v1::SessionResponse response;
  if (response.ParseFromString(data)) {
    Receive(&response, data.size());
  } else {
    stream.Cancel();
  }
  stream.Drop(number);
}

void Pipeline::Receive(v1::SessionResponse* message, size_t size) {
  const v1::SessionResponse& response = *message;
  std::lock_guard<std::mutex> lock(mutex_);
  if (response.has_opened() && !stands_) {
    if (response.opened().protocol() < kLowestOfServer) {
      stopped_ = absl::FailedPreconditionError(absl::StrCat("the server at ", settings_.address, " is too old: it speaks protocol ",
                                                            response.opened().protocol(), ", and this client needs ",
                                                            kLowestOfServer, "; start a newer server"));
      if (stream_ != nullptr) stream_->Cancel();
      changed_.notify_all();
      return;
    }
    if (is_new_) opened_ = response.opened();
    is_new_ = false;
    batches_.most_bytes = most_bytes();
    batches_.DropReceived(response.received());
    batches_.SendAgain();
    stands_ = true;
    pause_ = absl::ZeroDuration();
  } else if (!stands_) {
    if (stream_ != nullptr) stream_->Cancel();
    return;
  }
  batches_.DropReceived(response.received());
  for (v1::Reply& reply : *message->mutable_replies()) {
    if (reply.index() <= replies_) continue;  // It came before, over another stream.
    replies_ = reply.index();
    const auto waiter = waiters_.find(reply.number());
    if (waiter != waiters_.end()) {
      waiter->second->reply.Swap(&reply);
      waiter->second->is_done = true;
      waiters_.erase(waiter);
    } else {
      for (const v1::Failure& failure : reply.failures()) {
        if (IsUnknownCommand(failure)) unasked_.push_back(failure);
      }
    }
  }
  unacknowledged_bytes_ += size;
  if (unacknowledged_bytes_ > kBatchBytes && !is_full_) Say(false);
  changed_.notify_all();
}

void Pipeline::Stop(absl::Status status) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (stopped_.ok()) stopped_ = std::move(status);
  is_ending_ = true;
  waiters_.clear();
  if (stream_ != nullptr) stream_->Kick();
  changed_.notify_all();
}

void Pipeline::Live() {
  absl::Duration pause = absl::ZeroDuration();
  while (pause >= absl::ZeroDuration()) {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait_for(lock, absl::ToChronoNanoseconds(pause), [this] { return is_ending_; });
      if (is_ending_) return;
    }
    pause = Closed(RunStream());
  }
}

grpc::Status Pipeline::RunStream() {
  auto channel = settings_.new_channel();
  if (!channel.ok())
    return grpc::Status(static_cast<grpc::StatusCode>(channel.status().code()), std::string(channel.status().message()));
  v1::SessionRequest hello;
  v1::OpenSession& open = *hello.mutable_open();
  open.set_session(opened_.session());
  open.set_client_id(settings_.client_id);
  open.set_protocol(kProtocol);
  for (const char* feature : kFeatures) open.add_features(feature);
  if (opened_.session().empty()) {
    open.set_host(settings_.host);
    open.set_device(settings_.device);
  }
  const auto stream = std::make_shared<Stream>(*std::move(channel), kMethod, hello.SerializeAsString());
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stream_ = stream;
    is_full_ = false;
    last_write_ = absl::Now();
  }
  Attend(*stream);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stream_ = nullptr;
    stands_ = false;
  }
  stream->Close();
  return stream->status();
}

void Pipeline::Attend(Stream& stream) {
  bool has_finished = false, has_cancelled = false;
  while (true) {
    milliseconds patience;
    milliseconds pause;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      const absl::Duration beat = stands_ ? std::max(absl::Seconds(1), LeaseOf(opened_) / 3) : absl::Seconds(20);
      const absl::Duration since = absl::Now() - last_write_;
      const bool dozes = since < kDrowsy;
      is_asleep_ = !dozes;
      if (!is_full_) Say(since >= beat);
      if (is_finishing_ && !has_finished) stream.Finish(), has_finished = true;
      if (is_ending_ && !has_cancelled) stream.Cancel(), has_cancelled = true;
      patience = absl::ToChronoMilliseconds(dozes ? kDoze : std::max(kDoze, beat - since));
      pause = waiters_.empty() ? kLikely : milliseconds(0);
    }
    const int64_t event = stream.Attend(patience, pause);
    is_asleep_ = false;
    if (event == Stream::kEnded) return;
    if (event >= 0) {
      Take(stream, event);
    } else if (event == Stream::kWritable) {
      std::lock_guard<std::mutex> lock(mutex_);
      is_full_ = false;
    }
  }
}

absl::Duration Pipeline::Closed(const grpc::Status& end) {
  constexpr absl::Duration kNever = -absl::InfiniteDuration();
  const absl::Status server = settings_.check_server();
  std::unique_lock<std::mutex> lock(mutex_);
  const absl::Time now = absl::Now();
  if (pause_ == absl::ZeroDuration() && !is_new_) {
    broken_at_ = now;
    why_ = end.error_message();
  }
  const absl::Duration pause = pause_;
  pause_ = std::min(std::max(2 * pause, kFirstPause), kLongestPause);
  const absl::Duration seconds = is_new_ ? kFirstContact : std::max(LeaseOf(opened_), patience_);
  absl::Status stop;
  if (is_finishing_ || is_ending_) {
    stop = absl::CancelledError("the session has ended");
  } else if (!stopped_.ok()) {
    stop = stopped_;
  } else if (!server.ok()) {
    stop = server;
  } else if (!MayGoOn(end.error_code()) || now + pause > broken_at_ + seconds) {
    const std::string details = end.error_message();
    const auto code =
        static_cast<absl::StatusCode>(end.error_code() == grpc::StatusCode::OK ? grpc::StatusCode::UNAVAILABLE : end.error_code());
    std::string text;
    if (is_new_ && IsUnreachable(end)) {
      text = absl::StrCat("no gluond-server can be reached at ", settings_.address, ": ", details, ". ", WayOut(end));
    } else if (is_new_) {
      text = absl::StrCat("the server at ", settings_.address, " opens no session: ", details, " ", WayOut(end));
    } else {
      text = absl::StrCat("the session with the server at ", settings_.address, " is lost: ", details);
      if (!why_.empty() && why_ != details) absl::StrAppend(&text, " (The stream before had ended with: ", why_, ")");
      absl::StrAppend(&text, ". Every array of the session is gone; a new session makes or loads arrays anew");
    }
    stop = absl::Status(code, text);
  }
  if (stop.ok()) return pause;
  lock.unlock();
  Stop(std::move(stop));
  return kNever;
}

}  // namespace gluond::client
