// For tasks (task.h): the code that follows a co_await is a work of its own, on a thread of the pool that is named. A thread
// that waited for nothing but a place to go on is free meanwhile.
//
//   co_await PostedAside(*lane);  // The code below takes long.
//   ...
//   co_await PostedTo(*lane);      // What follows is the lane's.

#ifndef ENGINE_RUNTIME_POSTED_H_
#define ENGINE_RUNTIME_POSTED_H_

#include <coroutine>
#include <functional>
#include <utility>

#include "engine/runtime/lane.h"

namespace gluond {

// Unlike a Callback, it never goes on on the caller's thread, unless `post` does its work there.
class [[nodiscard]] Posted {
 public:
  using Work = std::function<void()>;
  // `post` does the work that it is given, once, now or later.
  explicit Posted(std::function<void(Work)> post) : post_(std::move(post)) {}
  Posted(const Posted&) = delete;

  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> rest) {
    const std::function<void(Work)> post = std::move(post_);  // The task may end, and this with it, before `post` returns.
    post([rest] { rest.resume(); });
  }
  void await_resume() const noexcept {}

 private:
  std::function<void(Work)> post_;
};

// On the threads that are kept for long work, beside the lane's device; the lane goes on with others' work.
inline Posted PostedAside(Lane& lane) {
  return Posted([&lane](Posted::Work rest) { lane.PostAside(std::move(rest)); });
}
// Beside the lanes, too, but the lane's next work waits for it: the code takes long and computes no operator. Requires: the
// caller is the lane.
inline Posted RunAside(Lane& lane) {
  return Posted([&lane](Posted::Work rest) { lane.ContinueAside(std::move(rest)); });
}
inline Posted PostedTo(Lane& lane) {
  return Posted([&lane](Posted::Work rest) { lane.Post(std::move(rest)); });
}

}  // namespace gluond

#endif  // ENGINE_RUNTIME_POSTED_H_
