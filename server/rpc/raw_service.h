// RawService is a gRPC service as a table: each row names a method of the .proto and the member function that answers it. The
// messages come as bytes (router.h), and the pipeline parses them, or a stream its own. gRPC's typed handlers would answer a
// broken message with an empty status, and an oversized message without a flag's name.
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

#include "server/rpc/call.h"
#include "server/rpc/method.h"
#include "server/rpc/stream.h"

namespace gluond::server {

class RawService {
 public:
  struct Row {
    Method method;
    UnaryMethod unary{};  // A stream of many messages has the type of the request alone.
    std::function<std::shared_ptr<Stream>(Stream::Opening)> start = nullptr;  // Streams of many messages have one.
    std::unique_ptr<CallCounts> counts = std::make_unique<CallCounts>();
  };

  virtual ~RawService() = default;

  const std::string& name() const { return name_; }
  // A row stays where it is.
  const std::vector<std::unique_ptr<Row>>& rows() const { return rows_; }

  // Forgets what nobody has used for long. Called every second or so.
  virtual void Sweep() {}

  // INTERNAL: the .proto's service and this table differ, or the .proto does not say who may call a method.
  absl::Status CheckComplete() const;

 protected:
  RawService(Runner& runner, std::string name) : runner_(runner), name_(std::move(name)) {}
  Runner& runner() { return runner_; }

  // A method with one message from its client, and one answer or several (Call::TrySend), of which Finish gives the last.
  template <class Service, class Request, class Response>
  void Add(const char* method, Service* service, void (Service::*answer)(Call<Request, Response>)) {
    AddRow(method).unary = {&Request::default_instance(), &Response::default_instance(), /*has_large_fill=*/nullptr,
                            [service, answer](CallPtr call) { (service->*answer)(Call<Request, Response>(std::move(call))); }};
  }

  // The same with a list or a map of tensors in its request: &v1::ForwardRequest::inputs.
  template <class Service, class Request, class Response, class Tensors>
  void Add(const char* method, Service* service, void (Service::*answer)(Call<Request, Response>),
           const Tensors& (Request::*tensors)() const) {
    Add(method, service, answer);
    rows_.back()->unary.has_large_fill = [tensors](const google::protobuf::Message& request) {
      return HasLargeFill((static_cast<const Request&>(request).*tensors)());
    };
  }

  // A stream of replies, or of both.
  template <class Request, class Service>
  void AddStream(const char* method, Service* service, std::shared_ptr<Stream> (Service::*start)(Stream::Opening)) {
    Row& row = AddRow(method);
    row.unary.request = &Request::default_instance();
    row.start = [service, start](Stream::Opening opening) { return (service->*start)(std::move(opening)); };
  }

 private:
  Row& AddRow(const char* method);

  Runner& runner_;
  const std::string name_;
  std::vector<std::unique_ptr<Row>> rows_;
  absl::Status added_ = absl::OkStatus();  // The first error of a row.
};

}  // namespace gluond::server

#endif  // SERVER_RPC_RAW_SERVICE_H_
