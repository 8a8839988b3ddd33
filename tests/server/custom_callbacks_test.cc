// The states of a callback: what becomes of answers that come too early, twice, from others, or to guessed numbers.

#include "server/custom/callbacks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gluond::server {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Waiting = CustomCallbacks::Waiting;

class Silence final : public HostChannel {
 public:
  void Send(const v1::HostResponse&) override {}
  void SendCall(uint64_t) override {}
  void Replaced() override {}
};

class CustomCallbacksTest : public testing::Test {
 protected:
  // A question, or a call of a run. Returns its number.
  uint64_t Add(CustomProviders::Provider& provider, const std::shared_ptr<ClientTime>& run = nullptr) {
    const auto waiting = std::make_shared<Waiting>();
    if (run != nullptr) waiting->call.emplace().time = run;
    EXPECT_TRUE(callbacks_.Add(provider, waiting).ok());
    return waiting->number;
  }
  // The seconds of an answer tell it from others.
  bool IsAnswered(CustomProviders::Provider& by, uint64_t number, double seconds = 1) {
    return callbacks_.Accept(by.channel.get(), Answer(number, seconds)) != nullptr;
  }
  static CustomCallbacks::Answer Answer(uint64_t number, double seconds) {
    CustomCallbacks::Answer answer;
    answer.result.set_call(number);
    answer.result.set_seconds(seconds);
    return answer;
  }
  static std::vector<uint64_t> Numbers(const std::vector<CustomCallbacks::WaitingPtr>& callbacks) {
    std::vector<uint64_t> numbers;
    for (const auto& callback : callbacks) numbers.push_back(callback->number);
    return numbers;
  }

  CustomProviders::Provider alice_{std::make_shared<Silence>(), {}, {std::chrono::seconds(10), 3}, nullptr};
  CustomProviders::Provider eve_{std::make_shared<Silence>(), {}, {std::chrono::seconds(10), 3}, nullptr};
  CustomCallbacks callbacks_;
};

TEST_F(CustomCallbacksTest, AnAnswerEndsTheWaitOnce) {
  const uint64_t number = Add(alice_);
  EXPECT_NE(callbacks_.Send(number), nullptr);
  EXPECT_EQ(callbacks_.Sent(number), nullptr);
  const auto answered = callbacks_.Accept(alice_.channel.get(), Answer(number, 7));
  ASSERT_NE(answered, nullptr);
  EXPECT_EQ(answered->answer->result.seconds(), 7);
  EXPECT_FALSE(IsAnswered(alice_, number));
  EXPECT_EQ(callbacks_.Send(number), nullptr) << "nobody waits any more";
  EXPECT_EQ(alice_.calls, 0);
}

TEST_F(CustomCallbacksTest, AnEarlyAnswerIsKeptUntilTheMessageIsLetGo) {
  const uint64_t number = Add(alice_);
  callbacks_.Send(number);
  EXPECT_FALSE(IsAnswered(alice_, number, 7)) << "gRPC still reads the run's memory";
  EXPECT_FALSE(IsAnswered(alice_, number, 8));
  const auto answered = callbacks_.Sent(number);
  ASSERT_NE(answered, nullptr);
  EXPECT_EQ(answered->answer->result.seconds(), 7) << "the first one counts";
  EXPECT_EQ(callbacks_.size(), 0);
}

TEST_F(CustomCallbacksTest, AnswersOfOthersAndToGuessedNumbersAreDropped) {
  const uint64_t number = Add(alice_);
  EXPECT_FALSE(IsAnswered(alice_, number)) << "nothing was sent";
  callbacks_.Send(number);
  EXPECT_FALSE(IsAnswered(eve_, number));
  EXPECT_EQ(callbacks_.Sent(number), nullptr) << "no answer was kept";
  EXPECT_FALSE(IsAnswered(eve_, number));
  EXPECT_FALSE(IsAnswered(alice_, number + 1));
  EXPECT_TRUE(IsAnswered(alice_, number));
}

TEST_F(CustomCallbacksTest, ARunGivesUpItsCallOnce) {
  const auto run = std::make_shared<ClientTime>(), other = std::make_shared<ClientTime>();
  const uint64_t number = Add(alice_, run);
  Add(alice_, other);
  EXPECT_EQ(callbacks_.TakeOf(run.get())->number, number);
  EXPECT_EQ(callbacks_.TakeOf(run.get()), nullptr);
  EXPECT_EQ(callbacks_.Take(number), nullptr);
  EXPECT_EQ(alice_.calls, 1);
}

TEST_F(CustomCallbacksTest, AClientThatLeavesTakesItsOwn) {
  const uint64_t first = Add(alice_), others = Add(eve_), second = Add(alice_, std::make_shared<ClientTime>());
  EXPECT_THAT(Numbers(callbacks_.TakeAllOf(alice_)), ElementsAre(first, second));
  EXPECT_EQ(alice_.calls, 0);
  EXPECT_NE(callbacks_.Take(others), nullptr);
}

TEST_F(CustomCallbacksTest, LateOnesAreTakenAndTooManyRefused) {
  const uint64_t first = Add(alice_), second = Add(alice_), third = Add(alice_);
  const absl::Status status = callbacks_.Add(alice_, std::make_shared<Waiting>());
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(callbacks_.TakeLate(CustomCallbacks::Clock::now()), IsEmpty());
  EXPECT_THAT(Numbers(callbacks_.TakeLate(CustomCallbacks::Clock::now() + std::chrono::seconds(10))),
              ElementsAre(first, second, third));
  EXPECT_EQ(callbacks_.longest_wait(), CustomCallbacks::Clock::duration::zero());
}

}  // namespace
}  // namespace gluond::server
