#include "engine/runtime/lane.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/bump_scratch.h"
#include "engine/runtime/processors.h"
#include "engine/runtime/tuning.h"

namespace gluond {
namespace {

// A thread that runs operators.
struct LaneThread {
  LaneThread(Allocator& allocator, DeviceDriver& driver, void* stream) : scratch(allocator, driver, stream) {}
  BumpScratch scratch;
};

thread_local LaneThread* lane_thread = nullptr;
// The lane beside which the thread does long work.
thread_local const Lane* aside_of = nullptr;

}  // namespace

absl::StatusOr<std::shared_ptr<Lane>> Lane::Create(Device device, const LaneOptions& options, Allocator& scratch_allocator) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Lanes> lanes, Lanes::Create(device, options, scratch_allocator));
  return std::shared_ptr<Lane>(lanes, lanes->Take().get());
}

void Lane::Post(std::function<void()> work) {
  ++lanes_.posts_;
  lanes_.threads_.Post(queue_, std::move(work));
}
void Lane::Post(Work* work) {
  ++lanes_.posts_;
  lanes_.threads_.Post(queue_, work);
}
void Lane::PostAside(std::function<void()> work) {
  ++lanes_.posts_;
  lanes_.aside_.Post(std::move(work));
}
void Lane::ContinueAside(std::function<void()> rest) {
  PostAside([this, end = lanes_.threads_.Detach(), rest = std::move(rest)] {
    aside_of = this;
    rest();
    aside_of = nullptr;
    end();
  });
}
void Lane::CheckHeld() const {
  if (IsCurrent() || aside_of == this) return;
  std::fprintf(stderr, "what belongs to a lane of %s is used by another thread\n", device().ToString().c_str());
  std::abort();
}
void Lane::DoAt(Clock::time_point when, Work* work) { lanes_.threads_.DoAt(queue_, when, work); }
void Lane::Forget(Work* work) { lanes_.threads_.Forget(queue_, work); }

Device Lane::device() const { return lanes_.device(); }
DeviceDriver& Lane::driver() const { return lanes_.driver(); }
void* Lane::stream() const { return lanes_.stream(); }
Threads* Lane::threads() const { return lanes_.threads(); }

OpContext Lane::NewContext(bool training) const {
  OpContext context;
  context.is_train = training;
  context.device = device();
  context.stream = stream();
  context.threads = threads();
  context.host_memory = lanes_.host_memory();
  return context;
}

void Lane::LendScratch(OpContext* context) {
  CheckHeld();
  lane_thread->scratch.Reset();
  context->scratch = &lane_thread->scratch;
}

absl::Status Lane::ReserveScratch() {
  CheckHeld();
  return lane_thread->scratch.Reserve(kReservedScratch);
}

absl::StatusOr<std::unique_ptr<Lanes>> Lanes::Create(Device device, const LaneOptions& options, Allocator& scratch_allocator) {
  ASSIGN_OR_RETURN(DeviceDriver * driver, FindDriver(device));
  ASSIGN_OR_RETURN(void* const stream, driver->CreateStream());
  const bool is_cpu = device.type == DeviceType::kCpu;
  return std::unique_ptr<Lanes>(new Lanes(device, options, *driver,
                                          std::shared_ptr<void>(stream, [driver](void* ended) { driver->DestroyStream(ended); }),
                                          is_cpu ? std::make_shared<Team>(options.threads) : nullptr, scratch_allocator));
}

std::unique_ptr<Lanes> Lanes::CreateBeside(Lanes& others, const LaneOptions& options, Allocator& scratch_allocator) {
  return std::unique_ptr<Lanes>(
      new Lanes(others.device_, options, others.driver_, others.stream_, others.team_, scratch_allocator));
}

Lanes::Lanes(Device device, const LaneOptions& options, DeviceDriver& driver, std::shared_ptr<void> stream,
             std::shared_ptr<Team> team, Allocator& allocator)
    : device_(device),
      driver_(driver),
      stream_(std::move(stream)),
      allocator_(allocator),
      host_memory_(options.host_memory),
      team_(std::move(team)),
      party_(team_ == nullptr ? nullptr : std::make_unique<Team::Party>(team_, options.weight, options.urgent)),
      urgent_(options.urgent),
      threads_({.name = options.name.empty() ? device.ToString() : options.name,
                .threads = team_ == nullptr ? 1 : options.at_work,
                .most_threads = team_ == nullptr ? 1 : std::max(options.at_work, options.most_at_work),
                .look = tuning::kLaneLook,
                .may_look = [this] { return MayLook(); },
                .enter = [this] { return EnterThread(); },
                .rest = [] { lane_thread->scratch.Release(); }}),
      aside_({.name = absl::StrCat(options.name.empty() ? device.ToString() : options.name, "-beside"),
              // One, and more while that is held; as many at least as may be at work on the lanes.
              .most_threads = std::max(tuning::kMostAside, options.most_at_work)}) {}

Lanes::~Lanes() { Drain(); }

// A thread that looks for work takes time from those that have some: from a process that a quota stops, and from other
// parties' loops.
bool Lanes::MayLook() const { return team_ == nullptr || !(team_->throttled() || party_->others_compute()); }

std::shared_ptr<void> Lanes::EnterThread() {
  urgent_ ? TakeShortTurns() : TakeUsualTurns();
  const std::shared_ptr<LaneThread> entered(new LaneThread(allocator_, driver_, stream()), [](LaneThread* leaving) {
    lane_thread = nullptr;
    delete leaving;
  });
  lane_thread = entered.get();
  return entered;
}

std::shared_ptr<Lane> Lanes::Take() {
  MutexLock lock(free_->mu);
  if (free_->lanes.empty()) {
    all_.push_back(std::unique_ptr<Lane>(new Lane(*this)));
    free_->lanes.push_back(all_.back().get());
  }
  Lane* const lane = free_->lanes.back();
  free_->lanes.pop_back();
  return std::shared_ptr<Lane>(lane, [free = free_](Lane* given_back) {
    MutexLock lock(free->mu);
    free->lanes.push_back(given_back);
  });
}

// Work on the lanes may begin more beside them, which ends on the lanes: either pool may be empty while the other one
// is about to post to it.
void Lanes::Drain() {
  uint64_t posts = 0;
  do {
    posts = posts_;
    threads_.Drain();
    aside_.Drain();
  } while (posts_ != posts);
}

}  // namespace gluond
