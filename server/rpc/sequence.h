// Sequences gives every mutating call of a client its place, so that none is applied twice. Per client and model the
// next number is the last applied + 1. The same number with the same payload gets the first answer again; with another
// payload it is INVALID_ARGUMENT; a gap is FAILED_PRECONDITION and names the last applied. A call that failed has not
// used its number up. For one client and model, one numbered call runs at a time: those that arrive meanwhile wait for
// its end, and are judged then, in the order of their numbers. Thread-safe.
//
// Answers are kept for repetitions (answer_cache.h). The numbers applied stay known: a repetition whose answer is gone is
// FAILED_PRECONDITION, and is not applied again. A client that is silent for long is only a number any more (silent_clients.h),
// and so is one that makes room for another. Where there are too many clients, an identity takes the place of another of its
// clients. While it has less than its equal share it takes a place of whoever has most: nobody within his share loses a place.
//
// A model's numbers outlive the process together with its state. Between Pause and Resume no numbered call on the model runs,
// so that a snapshot of the model has in it exactly the calls that Pause tells. After MadeDurable a crash cannot take these
// back. A long call lets pauses come between its steps (Turn::Between): such a pause counts it as applied, in part. The next
// process begins with Restore. A client whose later calls are lost with the old process gets ABORTED then, with the reason
// REWOUND and the last number that is left. So does a client of whose last call a part is left, which he may take for the
// whole, until he asks.
//
// Calls may leave something for later calls that no snapshot has, as a backward pass leaves gradients. These calls are in
// the snapshot's numbers, but a crash takes back what they have left: they become durable together with a call that
// settles them, as a step does.

#ifndef SERVER_RPC_SEQUENCE_H_
#define SERVER_RPC_SEQUENCE_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/core/mutex.h"
#include "server/rpc/answer_cache.h"
#include "server/rpc/holdings.h"
#include "server/rpc/silent_clients.h"
#include "server/start/limits.h"

namespace gluond::server {

class Sequences {
  struct Key {
    std::string client;
    std::string model;
  };

 public:
  using Clock = std::chrono::steady_clock;

  // `post` runs the calls that waited, since they would begin where another one ends: on a lane, perhaps.
  using Post = std::function<void(std::function<void()>)>;
  // A Post that runs the work there and then.
  static void AtOnce(const std::function<void()>& work) { work(); }
  // The most clients of a tenant, which owns those whose names begin with its own (engine/runtime/tenant_name.h);
  // nothing: there is no such tenant.
  using MostOfTenant = std::function<std::optional<int64_t>(absl::string_view tenant)>;
  explicit Sequences(const Limits& limits, Post post = &AtOnce, MostOfTenant most_of_tenant = nullptr)
      : max_clients_(static_cast<size_t>(limits.max_clients)),
        post_(std::move(post)),
        most_of_tenant_(std::move(most_of_tenant)),
        silent_(static_cast<size_t>(limits.max_silent_clients)),
        answers_(static_cast<size_t>(limits.max_answer_bytes)) {}

  // A client is silent when it has not called for so long.
  static constexpr std::chrono::minutes kSilence{10};

  // The last call's end, on another thread, lies before it.
  ~Sequences() { MutexLock lock(mu_); }

  // A call may leave something that no snapshot has, or settle what earlier ones have left.
  enum class Effect : uint8_t { kNone, kLeaves, kSettles };

  // The right to run the call of one number. The number is used up by Applied; not, when the turn is destroyed before.
  class Turn {
   public:
    using GoOn = std::function<void()>;
    Turn(Sequences& sequences, Key key, uint64_t payload) : sequences_(sequences), key_(std::move(key)), payload_(payload) {}
    ~Turn() {
      if (!is_applied_) sequences_.Ended(key_, payload_, nullptr, effect_);
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;
    void set_effect(Effect effect) { effect_ = effect; }
    // Keeps the serialized `answer` for repetitions. Once.
    void Applied(std::string answer) {
      is_applied_ = true;
      sequences_.Ended(key_, payload_, std::make_shared<const std::string>(std::move(answer)), effect_);
    }
    // The call is between two steps, and has taken some. `go_on` is called when the model is not paused: at once, or by
    // another caller's thread. The turn lives until then.
    void Between(GoOn go_on) { sequences_.Between(key_, std::move(go_on)); }

   private:
    Sequences& sequences_;
    const Key key_;
    const uint64_t payload_;
    Effect effect_ = Effect::kNone;
    bool is_applied_ = false;
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
  // Whether a crash has left a part of the call of that number alone, and none came after it. The client is told: his next call
  // is taken.
  bool TellInPart(const std::string& client, const std::string& model);
  // The last number that a crash cannot take back; 0 where there is none.
  uint64_t Durable(const std::string& client, const std::string& model) const;
  // Grows with each numbered call on the model that is applied; 0 where no client is known that has called.
  uint64_t CallsOn(const std::string& model) const;

  // The numbers of a model at one moment.
  struct Numbers {
    std::vector<std::pair<std::string, uint64_t>> applied = {};  // The last one of each client, by the client's name.
    SilentClients::Saved silent = {};
    std::vector<uint64_t> settled = {};  // As `applied`: all that these calls have left is in the model.
    std::set<std::string> in_part = {};  // Clients of whose last call the model has the first steps alone.
    uint64_t calls = 0;                  // As of CallsOn.

    bool SameCalls(const Numbers& other) const {
      return applied == other.applied && silent == other.silent && in_part == other.in_part;
    }
  };
  // Calls `paused` when no numbered call on the model runs any more, on this thread or on the thread of another call. No
  // numbered call on the model begins until Resume. Several pauses of a model come one after the other.
  using Paused = std::function<void(Numbers numbers)>;
  void Pause(const std::string& model, Paused paused);
  void Resume(const std::string& model);
  // A crash cannot take back these calls on the model.
  void MadeDurable(const std::string& model, const Numbers& numbers);
  // A crash takes back every call on the model: it has gone from the store.
  void ForgetDurable(const std::string& model);
  // The numbers of an earlier process: `applied`, `silent` and `in_part`. Before the first call.
  void Restore(const std::string& model, const Numbers& numbers);
  // There was an earlier process: a client of whom nothing is known may have had numbers there. Before the first call.
  void ExpectRewound() { rewound_ = true; }

  // Drops what is known of clients that are silent, and the answers: the model is no more.
  void DropModel(const std::string& model);
  // Drops the answers that are older than `age`.
  void DropAnswersOlderThan(Clock::duration age, Clock::time_point now = Clock::now());
  // Clients that have not called for `age` become silent ones, or, where their model is no more, nothing.
  using Exists = std::function<bool(const std::string& model)>;
  void SilenceOlderThan(Clock::duration age, const Exists& exists, Clock::time_point now = Clock::now());
  // Bytes that all answers take now.
  size_t answer_bytes() const;
  size_t num_silent() const;

 private:
  // The numbered calls of one client on one model.
  struct Series {
    uint64_t last = 0;
    uint64_t settled = 0;  // The last number when nothing that no snapshot has was left.
    uint64_t durable = 0;
    bool is_rewound = false;       // `last` comes from an earlier process, which may have applied more.
    bool is_in_part = false;       // A crash has left the first steps of `last`,
    bool is_told = false;          // and the client has been told.
    AnswerCache::Answers answers;  // For the numbers up to `last`; none where all were dropped.
    bool running = false;
    std::function<void()> go_on;  // Set where the call that runs is between two steps, while the model is paused.
    std::multimap<uint64_t, Arrival> waiting;
    Holder holder;
    Holdings<Key>::Place place;
    Clock::time_point used;

    bool idle() const { return !running && waiting.empty(); }
  };
  // Functions to call once the lock is free: made before it is taken.
  class Verdicts {
   public:
    explicit Verdicts(const Post& post) : post_(post) {}
    ~Verdicts() {
      for (auto& each : all_) post_(std::move(each));
    }
    Verdicts(const Verdicts&) = delete;
    Verdicts& operator=(const Verdicts&) = delete;
    void Add(std::function<void()> function) { all_.push_back(std::move(function)); }

   private:
    const Post& post_;
    std::vector<std::function<void()>> all_;
  };
  struct OfModel {
    std::map<std::string, Series> series;  // By client.
    std::set<std::string> held;            // Clients with calls that wait, or with one that a pause has stopped between two steps.
    int64_t running = 0;                   // Calls that run and are not between two steps.
    uint64_t calls = 0;                    // Counts on from calls_ as it was when this began: no count comes twice.
    bool paused = false;                   // The first one's function was called.
    std::deque<Paused> pauses;             // The first one among them until Resume.
  };

  void Decide(Arrival arrival, Verdicts* verdicts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Begins the model's first pause if nothing runs.
  void BeginPause(const std::string& model, Verdicts* verdicts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Judge(OfModel& of_model, Series& series, Arrival arrival, Verdicts* verdicts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Run(OfModel& of_model, Series& series, Arrival arrival, Verdicts* verdicts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void JudgeWaiting(OfModel& of_model, const Key& key, Verdicts* verdicts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  const Series* Find(const std::string& client, const std::string& model) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A series that is not there, with what is known of the client.
  void Recall(const Key& key, Series* series) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The identity that the client belongs to, and the most clients of its tenant, if it is of one.
  Holder HolderOf(absl::string_view client, std::optional<int64_t>* most) const;
  absl::Status Add(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  OfModel& AddModel(const std::string& model) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);  // Or finds it.
  void Renew(Series& series) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Ends a series without an applied call, so that it takes no place from one that has some.
  void EraseIfNew(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Erase(const Key& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void EraseIfEmpty(const std::string& model) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes the client a silent one. False: there is no room for more of them, or of its identity's.
  bool Silence(const Key& key, bool within_share) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Silences the identity's client that was silent longest and has no call under way. NOT_FOUND: there is none.
  // RESOURCE_EXHAUSTED: there is no room for silent ones. `within_share`: it makes room for one of its own.
  absl::Status SilenceOldest(const Holdings<Key>::OfIdentity* of, bool within_share) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status TakePlaceWithin(const Holdings<Key>::OfTenant& tenant, const std::string& identity, size_t all)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes room for one more series of the holder.
  absl::Status MakeRoomFor(const Holder& holder, std::optional<int64_t> most) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Between(const Key& key, Turn::GoOn go_on);
  void Ended(const Key& key, uint64_t payload, std::shared_ptr<const std::string> answer, Effect effect);

  const size_t max_clients_;
  const Post at_once_ = &AtOnce;
  const Post post_;
  const MostOfTenant most_of_tenant_;
  bool rewound_ = false;
  mutable Mutex mu_;
  std::map<std::string, OfModel> models_ ABSL_GUARDED_BY(mu_);
  Holdings<Key> holdings_ ABSL_GUARDED_BY(mu_);  // All series, the least recently used first.
  SilentClients silent_ ABSL_GUARDED_BY(mu_);
  AnswerCache answers_ ABSL_GUARDED_BY(mu_);
  uint64_t calls_ ABSL_GUARDED_BY(mu_) = 0;  // Applied on all models.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_SEQUENCE_H_
