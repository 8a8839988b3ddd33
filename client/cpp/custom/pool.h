// CallbackPool: the server's calls that are under way in this program, each on a thread of its own, up to a limit; others wait.
//
// A call may need another call of this program: it waits for values that the server computes with one. Where every thread waits for
// the server and no call has ended for a while, calls that wait for a thread are refused, and the error ends the chain.

#ifndef GLUOND_CLIENT_CPP_CUSTOM_POOL_H_
#define GLUOND_CLIENT_CPP_CUSTOM_POOL_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "gluond/v1/custom_operator.pb.h"

namespace gluond::client {

class CallbackPool {
 public:
  // run: answers a call. refuse: answers it with the reason why it is not run.
  CallbackPool(std::function<void(const v1::Callback&)> run, std::function<void(const v1::Callback&, const std::string&)> refuse,
               size_t most_threads)
      : run_(std::move(run)), refuse_(std::move(refuse)), most_threads_(most_threads) {}
  ~CallbackPool();  // Waits for calls under way.
  CallbackPool(const CallbackPool&) = delete;

  void Take(v1::Callback call);
  // To be called now and then.
  void RefuseIfStalled();

 private:
  void Work();

  const std::function<void(const v1::Callback&)> run_;
  const std::function<void(const v1::Callback&, const std::string&)> refuse_;
  const size_t most_threads_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::Callback> waiting_;
  size_t waiting_bytes_ = 0;
  std::vector<std::thread> threads_;
  size_t idle_ = 0;
  size_t blocked_ = 0;  // Threads that wait for the server.
  absl::Time moved_;    // When a call began or ended, or the server's answer came.
  bool ends_ = false;
};

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_CUSTOM_POOL_H_
