// RawService is a gRPC service as a table: each row names a method of the .proto and the member function that answers it.
// Methods are registered raw (as bytes), because gRPC's typed handlers answer a broken message with an empty status and
// an oversized one without a flag's name; RunUnary parses instead, and a stream does for its own messages.
//
//   class EchoService : public RawService {
//    public:
//     explicit EchoService(Runner& runner) : RawService(runner, "gluond.v1.EchoService") {
//       Add("Echo", this, &EchoService::Echo);
//     }
//     void Echo(Call<v1::EchoRequest, v1::EchoResponse> call);
//   };

#ifndef SERVER_RPC_RAW_SERVICE_H_
#define SERVER_RPC_RAW_SERVICE_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/service_type.h"
#include "server/rpc/stream.h"
#include "server/rpc/unary.h"

namespace gluond::server {

class RawService : public grpc::Service {
 public:
  const std::string& name() const { return name_; }

  // Forgets what nobody has used for long. Called every second or so.
  virtual void Sweep() {}

  // INTERNAL: the .proto's service and this table differ.
  absl::Status CheckComplete() const;

 protected:
  RawService(Runner& runner, std::string name) : runner_(runner), name_(std::move(name)) {}
  Runner& runner() { return runner_; }

  template <class Service, class Request, class Response>
  void Add(const char* method, Service* service, void (Service::*answer)(Call<Request, Response>),
           Weight weight = Weight::kLight) {
    Row& row = AddRow(method, Request::descriptor()->full_name(), weight);
    std::function<void(Call<Request, Response>)> handler = [service, answer](Call<Request, Response> call) {
      (service->*answer)(std::move(call));
    };
    row.run = [this, &row, handler = std::move(handler)](Rpc::OneCall* stream, Slices* request) {
      RunUnary(runner_, row.method, handler, stream, request);
    };
    Register(row, [this, &row](Stream::Opening opening) { return Rpc::Await(runner_, std::move(opening), row.run); });
  }

  // A stream of replies, or of both. What `start` returns lives until its OnDone.
  template <class Request, class Service>
  void AddStream(const char* method, Service* service,
                 Stream* (Service::*start)(const Method&, Stream::Opening)) {
    Row& row = AddRow(method, Request::descriptor()->full_name(), Weight::kLight);
    row.streams = true;
    Register(row, [&row, service, start](Stream::Opening opening) {
      return (service->*start)(row.method, std::move(opening));
    });
  }

 private:
  struct Row {
    Method method;
    std::string request_type;
    bool streams = false;
    Rpc::Run run = nullptr;  // A stream has none.
  };
  Row& AddRow(const char* method, const std::string& request_type, Weight weight);
  void Register(const Row& row, StreamHandler::Start start);

  Runner& runner_;
  const std::string name_;
  std::vector<std::unique_ptr<Row>> rows_;  // gRPC keeps pointers to the paths.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_RAW_SERVICE_H_
