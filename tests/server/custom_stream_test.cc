// Bad streams of clients that compute operators, most as a table. Each row gets its code and a message that says what is
// wrong. custom_answer_test has the answers on streams that are good.

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "server/custom/hosts.h"
#include "server/custom/scope.h"
#include "tests/server/custom_stream_fixture.h"

namespace gluond::server {
namespace {

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

TEST_F(CustomStreamTest, ABadStreamEndsWithItsCodeAndHarmsNobody) {
  WhileOthersTrain([&] {
    for (const BadStream& bad : kBadStreams) {
      Expect(SendFrames(bad.frames), bad.code, bad.says, bad.name);
      ExpectHealthy(bad.name);
    }
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

}  // namespace
}  // namespace gluond::server
