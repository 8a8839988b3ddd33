// Pipeline: the command stream of one session. Commands leave in order, each is applied exactly once, answers find who waits.
//
// Submit only appends: commands that are given while a message is being written leave with the next one. A few small commands wait
// for the next one, which usually asks for their result; if none comes, the pipeline's own thread sends them soon. Messages are
// kept until the server has received them, and are sent again over a new stream when the old one breaks.

#ifndef GLUOND_CLIENT_CPP_SESSION_PIPELINE_H_
#define GLUOND_CLIENT_CPP_SESSION_PIPELINE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "client/cpp/session/batches.h"
#include "client/cpp/stream.h"
#include "gluond/place.h"
#include "gluond/v1/session.pb.h"
#include "grpcpp/grpcpp.h"

namespace gluond::client {

// One that waits for the answer to a command. Guarded by the pipeline.
struct Waiter {
  uint64_t number = 0;
  bool is_done = false;
  v1::Reply reply;
};

// Thread-safe. The mutex is never held while waiting.
class Pipeline {
 public:
  struct Settings {
    std::string address;
    std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>()> new_channel;
    std::string client_id;
    std::string host;    // OpenSession.host.
    std::string device;  // OpenSession.device.
    // Why the server is not there any more; OK: it may be there.
    std::function<absl::Status()> check_server = [] { return absl::OkStatus(); };
  };

  // Opens the session. UNAVAILABLE: nobody answers.
  static absl::StatusOr<std::unique_ptr<Pipeline>> Open(Settings settings);
  ~Pipeline();  // Ends the session, if the server answers within a second.
  Pipeline(const Pipeline&) = delete;

  const v1::SessionOpened& opened() const { return opened_; }
  // The most bytes of commands, or of values, in a message.
  size_t most_bytes() const;

  // Appends a command. Waits only while very much is on its way. The pipeline's error: it has stopped.
  // hurries: the command leaves without waiting for others.
  absl::Status Submit(absl::string_view command, Place place, bool hurries = false);
  // Appends a command that is answered.
  absl::StatusOr<std::shared_ptr<Waiter>> Ask(absl::string_view command, Place place);
  // Its answer. The error of the command's failures: each tells the line of the call that failed.
  absl::StatusOr<v1::Reply> Await(const std::shared_ptr<Waiter>& waiter);
  absl::StatusOr<v1::Reply> Request(absl::string_view command, Place place);
  // Whether the answer is there.
  bool IsDone(const std::shared_ptr<Waiter>& waiter);

  // An error of a command that could not be given, and makes no array: whoever waits next is told.
  void Note(absl::Status error);

  void FreeArray(uint64_t name);
  void FreeCall(uint64_t name);
  void FreeGraph(uint64_t name);
  void FreeOptimizer(uint64_t name);

  // A broken stream is taken up again for so long, or for the lease where that is longer: the server keeps what was saved.
  void set_patience(absl::Duration patience);
  // Why it takes no more commands; OK: it does.
  absl::Status status();

 private:
  explicit Pipeline(Settings settings);

  // All with `lock` held.
  void Say(bool is_sign_of_life);
  absl::Status AppendLocked(absl::string_view command, Place place, bool hurries, uint64_t* number);
  absl::Status ErrorOf(const v1::Reply& reply);
  absl::Status Describe(const v1::Failure& failure, uint64_t asking);

  // Waits for an event of the stream, and takes it. False: another thread does, or there is none.
  bool Lead();
  void Take(Stream& stream, int64_t size);
  void Receive(v1::SessionResponse* message, size_t size);
  void Stop(absl::Status status);

  // The pipeline's own thread.
  void Live();
  grpc::Status RunStream();
  void Attend(Stream& stream);
  // The time until the next attempt; a negative one: there is none.
  absl::Duration Closed(const grpc::Status& end);

  const Settings settings_;
  v1::SessionOpened opened_;  // Set before the session stands, and not changed.

  std::mutex mutex_;
  std::condition_variable changed_;  // Answers, room, the end.
  std::shared_ptr<Stream> stream_;   // All from here on are guarded by mutex_.
  Batches batches_;
  std::unordered_map<uint64_t, std::shared_ptr<Waiter>> waiters_;
  std::vector<v1::Failure> unasked_;  // Failures of commands that have no answer here.
  absl::Status noted_;                // The first of Note().
  uint64_t replies_ = 0;
  size_t unacknowledged_bytes_ = 0;
  int few_ = 0;   // Commands that wait for others, ...
  int most_few_;  // ... and how many may.
  bool stands_ = false;
  bool is_new_ = true;    // Whether no session has stood yet.
  bool is_full_ = false;  // Nothing is written before the rest has left.
  bool is_finishing_ = false;
  bool is_ending_ = false;
  absl::Status stopped_;
  std::string why_;  // The end of the last stream that stood.
  absl::Time last_write_, broken_at_ = absl::Now();
  absl::Duration pause_, patience_ = absl::ZeroDuration();
  std::atomic<bool> is_asleep_{false};  // Whether the thread looks for no command before it is woken.
  const int process_;                   // Counts the forks before it.
  std::thread thread_;
};

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_SESSION_PIPELINE_H_
