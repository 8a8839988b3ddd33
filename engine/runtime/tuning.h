// The numbers by which the schedulers share processors, in the order in which a work meets them (README.md). Each is a
// trade, and says between what. tests/bench measures them: docs/performance.md has the figures.

#ifndef ENGINE_RUNTIME_TUNING_H_
#define ENGINE_RUNTIME_TUNING_H_

#include <chrono>
#include <cstdint>

namespace gluond::tuning {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

// Lanes: how long one work holds its lane while other works wait for the lane.

// A chain of small works: longer costs the lane's other users waiting, shorter costs a post for every few operators.
constexpr microseconds kReadyTurn{500};
// A backward pass that invokes operators itself: longer costs others waiting, shorter queues operators at some extra cost.
constexpr milliseconds kBackwardTurn{5};

// FairOrder: how much of an account's past decides what comes next.

// Seconds in which used time fades to 1/e: more remembers a burst for longer, less lets bursts pass others again and again.
constexpr double kUsageMemory = 1;
// Seconds of used time that count as equal: more is more first come, first served; less is more exact shares.
constexpr double kEqualUsage = 1e-3;
// Seconds after which an idle account is forgotten: more costs memory, less forgets usage that still counts.
constexpr double kForgetIdle = 10;

// FairThreads: how many threads a pool has.

// A work of this length is a long one, for which threads join in: more has others wait, less takes processors from the team.
constexpr milliseconds kPatience{20};
// A thread that joined in waits so long for being wanted again: more costs idle threads, less starts threads anew.
constexpr seconds kStandby{2};
// Looks in vain before the watcher of a pool sleeps: more costs an idle process wake-ups, less costs posts a wake-up.
constexpr int kVainLooks = 100;
// A thread without work for so long gives its scratch space back: more costs memory, less allocates anew.
constexpr milliseconds kRestAfter{1000};
// A lane's thread looks for work so long before it sleeps: more costs a processor, less costs each next call a wake-up.
constexpr microseconds kLaneLook{500};
// Threads for long work beside the lanes: more takes processors from runs, fewer has long works wait for each other.
constexpr int kMostAside = 4;

// Team: when threads of a loop look, sleep, yield and are moved.

// Helpers, and threads that wait for a helper, look so long before they sleep: more costs processors, less wake-ups.
constexpr microseconds kTeamLook{50};
// A thread that computes is looked at so often while somebody waits for it: more finds preempted threads late, less costs time.
constexpr microseconds kPreemptionWatch{100};
// An urgent party's clients are likely to ask again so soon: more has others yield in vain, less has the next request wait.
constexpr milliseconds kUrgentAgain{5};
// Quotas and masks of processors are read so often: more follows changes late, less costs system calls.
constexpr seconds kShareRefresh{1};
// Tries for the team's mutex before a thread sleeps for it: more costs a processor, less a wake-up.
constexpr int kLockTries = 200;
// The kernel's turns of urgent threads: longer has them begin later among others, shorter costs switches.
constexpr microseconds kShortTurn{100};

// FairSemaphore: long work that computes no operator.

// Threads of the process at long work at once: more takes processors from runs, fewer has such works wait for each other.
constexpr uint64_t kLongWorksAtOnce = 2;
// Elements of such a work in one turn, some milliseconds: more has others wait, fewer costs turns.
constexpr int64_t kLongWorkPiece = 1 << 18;

}  // namespace gluond::tuning

#endif  // ENGINE_RUNTIME_TUNING_H_
