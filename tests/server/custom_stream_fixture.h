// Mistakes and malice of clients that compute operators. All the while another client's training goes on, and ends with the same
// bits as one that was alone, and so do the calls of another provider.

#ifndef TESTS_SERVER_CUSTOM_STREAM_FIXTURE_H_
#define TESTS_SERVER_CUSTOM_STREAM_FIXTURE_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/generic/generic_stub.h"
#include "proto/health/v1/health.grpc.pb.h"
#include "tests/server/custom_host_fixture.h"

namespace gluond::server {

using grpc::StatusCode;

class CustomStreamTest : public CustomTest {
 protected:
  void SetUp() override {
    Limits limits;
    limits.max_message_bytes = 4 << 20;
    limits.max_tensor_bytes = 64 << 20;
    limits.callback_seconds = 2;
    StartServer(limits);
  }

  // `more`: further attributes, which make it another operator.
  grpc::Status Invoke(const std::string& op_type, const std::string& more = "") {
    grpc::ClientContext context;
    v1::InvokeResponse response;
    return operators_->Invoke(&context,
                              Json<v1::InvokeRequest>(R"({"op": "Custom", "attributes": {"op_type": ")" + op_type + R"(")" + more +
                                                      R"(}, "inputs": [{"shape": [2, 3], "float_data": [1, 2, 3, 4, 5, 6]}]})"),
                              &response);
  }
  std::unique_ptr<Started> StartInvoke(const std::string& op_type) {
    return std::make_unique<Started>([this, op_type] { return Invoke(op_type); });
  }

  // Sends messages as they are. The stream's end.
  grpc::Status SendFrames(const std::vector<std::string>& frames) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto stream = stub.PrepareCall(&context, "/gluond.v1.OperatorService/HostOperators", &queue);
    const auto wait = [&] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    stream->StartCall(this);
    bool ok = wait();
    for (size_t i = 0; i < frames.size() && ok; ++i) {
      const grpc::Slice slice(frames[i]);
      stream->Write(grpc::ByteBuffer(&slice, 1), this);
      ok = wait();
    }
    grpc::ByteBuffer reply;
    do {
      stream->Read(&reply, this);
    } while (wait());
    grpc::Status status;
    stream->Finish(&status, this);
    wait();
    return status;
  }

  void ExpectHealthy(const char* after) {
    const auto health = grpc::health::v1::Health::NewStub(channel_);
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckResponse response;
    EXPECT_TRUE(health->Check(&context, {}, &response).ok()) << after;
    EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::SERVING) << after;
    const grpc::Status good = Invoke("square");  // Another provider's.
    EXPECT_TRUE(good.ok()) << after << ": " << good.error_message();
  }
  static void Expect(const grpc::Status& status, StatusCode code, const std::string& says, const char* name) {
    EXPECT_EQ(status.error_code(), code) << name << ": " << status.error_message();
    EXPECT_NE(status.error_message().find(says), std::string::npos) << name << ": " << status.error_message();
  }

  // Does `work` while another client trains two models, one of them with a provider; their values are those of models that
  // are trained alone afterwards.
  void WhileOthersTrain(const std::function<void()>& work) {
    Provider good(address(), {"square"});
    DefineMlp("victim");
    DefineTrained("custom-victim");
    std::atomic<bool> done = false;
    int steps = 0;
    std::thread client([&] {
      for (; !done || steps == 0; ++steps) {
        for (const char* name : {"victim", "custom-victim"}) {
          const grpc::Status status = StartStep(name, steps)->Wait();
          EXPECT_TRUE(status.ok()) << status.error_message();
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
    work();
    done = true;
    client.join();
    DefineMlp("alone");
    DefineTrained("custom-alone");
    for (int i = 0; i < steps; ++i) {
      for (const char* name : {"alone", "custom-alone"}) Step(name, i);
    }
    EXPECT_EQ(Parameters("victim"), Parameters("alone"));
    EXPECT_EQ(Parameters("custom-victim"), Parameters("custom-alone"));
  }
};

}  // namespace gluond::server

#endif  // TESTS_SERVER_CUSTOM_STREAM_FIXTURE_H_
