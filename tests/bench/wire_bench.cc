// The server's own part of a call: OperatorService.Invoke of `_copy` against a bare echo of the same bytes, by the same
// client, in alternating rounds.
//
//   wire_bench GLUOND_ADDRESS ECHO_ADDRESS
//
// Prints a line for one float and one for 16 MiB, tab-separated: the name, the median over the rounds of each p50 in
// microseconds (ours, the echo's), the median ratio, and the ratio's limit.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "gluond/v1/operator.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace {

using Clock = std::chrono::steady_clock;

class Client {
 public:
  explicit Client(const std::string& address) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetMaxSendMessageSize(-1);
    stub_ = std::make_unique<grpc::GenericStub>(grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
  }

  // The bytes of the reply; ends the program on an error.
  size_t Call(const grpc::ByteBuffer& request) {
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    auto call = stub_->PrepareUnaryCall(&context, "/gluond.v1.OperatorService/Invoke", request, &queue);
    call->StartCall();
    grpc::ByteBuffer reply;
    grpc::Status status;
    call->Finish(&reply, &status, nullptr);
    void* tag;
    bool ok;
    queue.Next(&tag, &ok);
    if (!status.ok()) {
      std::fprintf(stderr, "wire_bench: %s\n", status.error_message().c_str());
      std::exit(1);
    }
    return reply.Length();
  }

 private:
  std::unique_ptr<grpc::GenericStub> stub_;
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

double P50Microseconds(Client& client, const grpc::ByteBuffer& request, int calls) {
  std::vector<double> times;
  for (int i = 0; i < calls; ++i) {
    const auto begin = Clock::now();
    client.Call(request);
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  return Median(std::move(times));
}

grpc::ByteBuffer CopyRequest(int64_t floats) {
  gluond::v1::InvokeRequest request;
  request.set_op("_copy");
  gluond::v1::Tensor* tensor = request.add_inputs();
  tensor->add_shape(floats);
  tensor->mutable_raw()->assign(floats * sizeof(float), '\1');
  const grpc::Slice slice(request.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: wire_bench GLUOND_ADDRESS ECHO_ADDRESS\n");
    return 2;
  }
  Client gluond(argv[1]), echo(argv[2]);
  struct Case {
    const char* name;
    int64_t floats;
    int rounds, calls;
    const char* limit;  // The ratio's limit.
  };
  for (const Case& c : {Case{"Invoke _copy, one float", 1, 21, 300, "1.25"}, Case{"Invoke _copy, 16 MiB", 4 << 20, 15, 5, "1.3"}}) {
    const grpc::ByteBuffer request = CopyRequest(c.floats);
    P50Microseconds(gluond, request, c.calls);  // Warm both up.
    P50Microseconds(echo, request, c.calls);
    std::vector<double> ours, floor, ratios;
    for (int round = 0; round < c.rounds; ++round) {
      ours.push_back(P50Microseconds(gluond, request, c.calls));
      floor.push_back(P50Microseconds(echo, request, c.calls));
      ratios.push_back(ours.back() / floor.back());
    }
    std::printf("%s\t%.1f\t%.1f\t%.3f\t%s\n", c.name, Median(ours), Median(floor), Median(ratios), c.limit);
  }
}
