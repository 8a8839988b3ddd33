#include "engine/imperative/value.h"
#include "engine/runtime/tuning.h"

namespace gluond {

void ReadyQueue::Do(std::function<void()> work) {
  lane_.CheckHeld();
  queue_.push_back(std::move(work));
  Run();
}

void ReadyQueue::Do(std::vector<std::function<void()>> work) {
  lane_.CheckHeld();
  for (auto& one : work) queue_.push_back(std::move(one));
  Run();
}

void ReadyQueue::DoLater(std::function<void()> work) {
  lane_.CheckHeld();
  queue_.push_back(std::move(work));
  if (!std::exchange(is_taken_up_, true)) RunLater();
}

void ReadyQueue::Run() {
  if (std::exchange(is_taken_up_, true)) return;
  if (!lane_.IsCurrent()) return RunLater();
  const auto end = Lane::Clock::now() + tuning::kReadyTurn;
  while (!queue_.empty()) {
    if (Lane::Clock::now() >= end) return RunLater();
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    work();
  }
  is_taken_up_ = false;
}

void ReadyQueue::RunLater() {
  lane_.Post([self = shared_from_this()] {
    self->is_taken_up_ = false;
    self->Run();
  });
}

void WhenKnown(absl::Span<const ValuePtr> values, std::function<void()> then) {
  size_t unknown = 0;
  for (const ValuePtr& value : values) unknown += !value->known();
  if (unknown == 0) return then();
  if (unknown == 1) {
    for (const ValuePtr& value : values)
      if (!value->known()) return value->Await(std::move(then));
  }
  auto left = std::make_shared<size_t>(unknown);
  auto last = std::make_shared<std::function<void()>>(std::move(then));
  for (const ValuePtr& value : values) {
    if (value->known()) continue;
    value->Await([left, last] {
      if (--*left == 0) (*last)();
    });
  }
}

}  // namespace gluond
