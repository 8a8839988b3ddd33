// Two servers in one process: each has clients of its own that compute operators, whatever the names of these and of
// their operators, and the end of one server does not disturb the other's.

#include "tests/server/custom_host_fixture.h"

namespace gluond::server {
namespace {

class CustomServersTest : public CustomTest {
 protected:
  void SetUp() override {
    CustomTest::SetUp();
    ServerOptions options;
    options.address = "127.0.0.1:0";
    options.devices = "cpu";
    options.cpu_threads = 1;
    options.log = log_.sink();
    absl::StatusOr<std::unique_ptr<Server>> other = Server::Start(options);
    ASSERT_TRUE(other.ok()) << other.status();
    other_ = *std::move(other);
  }
  void TearDown() override {
    other_.reset();
    CustomTest::TearDown();
  }
  std::string other_address() const { return "127.0.0.1:" + std::to_string(other_->port()); }

  // "square" of 3, as `server`'s provider computes it; -1 where the call fails.
  static float Square(Server& server) {
    const auto stub = v1::OperatorService::NewStub(server.InProcessChannel());
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::InvokeResponse response;
    const grpc::Status status = stub->Invoke(&context, Json<v1::InvokeRequest>(R"({"op": "Custom",
        "attributes": {"op_type": "square"}, "encoding": "RAW", "inputs": [{"shape": [1], "fill": {"constant": 3}}]})"),
                                             &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return status.ok() ? Floats(response.outputs(0))[0] : -1;
  }
  // Computes the identity instead.
  static v1::CallbackResult Identity(const v1::Callback& callback) {
    v1::CallbackResult result = RightAnswer(callback);
    if (callback.has_forward()) *result.mutable_computed()->mutable_outputs(0) = callback.forward().arguments(0);
    return result;
  }

  std::unique_ptr<Server> other_;
};

TEST_F(CustomServersTest, EqualNamesAreEachServersOwn) {
  Provider provider(address(), {"square"}), other(other_address(), {"square"}, &Identity);
  EXPECT_EQ(Square(*server_), 9);
  EXPECT_EQ(Square(*other_), 3);
  EXPECT_TRUE(provider.taken_over().empty());
  DefineTrained("m");
  Step("m", 0);
  EXPECT_EQ(provider.Passes(), (std::pair<size_t, size_t>(2, 1)));
  EXPECT_EQ(other.Passes(), (std::pair<size_t, size_t>(1, 0)));
}

TEST_F(CustomServersTest, AServerWithoutAProviderHasNone) {
  Provider provider(address(), {"square"});
  const auto stub = v1::OperatorService::NewStub(other_->InProcessChannel());
  Call(stub, &v1::OperatorService::Stub::Invoke, Json<v1::InvokeRequest>(R"({"op": "Custom",
      "attributes": {"op_type": "square"}, "inputs": [{"shape": [1], "fill": {"constant": 3}}]})"),
       grpc::StatusCode::UNAVAILABLE);
}

// One client, which has the same scope everywhere.
TEST_F(CustomServersTest, AServersEndLeavesTheOthersCallsAlone) {
  const auto hold = [](const v1::Callback& callback) {
    return callback.has_forward() ? v1::CallbackResult() : RightAnswer(callback);
  };
  const std::string scope = "a secret of one client's";
  Provider provider(address(), {"square"}, hold, scope), other(other_address(), {"square"}, &RightAnswer, scope);
  float answer = 0;
  std::thread call([&] { answer = Square(*server_); });
  provider.WaitFor(1, &v1::Callback::has_forward);
  EXPECT_EQ(Square(*other_), 9);
  other_.reset();
  other.WaitUntil([] { return false; });
  EXPECT_FALSE(provider.ended());
  for (const v1::Callback& callback : provider.Seen()) {
    if (callback.has_forward()) provider.stream().Answer(RightAnswer(callback));
  }
  call.join();
  EXPECT_EQ(answer, 9);
}

}  // namespace
}  // namespace gluond::server
