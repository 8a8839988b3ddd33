// Mistakes and malice of clients that compute operators, as tables. Each row gets its code and a message that says what
// is wrong, or fails the one run that needs it. All the while another client's training goes on, and ends with the same
// bits as one that was alone, and so do the calls of another provider.

#include <atomic>
#include <cmath>
#include <future>
#include <limits>
#include <thread>

#include "grpcpp/generic/generic_stub.h"
#include "proto/health/v1/health.grpc.pb.h"
#include "server/custom/hosts.h"
#include "server/custom/scope.h"
#include "tests/server/custom_host_fixture.h"

namespace gluond::server {
namespace {

using grpc::StatusCode;

std::string OpenBytes(const std::string& scope, const std::string& client = "eve", const std::string& key = "") {
  v1::HostRequest request;
  request.mutable_open()->set_scope(scope);
  request.mutable_open()->set_key(key);
  request.mutable_open()->set_client_id(client);
  return request.SerializeAsString();
}
std::string Open() { return OpenBytes("eve's secret, which is long"); }
std::string Offer(const std::string& name) {
  v1::HostRequest request;
  request.mutable_offer()->set_op_type(name);
  return request.SerializeAsString();
}
std::string ResultBytes(uint64_t call) {
  v1::HostRequest request;
  request.mutable_result()->set_call(call);
  return request.SerializeAsString();
}
std::vector<std::string> ManyOffers() {
  std::vector<std::string> frames = {Open()};
  for (int i = 0; i <= 10'000; ++i) frames.push_back(Offer("op" + std::to_string(i)));
  return frames;
}

struct BadStream {
  const char* name;
  std::vector<std::string> frames;
  StatusCode code;
  const char* says;
};

const BadStream kBadStreams[] = {
    {"Garbage", {"\xff\xff\xff\xff"}, StatusCode::INVALID_ARGUMENT, "not a gluond.v1.HostRequest"},
    {"GarbageLater", {Open(), "\x0a\x7fno"}, StatusCode::INVALID_ARGUMENT, "open is longer than what holds it"},
    {"OfferFirst", {Offer("x")}, StatusCode::FAILED_PRECONDITION, "first message needs `open`"},
    {"ResultFirst", {ResultBytes(1)}, StatusCode::FAILED_PRECONDITION, "first message needs `open`"},
    {"NothingFirst", {""}, StatusCode::FAILED_PRECONDITION, "first message needs `open`"},
    {"OpenTwice", {Open(), Open()}, StatusCode::FAILED_PRECONDITION, "only there"},
    {"NoScope", {OpenBytes("")}, StatusCode::INVALID_ARGUMENT, "OpenHost.scope has 0 bytes"},
    {"ShortScope", {OpenBytes("guess me")}, StatusCode::INVALID_ARGUMENT, "OpenHost.scope has 8 bytes"},
    {"LongScope", {OpenBytes(std::string(129, 's'))}, StatusCode::INVALID_ARGUMENT, "OpenHost.scope has 129 bytes"},
    {"ScopeIsNotUtf8", {std::string("\x0a\x12\x0a\x10") + std::string(16, '\xff')}, StatusCode::INVALID_ARGUMENT, "UTF-8"},
    {"LongClientId",
     {OpenBytes(std::string(20, 's'), std::string(129, 'c'))},
     StatusCode::INVALID_ARGUMENT,
     "OpenHost.client_id has 129"},
    {"NoKey", {OpenBytes(ScopeOf("the key of the victim"))}, StatusCode::INVALID_ARGUMENT, "OpenHost.key has 0 bytes"},
    {"ShortKey", {OpenBytes(ScopeOf("guess me"), "eve", "guess me")}, StatusCode::INVALID_ARGUMENT, "OpenHost.key has 8 bytes"},
    {"LongKey", {OpenBytes(ScopeOf(""), "eve", std::string(129, 'k'))}, StatusCode::INVALID_ARGUMENT, "OpenHost.key has 129"},
    {"AnotherKey",
     {OpenBytes(ScopeOf("the key of the victim"), "eve", "the key of eve, herself")},
     StatusCode::PERMISSION_DENIED,
     "not that of OpenHost.key"},
    {"KeyOfASecretScope",
     {OpenBytes("eve's secret, which is long", "eve", "the key of eve, herself")},
     StatusCode::PERMISSION_DENIED,
     "not that of OpenHost.key"},
    {"OfferWithoutName", {Open(), Offer("")}, StatusCode::INVALID_ARGUMENT, "OfferOperator.op_type has 0 bytes"},
    {"OfferWithALongName", {Open(), Offer(std::string(129, 'n'))}, StatusCode::INVALID_ARGUMENT, "OfferOperator.op_type has 129"},
    {"TooManyOffers", ManyOffers(), StatusCode::RESOURCE_EXHAUSTED, "at most 10000 operators"},
    {"OverTheLimit", {Open(), std::string(5 << 20, '\0')}, StatusCode::RESOURCE_EXHAUSTED, "--max_message_bytes"},
};

// A bad provider's way to answer a callback of its operator, which takes one float array of shape [2, 3].
struct BadAnswer {
  const char* name;
  std::function<void(const v1::Callback&, v1::CallbackResult*)> change;  // Changes a good answer.
  StatusCode code;                                                       // The code of the run that needs it.
  const char* says;
};

using Change = std::function<void(const v1::Callback&, v1::CallbackResult*)>;

Change InShape(std::function<void(v1::CallbackResult*)> change) {
  return [change](const v1::Callback& callback, v1::CallbackResult* result) {
    if (callback.has_infer_shape()) change(result);
  };
}
Change InType(std::function<void(v1::CallbackResult*)> change) {
  return [change](const v1::Callback& callback, v1::CallbackResult* result) {
    if (callback.has_infer_type()) change(result);
  };
}
Change InForward(std::function<void(v1::CallbackResult*)> change) {
  return [change](const v1::Callback& callback, v1::CallbackResult* result) {
    if (callback.has_forward()) change(result);
  };
}
// The output of the forward pass.
Change InOutput(std::function<void(v1::Tensor*)> change) {
  return InForward([change](v1::CallbackResult* result) { change(result->mutable_computed()->mutable_outputs(0)); });
}
Change InOutputShape(std::vector<int64_t> dims) {
  return InShape([dims](v1::CallbackResult* result) {
    v1::ArrayType* output = result->mutable_inferred()->mutable_outputs(0);
    output->mutable_shape()->Assign(dims.begin(), dims.end());
  });
}
Change InDims(std::vector<int64_t> dims) {
  return InOutput([dims](v1::Tensor* output) { output->mutable_shape()->Assign(dims.begin(), dims.end()); });
}

constexpr auto kInvalid = StatusCode::INVALID_ARGUMENT;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

const BadAnswer kBadAnswers[] = {
    // Answers about shapes and types.
    {"ShapeAsComputed", InShape([](auto* r) { r->mutable_computed(); }), kInvalid, "did not answer with `inferred`"},
    {"ShapeAsNothing", InShape([](auto* r) { r->clear_result(); }), kInvalid, "did not answer with `inferred`"},
    {"NoOutputs", InShape([](auto* r) { r->mutable_inferred()->clear_outputs(); }), kInvalid, "0 outputs"},
    {"ManyOutputs", InShape([](auto* r) {
       for (int i = 0; i < 100'000; ++i) r->mutable_inferred()->add_outputs();
     }),
     kInvalid, "at most 1000"},
    {"UnexpectedAuxiliary", InShape([](auto* r) { r->mutable_inferred()->add_auxiliary(); }), kInvalid, "1 auxiliary states"},
    {"OtherArguments", InShape([](auto* r) { r->mutable_inferred()->mutable_arguments(0)->set_shape(0, 7); }), kInvalid,
     "Shape inconsistent"},
    {"NegativeOutput", InOutputShape({-5, 3}), kInvalid, "-5"},
    {"HugeOutput", InOutputShape({int64_t{1} << 40, int64_t{1} << 40}), kInvalid, "2^48"},
    {"LargeOutput", InOutputShape({1'000'000, 1'000'000}), StatusCode::RESOURCE_EXHAUSTED, "--max_tensor_bytes"},
    {"UnknownOutput", InShape([](auto* r) { r->mutable_inferred()->mutable_outputs(0)->clear_has_shape(); }),
     StatusCode::FAILED_PRECONDITION, "not fully known: output 0"},
    {"UnknownDtype",
     InType([](auto* r) { r->mutable_inferred()->mutable_outputs(0)->set_dtype(static_cast<v1::Tensor::DType>(77)); }), kInvalid,
     "dtype 77"},
    {"OtherDtypeOfArgument", InType([](auto* r) { r->mutable_inferred()->mutable_arguments(0)->set_dtype(v1::Tensor::FLOAT64); }),
     kInvalid, "Type inconsistent"},
    // Answers with values.
    {"ForwardAsInferred", InForward([](auto* r) { r->mutable_inferred(); }), kInvalid, "did not answer with `computed`"},
    {"ForwardAsNothing", InForward([](auto* r) { r->clear_result(); }), kInvalid, "did not answer with `computed`"},
    {"NoValues", InForward([](auto* r) { r->mutable_computed()->clear_outputs(); }), kInvalid, "gave 0 outputs, expected 1"},
    {"TwoValues", InForward([](auto* r) { *r->mutable_computed()->add_outputs() = r->computed().outputs(0); }), kInvalid,
     "gave 2 outputs, expected 1"},
    {"OtherShape", InDims({3, 2}), kInvalid, "gave float32[3,2], expected float32[2,3]"},
    {"OtherDtype", InOutput([](auto* t) { t->set_dtype(v1::Tensor::INT32); }), kInvalid, "gave int32[2,3], expected float32[2,3]"},
    {"ShortValue", InOutput([](auto* t) { t->mutable_raw()->resize(23); }), kInvalid, "takes 24 bytes, but raw has 23"},
    {"LongValue", InOutput([](auto* t) { t->mutable_raw()->resize(1 << 20); }), kInvalid, "takes 24 bytes, but raw has 1048576"},
    {"EmptyValue", InOutput([](auto* t) { t->clear_raw(); }), kInvalid, "output 0"},
    {"NegativeDimension", InDims({-2, -3}), kInvalid, "has dimension -2"},
    {"HugeDimension", InDims({std::numeric_limits<int64_t>::max(), 3}), kInvalid, "2^48"},
    {"LargeDimension", InDims({1'000'000, 1'000'000}), kInvalid, "output 0"},
    {"Fill", InOutput([](auto* t) { t->clear_raw(), t->mutable_fill(); }), kInvalid, "`fill`"},
    {"UnexpectedState", InForward([](auto* r) { *r->mutable_computed()->add_auxiliary() = r->computed().outputs(0); }), kInvalid,
     "gave 1 auxiliary states, expected 0"},
    // Other answers. Some of these do no harm.
    {"NanSeconds", InForward([](auto* r) { r->set_seconds(kNan); }), StatusCode::OK, ""},
    {"InfiniteSeconds", InForward([](auto* r) { r->set_seconds(kInfinity); }), StatusCode::OK, ""},
    {"NegativeSeconds", InForward([](auto* r) { r->set_seconds(-1e300); }), StatusCode::OK, ""},
    {"EmptyFailure", InForward([](auto* r) { r->mutable_failure(); }), StatusCode::FAILED_PRECONDITION, "failed in its client"},
    {"LongFailure", InForward([](v1::CallbackResult* r) {
       r->mutable_failure()->set_type(std::string(1 << 20, 'T'));
       std::string text;
       for (int i = 0; i < 200'000; ++i) text += "\xE2\x82\xAC";  // Cut between characters.
       r->mutable_failure()->set_message(text);
       r->mutable_failure()->set_traceback(text + "\n" + text + "\nlast line\n");
     }),
     StatusCode::FAILED_PRECONDITION, "failed in its client: TTT"},
    {"FailureOfShapes", InShape([](auto* r) { r->mutable_failure()->set_message("no idea"); }), StatusCode::FAILED_PRECONDITION,
     "infer_shape of custom operator 'bad FailureOfShapes' failed in its client: : no idea"},
};

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

TEST_F(CustomStreamTest, ABadStreamEndsWithItsCodeAndHarmsNobody) {
  WhileOthersTrain([&] {
    for (const BadStream& bad : kBadStreams) {
      Expect(SendFrames(bad.frames), bad.code, bad.says, bad.name);
      ExpectHealthy(bad.name);
    }
  });
}

TEST_F(CustomStreamTest, ABadAnswerFailsTheRunThatNeedsItAndNothingElse) {
  WhileOthersTrain([&] {
    for (const BadAnswer& bad : kBadAnswers) {
      std::atomic<bool> is_bad = true;
      const std::string op = std::string("bad ") + bad.name;
      Provider provider(address(), {op}, [&](const v1::Callback& callback) {
        v1::Callback as_square = callback;
        as_square.set_op_type("square");
        v1::CallbackResult result = RightAnswer(as_square);
        if (is_bad) bad.change(callback, &result);
        return result;
      });
      Expect(Invoke(op), bad.code, bad.says, bad.name);
      ExpectHealthy(bad.name);
      // The next run works.
      is_bad = false;
      Expect(Invoke(op, R"(, "version": "2")"), StatusCode::OK, "", bad.name);
      EXPECT_FALSE(provider.ended()) << bad.name;
    }
  });
}

TEST_F(CustomStreamTest, AnswersThatNobodyWaitsForAreDropped) {
  WhileOthersTrain([&] {
    Provider* self = nullptr;
    std::atomic<bool> ready = false;
    Provider provider(address(), {"bad"}, [&](const v1::Callback& callback) {
      while (!ready) std::this_thread::yield();
      v1::Callback as_square = callback;
      as_square.set_op_type("square");
      v1::CallbackResult result = RightAnswer(as_square);
      // Others' calls, and calls that never existed.
      for (uint64_t call = callback.call() > 50 ? callback.call() - 50 : 1; call < callback.call() + 50; ++call) {
        if (call == callback.call()) continue;
        v1::CallbackResult wrong = result;
        wrong.set_call(call);
        self->stream().Answer(wrong);
      }
      self->stream().Answer(result);
      return result;  // Twice.
    });
    self = &provider;
    ready = true;
    for (int i = 0; i < 20; ++i) Expect(Invoke("bad"), StatusCode::OK, "", "dropped");
    EXPECT_FALSE(provider.ended());
    ExpectHealthy("dropped");
  });
}

TEST_F(CustomStreamTest, AStreamThatEndsInTheMiddleOfACallFailsItsRun) {
  const struct {
    const char* name;
    std::function<void(Provider&)> end;
    StatusCode code;
    const char* says;
  } kEnds[] = {
      {"HalfClose", [](Provider& p) { p.stream().HalfClose(); }, StatusCode::UNAVAILABLE, "has gone"},
      {"Cancel", [](Provider& p) { p.stream().Cancel(); }, StatusCode::UNAVAILABLE, "has gone"},
      {"OpensAgain", [](Provider& p) { p.stream().Open("the bad one's secret"); }, StatusCode::UNAVAILABLE, "has gone"},
      {"BadOffer", [](Provider& p) { p.stream().Offer(""); }, StatusCode::UNAVAILABLE, "has gone"},
      {"Silence", [](Provider&) {}, StatusCode::DEADLINE_EXCEEDED, "--callback_seconds"},
  };
  WhileOthersTrain([&] {
    for (const auto& end : kEnds) {
      Provider provider(
          address(), {"bad"},
          [](const v1::Callback& callback) { return callback.has_forward() ? v1::CallbackResult() : RightAnswer(callback); },
          "the bad one's secret");
      const auto call = StartInvoke("bad");
      provider.WaitFor(1, &v1::Callback::has_forward);
      end.end(provider);
      Expect(call->Wait(), end.code, end.says, end.name);
      if (end.code == StatusCode::DEADLINE_EXCEEDED) {
        // It is told, it is not ended for that, and its late answer does no harm.
        const uint64_t number = provider.Seen().back().call();
        while (provider.cancelled().count(number) == 0) std::this_thread::yield();
        provider.stream().Answer(RightAnswer(provider.Seen().back()));
        EXPECT_FALSE(provider.ended());
      }
      ExpectHealthy(end.name);
    }
  });
}

TEST_F(CustomStreamTest, AnotherStreamOfTheSameScopeTakesOver) {
  WhileOthersTrain([&] {
    Provider first(
        address(), {"bad"},
        [](const v1::Callback& callback) { return callback.has_forward() ? v1::CallbackResult() : RightAnswer(callback); },
        "a secret of two streams");
    const auto call = StartInvoke("bad");
    first.WaitFor(1, &v1::Callback::has_forward);
    Provider second(
        address(), {"bad"},
        [](const v1::Callback& callback) {
          v1::Callback as_square = callback;
          as_square.set_op_type("square");
          return RightAnswer(as_square);
        },
        "a secret of two streams");
    Expect(call->Wait(), StatusCode::UNAVAILABLE, "has gone", "takeover");
    first.WaitUntil([] { return false; });
    Expect(first.stream().Finish(), StatusCode::ABORTED, "another stream has this scope", "takeover");
    Expect(Invoke("bad"), StatusCode::OK, "", "takeover");
    ExpectHealthy("takeover");
  });
}

// Has a scope, and is slow to give it up.
class SlowChannel final : public HostChannel {
 public:
  void Send(const v1::HostResponse&) override {}
  void SendCall(uint64_t) override {}
  void Replaced() override {
    asked_.set_value();
    may_go_.get_future().wait();
  }
  void WaitUntilAsked() { asked_.get_future().wait(); }
  void Go() { may_go_.set_value(); }

 private:
  std::promise<void> asked_, may_go_;
};

// A program begins to use its operators when it has heard that the stream is open.
TEST_F(CustomStreamTest, SaysThatItIsOpenOnceItCanBeCalled) {
  const std::string scope = "a secret that was another's";
  const auto slow = std::make_shared<SlowChannel>();
  server_->custom_hosts().Attach(scope, slow, {});
  HostStreamClient stream(address());
  ASSERT_TRUE(stream.Open(scope));
  slow->WaitUntilAsked();
  v1::HostResponse response;
  std::future<bool> read = std::async(std::launch::async, [&] { return stream.Read(&response); });
  EXPECT_EQ(read.wait_for(std::chrono::milliseconds(200)), std::future_status::timeout);
  slow->Go();
  EXPECT_TRUE(read.get());
  EXPECT_TRUE(response.has_opened());
}

TEST_F(CustomStreamTest, ASilentStreamEndsAndOneThatSaysNothingMuchDoesNot) {
  Limits limits;
  limits.session_lease_seconds = 2;
  StartServer(limits);
  HostStreamClient silent(address());
  silent.Open("a secret that says nothing");
  Provider beating(address(), {"square"});
  const auto end = std::make_unique<Started>([&] { return silent.Finish(); });
  std::atomic<bool> done = false;
  std::thread beat([&] {
    while (!done) {
      beating.stream().Send({});
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
  });
  Expect(end->Wait(), StatusCode::DEADLINE_EXCEEDED, "silent for the 2 s of --session_lease_seconds", "silent");
  std::this_thread::sleep_for(std::chrono::seconds(1));
  EXPECT_FALSE(beating.ended());
  ExpectHealthy("silent");
  done = true;
  beat.join();
}

TEST_F(CustomStreamTest, AProviderHasSoManyCalls) {
  Limits limits;
  limits.max_callbacks = 3;
  StartServer(limits);
  Provider good(address(), {"square"});
  Provider provider(address(), {"bad"}, [](const v1::Callback& callback) {
    return callback.has_forward() ? v1::CallbackResult() : RightAnswer(callback);
  });
  std::vector<std::unique_ptr<Started>> calls;
  for (size_t i = 1; i <= 3; ++i) {
    calls.push_back(StartInvoke("bad"));
    provider.WaitFor(i, &v1::Callback::has_forward);
  }
  Expect(Invoke("bad"), StatusCode::RESOURCE_EXHAUSTED, "not answered 3 calls, the limit of --max_callbacks", "calls");
  ExpectHealthy("calls");
  provider.stream().Cancel();
  for (const auto& call : calls) Expect(call->Wait(), StatusCode::UNAVAILABLE, "has gone", "calls");
}

TEST_F(CustomStreamTest, AProviderThatDoesNotReadFailsItsCallsAndIsEndedWhenTooMuchWaits) {
  Limits limits;
  limits.callback_seconds = 1;
  limits.max_session_queue_bytes = 1 << 20;
  StartServer(limits);
  WhileOthersTrain([&] {
    HostStreamClient deaf(address());
    deaf.Open("a secret of the deaf one's");
    v1::HostResponse opened, offered;
    deaf.Offer("bad");
    ASSERT_TRUE(deaf.Read(&opened));
    ASSERT_TRUE(deaf.Read(&offered));
    // Calls that it does not read wait on the server no longer than they may.
    std::vector<std::unique_ptr<Started>> calls;
    for (int i = 0; i < 50; ++i) calls.push_back(StartInvoke("bad"));
    for (const auto& call : calls) Expect(call->Wait(), StatusCode::DEADLINE_EXCEEDED, "--callback_seconds", "deaf");
    ExpectHealthy("deaf");
    // The server's messages for it may not grow.
    int offers = 0;
    while (offers < 1'000'000 && deaf.Offer(std::string(100, 'n'))) ++offers;
    EXPECT_LT(offers, 1'000'000);
    // It learns of its end if it reads in time; the log tells in any case.
    EXPECT_FALSE(deaf.Finish().ok());
    std::string lines;
    for (const std::string& line : log_.Take()) lines += line;
    EXPECT_NE(lines.find("the client does not read"), std::string::npos);
    ExpectHealthy("deaf");
  });
}

TEST_F(CustomStreamTest, ACallOverTheMessageLimitFailsAlone) {
  Provider provider(address(), {"square"});
  v1::InvokeRequest request = Json<v1::InvokeRequest>(R"({"op": "Custom", "attributes": {"op_type": "square"}, "encoding":
      "STATISTICS", "inputs": [{"shape": [2000000], "fill": {"constant": 1}}]})");
  Call(operators_, &v1::OperatorService::Stub::Invoke, request, StatusCode::RESOURCE_EXHAUSTED);
  ExpectMessage("more than the 4194304 of --max_message_bytes");
  EXPECT_FALSE(provider.ended());
  EXPECT_TRUE(Invoke("square").ok());
}

}  // namespace
}  // namespace gluond::server
