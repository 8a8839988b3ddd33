#include "server/start/pulse.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/mutex.h"

namespace gluond::server {
namespace {

Mutex& LoopsMutex() {
  static Mutex& mutex = *new Mutex;
  return mutex;
}
// Guarded by LoopsMutex. Never destroyed, as that: a thread may outlive main.
std::set<const Pulse*>& Loops() {
  static auto& loops = *new std::set<const Pulse*>;
  return loops;
}

}  // namespace

Pulse::Pulse(std::string loop) : loop_(std::move(loop)), beaten_(Clock::now().time_since_epoch().count()) {
  MutexLock lock(LoopsMutex());
  Loops().insert(this);
}

Pulse::~Pulse() {
  MutexLock lock(LoopsMutex());
  Loops().erase(this);
}

Pulse::Clock::duration Pulse::Silent(Clock::time_point now) const {
  const Clock::rep beaten = beaten_.load(std::memory_order_relaxed);
  if (beaten == kRests) return Clock::duration::zero();
  return std::max(now - Clock::time_point(Clock::duration(beaten)), Clock::duration::zero());
}

std::map<std::string, Pulse::Clock::duration> Pulse::All(Clock::time_point now) {
  std::map<std::string, Clock::duration> all;
  MutexLock lock(LoopsMutex());
  for (const Pulse* pulse : Loops()) {
    Clock::duration& longest = all[pulse->loop_];
    longest = std::max(longest, pulse->Silent(now));
  }
  return all;
}

std::string Pulse::WhatHangs(Clock::time_point now) {
  for (const auto& [loop, silent] : All(now)) {
    if (silent <= kLongest) continue;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(silent).count();
    return absl::StrCat("the loop '", loop, "' has not gone round for ", seconds, " s");
  }
  return "";
}

}  // namespace gluond::server
