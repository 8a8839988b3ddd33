#include "client/cpp/stream.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace gluond::client {
namespace {

// After a thread's message the attending one is woken for its pause only where that is shorter: a wake is a part of a round trip.
// Without a pause somebody has been in Lead(), who is woken for anyhow.
constexpr std::chrono::milliseconds kBriefly{5};
// A thread that has not dropped its message after so long has been interrupted.
constexpr std::chrono::seconds kHeld{1};
// A longer message may not find room in the socket, so that somebody must see to its rest.
constexpr size_t kLarge = 64 << 10;
// gRPC's queue returns these.
enum Tag : intptr_t { kRead = 1, kWritten, kHalfClosed, kFinished, kAlarm };

void* TagOf(Tag tag) { return reinterpret_cast<void*>(tag); }

}  // namespace

Stream::Stream(std::shared_ptr<grpc::Channel> channel, const std::string& method, absl::string_view hello)
    : channel_(std::move(channel)),
      context_(std::make_unique<grpc::ClientContext>()),
      queue_(std::make_unique<grpc::CompletionQueue>()),
      alarm_(std::make_unique<grpc::Alarm>()) {
  context_->set_initial_metadata_corked(true);  // It leaves with the first message.
  grpc::GenericStub stub(channel_);
  call_ = stub.PrepareCall(context_.get(), method, queue_.get());
  call_->StartCall(nullptr);
  Write(hello);
}

Stream::~Stream() { Close(); }

int64_t Stream::Write(absl::string_view message) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (is_ending_ || call_ == nullptr) return 0;
  // The earlier message has usually left, and only nobody has asked yet.
  if (is_writing_ && !is_asked_) Glance(lock);
  const grpc::Slice slice(message.data(), message.size());
  unwritten_.emplace_back(&slice, 1);
  unwritten_bytes_ += static_cast<int64_t>(message.size());
  if (!is_writing_) StartWrite();
  if (message.size() >= kLarge && is_writing_ && !is_asked_) Glance(lock);
  if (!unwritten_.empty() || (message.size() >= kLarge && is_writing_)) changed_.notify_all();
  return unwritten_bytes_ + writing_bytes_;
}

void Stream::StartWrite() {
  if (unwritten_.empty()) {
    if (finishes_ && !has_finished_ && !is_ending_) {
      has_finished_ = true;
      is_writing_ = true;
      call_->WritesDone(TagOf(kHalfClosed));
    }
    return;
  }
  grpc::ByteBuffer message;
  message.Swap(&unwritten_.front());
  unwritten_.pop_front();
  writing_bytes_ = static_cast<int64_t>(message.Length());
  unwritten_bytes_ -= writing_bytes_;
  is_writing_ = true;
  call_->Write(message, TagOf(kWritten));
}

void Stream::SayWhenWritten() {
  std::lock_guard<std::mutex> lock(mutex_);
  says_when_written_ = true;
}

void Stream::Finish() {
  std::lock_guard<std::mutex> lock(mutex_);
  finishes_ = true;
  if (call_ != nullptr && !is_ending_ && !is_writing_) StartWrite();
}

void Stream::Cancel() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (context_ != nullptr) context_->TryCancel();
}

void Stream::Kick() {
  std::lock_guard<std::mutex> lock(mutex_);
  is_kicked_ = true;
  changed_.notify_all();
  if (is_asked_ && !has_alarm_) {
    has_alarm_ = true;
    alarm_->Set(queue_.get(), std::chrono::system_clock::now(), TagOf(kAlarm));
  }
}

void Stream::Ask(std::unique_lock<std::mutex>& lock, Clock::time_point deadline) {
  if (!is_reading_ && number_ == 0 && !is_ending_) {
    is_reading_ = true;
    call_->Read(&received_, TagOf(kRead));
  }
  is_asked_ = true;
  lock.unlock();
  void* tag = nullptr;
  bool ok = false;
  const auto wait = std::max(Clock::duration::zero(), deadline - Clock::now());
  const auto got = queue_->AsyncNext(&tag, &ok, std::chrono::system_clock::now() + wait);
  lock.lock();
  is_asked_ = false;
  if (got == grpc::CompletionQueue::GOT_EVENT) Take(tag, ok);
}

void Stream::Glance(std::unique_lock<std::mutex>& lock) {
  Ask(lock, Clock::now());
  if (waits_for_asker_ || is_wanted_) changed_.notify_all();  // This thread does not go on asking, as one in Lead() does.
}

void Stream::Take(void* tag, bool ok) {
  switch (static_cast<Tag>(reinterpret_cast<intptr_t>(tag))) {
    case kRead:
      is_reading_ = false;
      if (ok) {
        number_ = ++messages_;
        holder_ = {};
      } else {
        StartFinish();
      }
      break;
    case kWritten:
      is_writing_ = false;
      writing_bytes_ = 0;
      if (ok && !is_ending_) {
        StartWrite();
      } else {
        unwritten_.clear();  // The reading end tells why.
        unwritten_bytes_ = 0;
      }
      break;
    case kHalfClosed: is_writing_ = false; break;
    case kFinished: has_ended_ = true; break;
    case kAlarm: has_alarm_ = false; break;
  }
}

void Stream::StartFinish() {
  if (is_ending_) return;
  is_ending_ = true;
  call_->Finish(&status_, TagOf(kFinished));
}

int64_t Stream::Found() {
  if (number_ != 0) {
    const bool is_mine = holder_ == std::thread::id() || holder_ == std::this_thread::get_id();
    return is_mine || Clock::now() >= last_ + kHeld ? static_cast<int64_t>(received_.Length()) : kBusy;
  }
  if (has_ended_) return kEnded;
  if (says_when_written_ && !IsBusyWriting()) {
    says_when_written_ = false;
    return kWritable;
  }
  return kNothing;
}

bool Stream::IsBrief() const { return pause_.count() > 0 && pause_ < kBriefly; }

int64_t Stream::Hold(int64_t found) {
  last_ = Clock::now();
  if (found >= 0) holder_ = std::this_thread::get_id();
  return found;
}

int64_t Stream::Lead(std::chrono::milliseconds patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (queue_ == nullptr) return kEnded;
  int64_t found = Found();
  if (found == kBusy || (found == kNothing && is_asked_)) {
    is_wanted_ = true;
    return kBusy;
  }
  ++inside_;
  const Clock::time_point deadline = Clock::now() + patience;
  while (found == kNothing && !is_asked_ && Clock::now() < deadline) {
    Ask(lock, deadline);
    found = Found();
  }
  --inside_;
  if (found < 0 && (is_wanted_ || has_ended_ || IsBrief())) changed_.notify_all();  // Else Drop() does so.
  return Hold(found);
}

int64_t Stream::Attend(std::chrono::milliseconds patience, std::chrono::milliseconds pause) {
  std::unique_lock<std::mutex> lock(mutex_);
  pause_ = pause;
  const Clock::time_point deadline = Clock::now() + patience;
  while (queue_ != nullptr && !has_ended_ && !std::exchange(is_kicked_, false)) {
    const Clock::time_point now = Clock::now();
    int64_t found = Found();
    const Clock::time_point due = last_ + (found == kBusy ? kHeld : pause);
    const bool is_mine = found != kBusy && !is_asked_ && (is_wanted_ || IsBusyWriting() || is_ending_ || now >= due);
    if (is_mine && found == kNothing && now < deadline) {
      Ask(lock, deadline);
      found = Found();
    }
    if (is_mine && found >= 0) is_wanted_ = false;  // The thread that was in Lead() asks for itself the next time.
    if (found == kWritable || found == kEnded || (is_mine && found >= 0)) return Hold(found);
    if (now >= deadline) return kNothing;
    if (!is_mine) {
      waits_for_asker_ = is_asked_;
      changed_.wait_until(lock, is_asked_ ? deadline : std::min(deadline, due));
      waits_for_asker_ = false;
    }
  }
  return has_ended_ || queue_ == nullptr ? kEnded : kNothing;
}

int64_t Stream::Copy(char* to, int64_t size) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (number_ == 0 || static_cast<int64_t>(received_.Length()) != size) return 0;
  std::vector<grpc::Slice> slices;
  if (!received_.Dump(&slices).ok()) return 0;
  for (const grpc::Slice& slice : slices) {
    std::memcpy(to, slice.begin(), slice.size());
    to += slice.size();
  }
  return number_;
}

void Stream::Drop(int64_t number) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (number_ != number) return;
  number_ = 0;
  received_.Clear();
  if (is_wanted_ || IsBrief()) changed_.notify_all();
}

grpc::Status Stream::status() {
  std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

void Stream::Close() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (queue_ == nullptr) return;
  context_->TryCancel();
  number_ = 0;
  while (!has_ended_ || is_writing_ || is_reading_ || inside_ > 0) {
    if (is_asked_) {
      changed_.wait_for(lock, std::chrono::milliseconds(1));
    } else {
      Ask(lock, Clock::now() + std::chrono::milliseconds(10));
    }
    number_ = 0;
  }
  alarm_->Cancel();
  queue_->Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_->Next(&tag, &ok)) {
  }
  call_.reset();
  alarm_.reset();
  context_.reset();
  queue_.reset();
  channel_.reset();
}

}  // namespace gluond::client
