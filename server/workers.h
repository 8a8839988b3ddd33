// Workers: a few threads for what is too long for a gRPC thread and is no operator: compiling graphs, reading and writing
// checkpoints, turning typed values into tensors. Work runs in the order of Post. Thread-safe.

#ifndef SERVER_WORKERS_H_
#define SERVER_WORKERS_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace gluond::server {

class Workers {
 public:
  explicit Workers(int threads);
  // Runs what was posted, then ends the threads.
  ~Workers();

  void Post(std::function<void()> work);

 private:
  void Loop();

  std::mutex mu_;
  std::condition_variable posted_;
  std::deque<std::function<void()>> queue_;  // Guarded by mu_.
  bool ending_ = false;                      // Guarded by mu_.
  std::vector<std::thread> threads_;
};

}  // namespace gluond::server

#endif  // SERVER_WORKERS_H_
