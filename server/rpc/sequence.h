// Sequences gives every mutating call of a client its place, so that none is applied twice. Per client and model the
// next number is the last applied + 1. The same number with the same payload gets the first answer again; with another
// payload it is INVALID_ARGUMENT; a gap is FAILED_PRECONDITION and names the last applied. A call that failed has not
// used its number up. For one client and model, one numbered call runs at a time: those that arrive meanwhile wait for
// its end, and are judged then, in the order of their numbers. Thread-safe.
//
// Answers are kept for repetitions within a budget of bytes for all streams: the oldest go first, and all after a time.
// The numbers applied stay known: a repetition whose answer is gone is FAILED_PRECONDITION, and is not applied again.
//
// Tenants are owners of streams, and so are all other clients together. Where there are too many streams, or too many bytes
// of answers, the owner who takes most loses some; one who has his equal share of the streams loses his own for more.
//
// A model's numbers outlive the process together with its state. Between Pause and Resume no numbered call on the model
// runs, so that a snapshot of the model has in it exactly the calls that Pause tells; after MadeDurable a crash cannot
// take these back. A long call lets pauses come between its steps (Turn::Between): such a pause counts it as applied.
// The next process begins with Restore. A client whose later calls are lost with the old process gets ABORTED then,
// with the reason REWOUND and the last number that is left.

#ifndef SERVER_RPC_SEQUENCE_H_
#define SERVER_RPC_SEQUENCE_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/mutex.h"

namespace gluond::server {

class Sequences {
 public:
  using Clock = std::chrono::steady_clock;

  // One stream keeps so many answers, and so many bytes of them, but for the last one.
  static constexpr size_t kAnswersKept = 64;
  static constexpr size_t kAnswerBytesKept = 1 << 20;
  // Bytes that an answer takes beside its text.
  static constexpr size_t kAnswerOverhead = 256;

  // `post` runs the calls that waited, since they would begin where another one ends: on a lane, perhaps.
  using Post = std::function<void(std::function<void()>)>;
  // The most streams of a tenant, which owns the clients whose names begin with its own (engine/runtime/tenant_name.h);
  // nothing: there is no such tenant.
  using MostOfTenant = std::function<std::optional<int64_t>(absl::string_view tenant)>;
  explicit Sequences(int64_t max_streams, Post post = [](const auto& work) { work(); },
                     int64_t max_answer_bytes = int64_t{256} << 20, MostOfTenant most_of_tenant = nullptr)
      : max_streams_(static_cast<size_t>(max_streams)), max_answer_bytes_(static_cast<size_t>(max_answer_bytes)),
        post_(std::move(post)), most_of_tenant_(std::move(most_of_tenant)) {}

  // The last call's end, on another thread, lies before it.
  ~Sequences() { MutexLock lock(mu_); }

  // The right to run the call of one number. The number is used up by Applied; not, when the turn is destroyed before.
  class Turn {
   public:
    using End = std::function<void(std::shared_ptr<const std::string> answer)>;
    using GoOn = std::function<void()>;
    Turn(End end, std::function<void(GoOn)> between) : end_(std::move(end)), between_(std::move(between)) {}
    ~Turn() { if (end_) end_(nullptr); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    // Keeps the serialized `answer` for repetitions.
    void Applied(std::string answer) {
      std::exchange(end_, nullptr)(std::make_shared<const std::string>(std::move(answer)));
    }
    // The call is between two steps, and has taken some. `go_on` is called when the model is not paused: at once, or by
    // another caller's thread. The turn lives until then.
    void Between(GoOn go_on) { between_(std::move(go_on)); }

   private:
    End end_;
    const std::function<void(GoOn)> between_;
  };

  struct Arrival {
    std::string client;
    std::string model;
    uint64_t number = 0;
    uint64_t payload = 0;  // Hash of the request.
    // One of these is called, once, now or later, from this or from another caller's thread.
    std::function<void(std::unique_ptr<Turn>)> run;
    std::function<void(const std::string& answer)> replay;
    std::function<void(absl::Status)> refuse;
  };
  void Arrive(Arrival arrival);

  // The last number applied; 0 where there was none.
  uint64_t Last(const std::string& client, const std::string& model) const;
  // The last number that a crash cannot take back; 0 where there is none.
  uint64_t Durable(const std::string& client, const std::string& model) const;

  // The last number applied of each client of a model, by the client's name.
  using Numbers = std::vector<std::pair<std::string, uint64_t>>;
  // Calls `paused` when no numbered call on the model runs any more, on this thread or on another caller's; none begins
  // until Resume. Several pauses of a model come one after the other.
  using Paused = std::function<void(Numbers applied)>;
  void Pause(const std::string& model, Paused paused);
  void Resume(const std::string& model);
  // A crash cannot take back these calls on the model.
  void MadeDurable(const std::string& model, const Numbers& applied);
  // A crash takes back every call on the model: it has gone from the store.
  void ForgetDurable(const std::string& model);
  // The numbers of an earlier process. Before the first call.
  void Restore(const std::string& model, const Numbers& applied);
  // There was an earlier process: a client of whom nothing is known may have had numbers there. Before the first call.
  void ExpectRewound() { rewound_ = true; }

  // Drops the answers of calls on the model: it is no more.
  void DropAnswersOf(const std::string& model);
  // Drops the answers that are older than `age`.
  void DropAnswersOlderThan(Clock::duration age, Clock::time_point now = Clock::now());
  // Bytes that all answers take now.
  size_t answer_bytes() const;

 private:
  using Key = std::pair<std::string, std::string>;
  struct Stream;
  // An answer's place among all of its owner's.
  struct Age {
    Stream* stream;
    Clock::time_point since;
  };
  struct Answer {
    uint64_t number;
    uint64_t payload;
    std::shared_ptr<const std::string> text;
    std::list<Age>::iterator age;

    size_t bytes() const { return text->size() + kAnswerOverhead; }
  };
  struct Owner {
    std::list<Key> streams;  // Least recently used first.
    std::list<Age> answers;  // Oldest first; points into streams_.
    size_t answer_bytes = 0;
  };
  // By the tenant's name; those of no tenant have an empty one. Each has streams.
  using Owners = std::map<std::string, Owner, std::less<>>;
  struct Stream {
    uint64_t last = 0;
    uint64_t durable = 0;
    bool is_rewound = false;     // `last` comes from an earlier process, which may have applied more.
    std::deque<Answer> answers;  // For the numbers up to `last`, without gap; none where all were dropped.
    size_t answer_bytes = 0;
    bool running = false;
    std::function<void()> go_on;  // Set where the call that runs is between two steps, while the model is paused.
    std::multimap<uint64_t, Arrival> waiting;
    Owners::iterator owner;
    std::list<Key>::iterator age;  // Among its owner's.
  };
  using Streams = std::map<Key, Stream>;

  // Functions to call once the lock is free.
  using Verdicts = std::vector<std::function<void()>>;
  struct Pauses {
    bool begun = false;          // The first one's `paused` was called.
    std::deque<Paused> waiting;  // The first one among them until Resume.
  };
  bool IsPaused(const Key& key) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return pauses_.contains(key.second); }
  // Begins the model's first pause if nothing runs.
  void BeginPause(const std::string& model, Verdicts* verdicts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Judge(Stream& stream, Arrival arrival, Verdicts* verdicts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void JudgeWaiting(const Key& key, Stream& stream, Verdicts* verdicts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Stream*> FindOrAdd(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ForgetIfNew(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Forget(Streams::iterator stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Forgets the owner's stream that was silent longest and has no call under way. Whether there was one.
  bool ForgetOldest(const Owner& owner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes room for one more stream of the owner.
  absl::Status MakeRoomFor(absl::string_view owner, std::optional<int64_t> most) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Between(const Key& key, Turn::GoOn go_on);
  void Ended(const Key& key, uint64_t number, uint64_t payload, std::shared_ptr<const std::string> answer);
  void Keep(Stream& stream, Answer answer) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropOldestOf(Stream& stream) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const size_t max_streams_;
  const size_t max_answer_bytes_;
  const Post post_;
  const MostOfTenant most_of_tenant_;
  bool rewound_ = false;
  mutable Mutex mu_;
  Streams streams_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, Pauses> pauses_ ABSL_GUARDED_BY(mu_);  // By model; none without a pause.
  Owners owners_ ABSL_GUARDED_BY(mu_);
  size_t answer_bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_SEQUENCE_H_
