// Calls of custom operators whose runs no longer wait for them, because these were cancelled or late, and answers that
// come too late or too early: an answer reads and writes no memory but its own call's.

#include <atomic>

#include "tests/server/custom_host_fixture.h"

namespace gluond::server {
namespace {

using grpc::StatusCode;

v1::CallbackResult HoldForward(const v1::Callback& callback) {
  return callback.has_forward() ? v1::CallbackResult() : RightAnswer(callback);
}

class CustomCancelTest : public CustomTest {
 protected:
  // A call that can be cancelled.
  struct Cancellable {
    explicit Cancellable(std::function<grpc::Status(grpc::ClientContext*)> call)
        : started([this, call] { return call(&context); }) {}
    grpc::ClientContext context;
    Started started;
  };
  std::unique_ptr<Cancellable> Start(const v1::InvokeRequest& request) {
    return std::make_unique<Cancellable>([this, request](grpc::ClientContext* context) {
      v1::InvokeResponse response;
      return operators_->Invoke(context, request, &response);
    });
  }
  // Cancels, and returns when the provider has been told: the run has ended then.
  static void Cancel(Cancellable& call, Provider& provider) {
    call.context.TryCancel();
    EXPECT_EQ(call.started.Wait().error_code(), StatusCode::CANCELLED) << call.started.status.error_message();
    ASSERT_TRUE(IsTold(provider.Seen().back().call(), provider)) << "the provider still computes for nobody";
  }
  static bool IsTold(uint64_t number, Provider& provider) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (provider.cancelled().count(number) == 0) {
      if (std::chrono::steady_clock::now() > patience) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }
};

TEST_F(CustomCancelTest, ALateAnswerToACancelledInvokeIsNobodys) {
  Provider provider(address(), {"counted"}, &HoldForward);
  const auto call = Start(Json<v1::InvokeRequest>(R"({"op": "Custom", "custom":
      {"op_type": "counted", "arguments": ["data"], "auxiliary": ["count"], "shared": true},
      "inputs": [{"shape": [1], "fill": {"constant": 1}}, {"shape": [1], "fill": {"constant": 1}}]})"));
  provider.WaitFor(1, &v1::Callback::has_forward);
  Cancel(*call, provider);
  provider.stream().Answer(RightAnswer(provider.Seen().back()));
  provider.Offer("counted");  // The server has read the answer.
  EXPECT_FALSE(provider.ended());
}

TEST_F(CustomCancelTest, ALateAnswerToACancelledStepLeavesTheModelAlone) {
  Provider provider(address(), {"counted"}, &HoldForward);
  Define(CountedNetwork("m"));
  Initialize("m");
  CreateTrainer("m");
  const auto before = Parameters("m");
  Cancellable step([this](grpc::ClientContext* context) {
    v1::TrainStepResponse response;
    return training_->TrainStep(context, Batch("m", 0), &response);
  });
  provider.WaitFor(1, &v1::Callback::has_forward);
  Cancel(step, provider);
  provider.stream().Answer(RightAnswer(provider.Seen().back()));
  provider.Offer("counted");
  EXPECT_EQ(Parameters("m"), before);
}

// A provider that reads only when the test says so.
struct SlowReader {
  explicit SlowReader(const std::string& address) : stream(address) {
    EXPECT_TRUE(stream.Open("a secret of the slow reader's"));
    EXPECT_TRUE(stream.Offer("slow"));
    while (response.offered_size() == 0 && stream.Read(&response)) {
    }
  }
  // The next call.
  v1::Callback Read() {
    do {
      response.Clear();
    } while (stream.Read(&response) && response.callbacks_size() == 0);
    return response.callbacks_size() == 0 ? v1::Callback() : response.callbacks(0);
  }

  HostStreamClient stream;
  v1::HostResponse response;
};

constexpr int kMany = 1 << 20;  // Elements: more bytes than the connection takes unread.

// The inputs have `small` and `large` elements, the output as many as `small`.
v1::InvokeRequest SlowRequest(int large) {
  return Json<v1::InvokeRequest>(R"({"op": "Custom", "custom": {"op_type": "slow", "same_shape": true,
      "same_dtype": true, "arguments": ["small", "large"], "shared": true}, "inputs": [{"shape": [1], "fill": {"constant": 1}},
      {"shape": [)" + std::to_string(large) +
                                 R"(], "fill": {"constant": 3}}]})");
}

v1::CallbackResult Answer(uint64_t call) {
  v1::CallbackResult result;
  result.set_call(call);
  v1::Tensor* const output = result.mutable_computed()->add_outputs();
  output->add_shape(1);
  SetFloats({5}, output);
  return result;
}

// The provider answers before it is asked. The other provider's calls give the server the time to read its answers.
TEST_F(CustomCancelTest, AnAnswerCountsWhenItsQuestionHasBeenSent) {
  SlowReader slow(address());
  Provider other(address(), {"square"});
  const auto first = Start(SlowRequest(1));
  const uint64_t number = slow.Read().call();
  slow.stream.Answer(Answer(number));
  EXPECT_TRUE(first->started.Wait().ok()) << first->started.status.error_message();

  std::atomic<bool> ended = false;
  v1::InvokeResponse response;
  Started second([&] {
    grpc::ClientContext context;
    const grpc::Status status = operators_->Invoke(&context, SlowRequest(kMany), &response);
    ended = true;
    return status;
  });
  for (int i = 0; i < 8; ++i) {
    for (uint64_t guess = number + 1; guess < number + 32; ++guess) slow.stream.Answer(Answer(guess));
    Call(operators_, &v1::OperatorService::Stub::Invoke,
         R"({"op": "Custom", "custom": {"op_type": "square",
        "arguments": ["data"], "same_dtype": true, "shared": true}, "attributes": {"version": ")" +
             std::to_string(i) + R"("}, "inputs": [{"shape": [1], "float_data": [2]}]})");
  }
  EXPECT_FALSE(ended);
  const v1::Callback callback = slow.Read();
  EXPECT_EQ(Floats(callback.forward().arguments(1)), std::vector<float>(kMany, 3));
  slow.stream.Answer(Answer(callback.call()));
  EXPECT_TRUE(second.Wait().ok()) << second.status.error_message();
  EXPECT_EQ(response.outputs(0).float_data(0), 5);
}

// The step that has failed is over, and another one runs, while gRPC still sends the values of the first one.
TEST_F(CustomCancelTest, ARunDoesNotWriteWhatIsBeingSentOfAnother) {
  Limits limits;
  limits.callback_seconds = 1;
  StartServer(limits);
  SlowReader slow(address());
  Define(R"({"model": "m", "seed": "1", "graph": {"nodes": [
      {"name": "fc", "op": "FullyConnected", "inputs": ["data"], "attributes": {"num_hidden": 16384}},
      {"name": "mid", "op": "Custom", "inputs": ["fc"], "custom": {"op_type": "slow",
          "arguments": ["data"], "same_shape": true, "same_dtype": true, "shared": true}},
      {"name": "sum", "op": "sum", "inputs": ["mid"]}]},
      "variables": [{"name": "data", "kind": "INPUT", "shape": [-1, 1]}]})");
  Initialize("m");
  const int rows = kMany / 16384;
  const auto predict = [&](int value) {
    Call(models_, &v1::ModelService::Stub::Predict,
         R"({"model": "m", "inputs": {"data": {"shape": [)" + std::to_string(rows) + R"(, 1], "fill": {"constant": )" +
             std::to_string(value) + "}}}}",
         StatusCode::DEADLINE_EXCEEDED);
  };
  predict(1);
  predict(2);
  const std::vector<float> sent = Floats(slow.Read().forward().arguments(0));
  ASSERT_EQ(sent.size(), static_cast<size_t>(kMany));
  int differ = 0;
  for (int row = 1; row < rows; ++row) {
    differ += !std::equal(sent.begin(), sent.begin() + 16384, sent.begin() + row * 16384);
  }
  EXPECT_EQ(differ, 0);
}

}  // namespace
}  // namespace gluond::server
