// RawService is a gRPC service as a table: each row names a method of the .proto and the member function that answers
// it. gRPC gives the messages as bytes (router.h), because its typed handlers answer a broken message with an empty
// status and an oversized one without a flag's name; RunUnary parses instead, and a stream does for its own messages.
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

#include "absl/strings/string_view.h"
#include "server/rpc/stream.h"
#include "server/rpc/unary.h"

namespace gluond::server {

class RawService {
 public:
  struct Row {
    Method method;
    std::string request_type;
    std::unique_ptr<CallCounts> counts = std::make_unique<CallCounts>();
    bool streams = false;
    Rpc::Run run = nullptr;                           // A stream of many messages has none.
    std::function<Stream*(Stream::Opening)> start{};  // The stream that it returns lives until its OnOver.
  };

  virtual ~RawService() = default;

  const std::string& name() const { return name_; }
  // A row stays where it is.
  const std::vector<std::unique_ptr<Row>>& rows() const { return rows_; }

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
    row.start = [this, &row](Stream::Opening opening) { return Rpc::Await(runner_, opening, row.run); };
  }

  // A method with several answers (Call::TrySend), of which Finish gives the last.
  template <class Service, class Request, class Response>
  void AddWithProgress(const char* method, Service* service, void (Service::*answer)(Call<Request, Response>)) {
    Add(method, service, answer);
    rows_.back()->streams = true;
  }

  // A stream of replies, or of both.
  template <class Request, class Service>
  void AddStream(const char* method, Service* service,
                 Stream* (Service::*start)(const Method&, Stream::Opening)) {
    Row& row = AddRow(method, Request::descriptor()->full_name(), Weight::kLight);
    row.streams = true;
    row.start = [&row, service, start](Stream::Opening opening) { return (service->*start)(row.method, opening); };
  }

 private:
  Row& AddRow(const char* method, absl::string_view request_type, Weight weight);

  Runner& runner_;
  const std::string name_;
  std::vector<std::unique_ptr<Row>> rows_;
};

}  // namespace gluond::server

#endif  // SERVER_RPC_RAW_SERVICE_H_
