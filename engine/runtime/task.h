// Task<T>: a coroutine that computes a T (a Status, a StatusOr<...>) and may wait on the way without holding a thread:
// for a client's answer, a compiler, a run. It begins when it is awaited, and ends in the thread that resumed it last.
//
//   Task<absl::StatusOr<Tensor>> Square(Graph& graph, Tensor x) {
//     CO_RETURN_IF_ERROR(co_await graph.Prepare(x));
//     CO_ASSIGN_OR_RETURN(const Tensor y, co_await graph.Run(x));
//     co_return y;
//   }
//   RunTask<absl::StatusOr<Tensor>>([=] { return Square(*graph, x); }, [](absl::StatusOr<Tensor> y) { ... });
//
// A task's parameters are values, or outlive it: its caller may be long gone when it goes on.

#ifndef ENGINE_RUNTIME_TASK_H_
#define ENGINE_RUNTIME_TASK_H_

#include <atomic>
#include <coroutine>
#include <exception>
#include <functional>
#include <optional>
#include <utility>

#include "engine/core/status_macros.h"

#define CO_RETURN_IF_ERROR(expr) GLUOND_LEAVE_IF_ERROR_(co_return, expr)
#define CO_ASSIGN_OR_RETURN(lhs, expr) GLUOND_ASSIGN_OR_LEAVE_(co_return, GLUOND_CONCAT_(or_, __LINE__), lhs, expr)

namespace gluond {

template <class T>
class [[nodiscard]] Task {
 public:
  struct promise_type {
    std::optional<T> result;
    std::coroutine_handle<> awaiter = std::noop_coroutine();

    struct Final {
      bool await_ready() const noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) const noexcept {
        return self.promise().awaiter;
      }
      void await_resume() const noexcept {}
    };
    Task get_return_object() { return Task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() const noexcept { return {}; }
    Final final_suspend() const noexcept { return {}; }
    template <class U>
    void return_value(U&& value) {
      result.emplace(std::forward<U>(value));
    }
    [[noreturn]] void unhandled_exception() const { std::terminate(); }
  };

  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task other) noexcept { return std::swap(handle_, other.handle_), *this; }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiter) const noexcept {
    handle_.promise().awaiter = awaiter;
    return handle_;
  }
  T await_resume() const { return *std::move(handle_.promise().result); }

 private:
  explicit Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

// co_await Callback<T>(start): calls start(done) and goes on with the T that `done` is called with: once, from any
// thread, also within `start`.
template <class T>
class [[nodiscard]] Callback {
 public:
  using Done = std::function<void(T)>;
  explicit Callback(std::function<void(Done)> start) : start_(std::move(start)) {}
  Callback(const Callback&) = delete;

  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> awaiter) {
    const std::function<void(Done)> start = std::move(start_);
    start([this, awaiter](T value) {
      value_.emplace(std::move(value));
      if (one_came_.exchange(true)) awaiter.resume();
    });
    return !one_came_.exchange(true);  // The second one of the two goes on: this function's caller, or `done`.
  }
  T await_resume() { return *std::move(value_); }

 private:
  std::function<void(Done)> start_;
  std::optional<T> value_;
  std::atomic<bool> one_came_ = false;
};

namespace task_internal {

struct Detached {
  struct promise_type {
    Detached get_return_object() const { return {}; }
    std::suspend_never initial_suspend() const noexcept { return {}; }
    std::suspend_never final_suspend() const noexcept { return {}; }
    void return_void() const {}
    [[noreturn]] void unhandled_exception() const { std::terminate(); }
  };
};

template <class T>
Detached Drive(std::function<Task<T>()> make, std::function<void(T)> done) {
  std::optional<T> result;
  {
    Task<T> task = make();
    result.emplace(co_await task);
  }
  make = nullptr;  // All that the task held is gone before `done` is told.
  done(*std::move(result));
}

}  // namespace task_internal

// Runs the task that `make` makes, which may refer to `make`'s captures, and tells `done` its result.
template <class T>
void RunTask(std::function<Task<T>()> make, std::function<void(T)> done) {
  task_internal::Drive(std::move(make), std::move(done));
}

}  // namespace gluond

#endif  // ENGINE_RUNTIME_TASK_H_
