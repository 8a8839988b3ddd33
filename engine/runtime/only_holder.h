// Whether the caller is the only holder of an object, and so may overwrite it. It then sees all that former holders did
// with the object before they let go, on any thread. Meanwhile others can take a reference only from the caller's.
//
//   if (IsOnlyHolder(tensor.buffer())) Overwrite(tensor);

#ifndef ENGINE_RUNTIME_ONLY_HOLDER_H_
#define ENGINE_RUNTIME_ONLY_HOLDER_H_

#include <atomic>
#include <memory>

namespace gluond {

// use_count() is a relaxed read, which orders nothing. The fence pairs it with the release by which a former holder let
// go.
template <class T>
bool IsOnlyHolder(const std::shared_ptr<T>& object) {
  if (object.use_count() != 1) return false;
#ifdef GLUOND_THREAD_SANITIZER  // The sanitizer knows no fences; a new reference, as the library takes it, acquires.
  const std::shared_ptr<T> acquire = object;
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
  return true;
}

}  // namespace gluond

#endif  // ENGINE_RUNTIME_ONLY_HOLDER_H_
