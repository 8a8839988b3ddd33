// Host: the stream over which a server calls this program: OperatorService.HostOperators. Sessions with one server, that have one
// key, share it. It is opened again when it breaks, each time with all offers.

#ifndef GLUOND_CLIENT_CPP_CUSTOM_HOST_H_
#define GLUOND_CLIENT_CPP_CUSTOM_HOST_H_

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cpp/custom/callbacks.h"
#include "client/cpp/custom/pool.h"
#include "client/cpp/stream.h"
#include "gluond/v1/custom_operator.pb.h"
#include "grpcpp/grpcpp.h"

namespace gluond::client {

class SessionCore;

// Thread-safe.
class Host {
 public:
  struct Settings {
    std::string address, scope, key, client_id;
    std::function<absl::StatusOr<std::shared_ptr<grpc::Channel>>()> new_channel;
    size_t most_bytes;  // The most that an answer may have.
    size_t most_threads;
  };
  // The stream for a session, which is open as long as a session has it.
  static std::shared_ptr<Host> Of(const std::shared_ptr<SessionCore>& session, Settings settings);
  ~Host();
  Host(const Host&) = delete;

  // Returns when the server knows that this program computes the operator. An error: it does not take the name, or does not answer.
  absl::Status Offer(const std::string& name, bool shared);
  // Returns when the server can call this program.
  absl::Status Open();

 private:
  explicit Host(Settings settings);

  absl::Status TryOffer(const std::string& name, bool shared);
  std::shared_ptr<SessionCore> Session();
  void Run(const v1::Callback& call);
  void Answer(uint64_t call, const std::string& message);

  // The thread of the stream.
  void Live();
  grpc::Status RunStream();
  void Attend(Stream& stream);
  void Take(Stream& stream, int64_t size);
  void Send(Stream& stream, bool is_sign_of_life);  // Requires: mutex_.

  const Settings settings_;
  Callbacks callbacks_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::weak_ptr<SessionCore>> sessions_;  // Guarded by mutex_, as all from here on.
  std::shared_ptr<Stream> stream_;
  std::deque<std::string> outgoing_;
  std::map<std::string, bool> offered_;         // By name: whether it is shared.
  std::set<std::string> known_;                 // Offers that the server has confirmed.
  std::map<std::string, std::string> refused_;  // Why it has not.
  std::set<uint64_t> running_;
  bool is_open_ = false;
  bool is_full_ = false;
  bool ends_ = false;
  bool has_ended_ = false;  // No stream will come.
  absl::Duration beat_ = absl::Seconds(5), pause_;
  absl::Time last_write_;
  std::string problem_;

  std::unique_ptr<CallbackPool> pool_;
  std::thread thread_;
};

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_CUSTOM_HOST_H_
