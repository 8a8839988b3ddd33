// Stream: one bidirectional stream of bytes, for a program whose own threads write and read it, with a thread of the program's
// that attends to it whenever they do not.

#ifndef GLUOND_CLIENT_CPP_STREAM_H_
#define GLUOND_CLIENT_CPP_STREAM_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"
#include "grpcpp/alarm.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace gluond::client {

// A thread that waits for an answer asks gRPC for it: no thread must be woken for it, and a round trip changes none. Where nobody
// waits, the attending thread asks. The thread that gets a message holds the message until it drops the message, so that only one
// thread has it. But a thread that has kept a message for a second, as an interrupted thread does, may lose the message to
// another. Thread-safe.
class Stream {
 public:
  enum Event : int64_t {
    kNothing = -1,   // The time has passed, or Kick() was called.
    kWritable = -2,  // All has been written, which SayWhenWritten() asked for.
    kEnded = -3,     // The stream has ended: status().
    kBusy = -4,      // Another thread asks gRPC, or holds a message.
  };

  // Opens the stream with its first message. method: `/package.Service/Method`.
  Stream(std::shared_ptr<grpc::Channel> channel, const std::string& method, absl::string_view hello);
  ~Stream();

  // Sends a copy of the message after the earlier ones. Never waits. Returns the bytes that gRPC has not taken yet.
  int64_t Write(absl::string_view message);
  // Has Attend() or Lead() return kWritable when all has been written.
  void SayWhenWritten();
  // Says that no message will follow; the server then ends the stream.
  void Finish();
  // Ends the stream.
  void Cancel();
  // Has Attend() return.
  void Kick();

  // The next event for a thread that waits for an answer, or the size of the message that has come. kBusy: the attending thread
  // asks from now on, as soon as no other does, until it gets a message.
  int64_t Lead(std::chrono::milliseconds patience);
  // The same for the attending thread, which asks where no other thread does. That is so when Lead() was busy or when something
  // large is to be written, and when nobody has asked, and no message has come, for so long a pause. The attending thread may
  // notice late that a long pause is over. Never kBusy.
  int64_t Attend(std::chrono::milliseconds patience, std::chrono::milliseconds pause);

  // Copies the message that has come. Returns its number, or 0: it has another size, and is another one by now.
  int64_t Copy(char* to, int64_t size);
  // Drops the message of this number, if that has not happened yet: only then the next one is received.
  void Drop(int64_t number);

  // After kEnded.
  grpc::Status status();
  // Ends the stream and leaves gRPC, with the channel: no thread is within it when this returns. For the attending thread.
  void Close();

 private:
  using Clock = std::chrono::steady_clock;

  // Asks gRPC for one event and takes it. Requires: nobody asks.
  void Ask(std::unique_lock<std::mutex>& lock, Clock::time_point deadline);
  // Asks for an event that has come already.
  void Glance(std::unique_lock<std::mutex>& lock);
  // The event that this thread gets, or kNothing; kBusy: another thread holds a message.
  int64_t Found();
  // The same; this thread then holds the message.
  int64_t Hold(int64_t found);
  void Take(void* tag, bool ok);
  void StartWrite();
  void StartFinish();
  bool IsBrief() const;  // Whether the attending thread is woken for its pause.
  bool IsBusyWriting() const { return is_writing_ || !unwritten_.empty(); }

  std::mutex mutex_;
  std::condition_variable changed_;  // For the attending thread.
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::CompletionQueue> queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
  std::unique_ptr<grpc::Alarm> alarm_;
  std::deque<grpc::ByteBuffer> unwritten_;
  int64_t unwritten_bytes_ = 0;
  int64_t writing_bytes_ = 0;
  bool is_writing_ = false;
  bool says_when_written_ = false;
  bool finishes_ = false;      // Whether the half-close is due, ...
  bool has_finished_ = false;  // ... and has been given.
  grpc::ByteBuffer received_;  // The message that is being read, or has come.
  int64_t number_ = 0;         // The number of the message that has come; 0: there is none.
  int64_t messages_ = 0;
  std::thread::id holder_;  // The thread that has got the message; none: nobody yet.
  bool is_reading_ = false;
  bool is_ending_ = false;  // Whether the status is asked for.
  bool has_ended_ = false;
  grpc::Status status_;
  bool is_asked_ = false;   // Whether a thread asks gRPC.
  bool is_wanted_ = false;  // Whether Lead() was busy.
  bool is_kicked_ = false;
  bool has_alarm_ = false;
  int inside_ = 0;                      // Threads in Lead().
  bool waits_for_asker_ = false;        // Whether Attend() waits until the asking thread leaves.
  std::chrono::milliseconds pause_{0};  // Attend()'s.
  Clock::time_point last_;              // When a thread in Lead() has asked, or Attend() has got a message.
};

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_STREAM_H_
