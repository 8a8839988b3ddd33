// The floor: a bare gRPC callback server that answers OperatorService.Invoke with the request's bytes. It tells `gluond
// load`, which asks first, that it is a server of its kind.
//
//   echo_server PORT_FILE    writes its port, and serves until it is killed.

#include <fstream>
#include <iostream>
#include <memory>

#include "gluond/v1/operator.grpc.pb.h"
#include "gluond/v1/server.grpc.pb.h"
#include "grpcpp/grpcpp.h"

namespace {

using gluond::v1::OperatorService;

class Echo final : public OperatorService::WithRawCallbackMethod_Invoke<OperatorService::Service> {
  grpc::ServerUnaryReactor* Invoke(grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                                   grpc::ByteBuffer* response) override {
    *response = *request;
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

class Info final : public gluond::v1::ServerService::CallbackService {
  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context, const gluond::v1::GetServerInfoRequest*,
                                          gluond::v1::GetServerInfoResponse* response) override {
    response->set_protocol(1'000'000);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: echo_server PORT_FILE\n";
    return 2;
  }
  Echo echo;
  Info info;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(-1).RegisterService(&echo).RegisterService(&info);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  std::ofstream(argv[1]) << port << std::endl;
  server->Wait();
}
