// WayToServer: how this server calls another one: a channel, and what a call there has to show. Copies share the channel. Thread-safe.
//
//   ASSIGN_OR_RETURN(const WayToServer way, WayToServer::Open({.address = "10.0.0.7:50051", ...}));
//   auto stub = v1::GroupService::NewStub(way.channel());
//   way.Prepare(&context);

#ifndef SERVER_RPC_WAY_TO_SERVER_H_
#define SERVER_RPC_WAY_TO_SERVER_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace grpc {
class Channel;
class ClientContext;
}  // namespace grpc

namespace gluond::server {

class WayToServer {
 public:
  struct Options {
    std::string flag;        // "--follow": the files are those of --follow_ca and --follow_token_file.
    std::string address;     // HOST:PORT
    std::string authority;   // A file with the authority of that server's certificate, in PEM. Empty: no encryption.
    std::string token_file;  // A file with a bearer token. Empty: none is sent.
    int most_bytes = -1;     // The longest message from there; -1: of any length.
  };

  // Reads the files, which may have changed. The channel connects by itself, over a connection of its own and through no proxy.
  // INVALID_ARGUMENT names the flag of a file that cannot be read, or is empty, or says that a token would travel in clear to another
  // machine.
  static absl::StatusOr<WayToServer> Open(const Options& options);

  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }
  // The metadata of a call.
  void Prepare(grpc::ClientContext* context) const;

 private:
  WayToServer(std::shared_ptr<grpc::Channel> channel, std::string authorization)
      : channel_(std::move(channel)), authorization_(std::move(authorization)) {}

  std::shared_ptr<grpc::Channel> channel_;
  std::string authorization_;  // Empty: none.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_WAY_TO_SERVER_H_
