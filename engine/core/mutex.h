// Mutex, MutexLock and CondVar: the standard library's, with annotations by which clang finds accesses without the lock
// (tests/locks_test.py). They cost no more. Abseil's mutex is annotated, too, but thread sanitizer does not understand
// it where Abseil is not instrumented.
//
//   void Queue::Push(Work work) {
//     MutexLock lock(mu_);
//     works_.push_back(std::move(work));
//     pushed_.NotifyOne();
//   }
//   void Queue::AwaitWork() {
//     MutexLock lock(mu_);
//     while (works_.empty()) pushed_.Wait(mu_);
//   }
//
//   Mutex mu_;
//   CondVar pushed_;
//   std::deque<Work> works_ ABSL_GUARDED_BY(mu_);

#ifndef ENGINE_CORE_MUTEX_H_
#define ENGINE_CORE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace gluond {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mu_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mu_.unlock(); }
  bool TryLock() ABSL_EXCLUSIVE_TRYLOCK_FUNCTION(true) { return mu_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mu_;
};

// Holds a mutex until its end.
class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mu) ABSL_EXCLUSIVE_LOCK_FUNCTION(mu) : mu_(mu) { mu.Lock(); }
  // The thread holds the mutex already.
  MutexLock(Mutex& mu, std::adopt_lock_t) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) : mu_(mu) {}
  ~MutexLock() ABSL_UNLOCK_FUNCTION() {
    if (held_) mu_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() ABSL_UNLOCK_FUNCTION() {
    held_ = false;
    mu_.Unlock();
  }
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() {
    mu_.Lock();
    held_ = true;
  }

 private:
  Mutex& mu_;
  bool held_ = true;
};

// A wait may end for nothing. The mutex is free while it lasts.
class CondVar {
 public:
  void Wait(Mutex& mu) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    Held held(mu);
    changed_.wait(held.lock);
  }
  // False: the time has come.
  bool WaitUntil(Mutex& mu, std::chrono::steady_clock::time_point time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    Held held(mu);
    return changed_.wait_until(held.lock, time) == std::cv_status::no_timeout;
  }
  bool WaitFor(Mutex& mu, std::chrono::nanoseconds time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    return WaitUntil(mu, std::chrono::steady_clock::now() + time);
  }
  void NotifyOne() { changed_.notify_one(); }
  void NotifyAll() { changed_.notify_all(); }

 private:
  struct Held {
    explicit Held(Mutex& mu) : lock(mu.mu_, std::adopt_lock) {}
    ~Held() { lock.release(); }
    std::unique_lock<std::mutex> lock;
  };
  std::condition_variable changed_;
};

}  // namespace gluond

#endif  // ENGINE_CORE_MUTEX_H_
