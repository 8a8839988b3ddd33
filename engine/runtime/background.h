// Background: a thread that does long work, one piece after the other, beside a lane. It starts with the first piece.
// Thread-safe.

#ifndef ENGINE_RUNTIME_BACKGROUND_H_
#define ENGINE_RUNTIME_BACKGROUND_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace gluond {

class Background {
 public:
  Background() = default;
  // Does what is posted, then ends the thread.
  ~Background();
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void Post(std::function<void()> work);
  // Waits until all that was posted is done. Whether there was anything to wait for.
  bool Drain();

 private:
  void Loop();

  std::mutex mu_;
  std::condition_variable wake_, idle_;
  std::deque<std::function<void()>> queue_;  // Guarded by mu_, as all that follows.
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_BACKGROUND_H_
