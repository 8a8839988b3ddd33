#include "server/serving/batch_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gluond::server {
namespace {

using Clock = BatchQueue::Clock;
using std::chrono::microseconds;

class BatchQueueTest : public testing::Test {
 protected:
  InferRequestPtr Request(int64_t rows, const std::string& kind = "", uint64_t priority = 0) {
    auto request = std::make_shared<InferRequest>();
    request->rows = rows;
    request->kind = kind;
    request->priority = priority;
    request->arrived = now_;
    all_.push_back(request);
    return request;
  }
  absl::Status Add(BatchQueue& queue, int64_t rows, const std::string& kind = "", uint64_t priority = 0) {
    return queue.Add(Request(rows, kind, priority));
  }
  // The numbers, from 0 on in the order of Request, of the requests in the next batch.
  std::vector<int> Take(BatchQueue& queue) {
    std::vector<int> numbers;
    for (const InferRequestPtr& request : queue.Take(now_, &again_)) {
      numbers.push_back(static_cast<int>(std::find(all_.begin(), all_.end(), request) - all_.begin()));
    }
    return numbers;
  }

  Clock::time_point now_ = Clock::now();
  Clock::time_point again_;
  std::vector<InferRequestPtr> all_;
};

ServingOptions Batches(int64_t most, int64_t delay = 0) {
  ServingOptions options;
  options.max_batch_size = most;
  options.max_queue_delay = microseconds(delay);
  return options;
}

TEST_F(BatchQueueTest, WithoutBatchesEachRequestIsAlone) {
  BatchQueue queue({}, 100);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Add(queue, 1).ok());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Take(queue), std::vector<int>{i});
  EXPECT_TRUE(Take(queue).empty());
  EXPECT_EQ(again_, Clock::time_point::max());
}

TEST_F(BatchQueueTest, ABatchIsFullWhenTheNextDoesNotFit) {
  BatchQueue queue(Batches(8, 1000), 100);
  for (const int64_t rows : {3, 3, 3, 2}) EXPECT_TRUE(Add(queue, rows).ok());
  EXPECT_EQ(Take(queue), (std::vector<int>{0, 1})) << "the third keeps its place before the fourth, which would fit";
  EXPECT_TRUE(Take(queue).empty()) << "5 of 8 rows wait for more";
  EXPECT_EQ(again_, now_ + microseconds(1000));
  now_ += microseconds(999);
  EXPECT_TRUE(Take(queue).empty());
  now_ += microseconds(1);
  EXPECT_EQ(Take(queue), (std::vector<int>{2, 3}));
  EXPECT_EQ(queue.size(), 0);
}

TEST_F(BatchQueueTest, APreferredSizeWaitsForNoMore) {
  ServingOptions options = Batches(16, 1000);
  options.preferred_batch_sizes = {4, 8};
  BatchQueue queue(options, 100);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Add(queue, 1).ok());
  EXPECT_TRUE(Take(queue).empty());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Add(queue, 1).ok());
  EXPECT_EQ(Take(queue).size(), 4u);
  EXPECT_TRUE(Take(queue).empty()) << "2 rows are left";
}

TEST_F(BatchQueueTest, OneKindJoinsWhateverStandsBetween) {
  BatchQueue queue(Batches(3), 100);
  for (const char* kind : {"a", "b", "a", "b", "a"}) EXPECT_TRUE(Add(queue, 1, kind).ok());
  EXPECT_EQ(Take(queue), (std::vector<int>{0, 2, 4}));
  EXPECT_EQ(Take(queue), (std::vector<int>{1, 3}));
}

TEST_F(BatchQueueTest, AKindThatWaitsKeepsNoOtherWaiting) {
  BatchQueue queue(Batches(2, 1'000'000), 100);
  for (const char* kind : {"odd", "a", "a"}) EXPECT_TRUE(Add(queue, 1, kind).ok());
  EXPECT_EQ(Take(queue), (std::vector<int>{1, 2}));
  EXPECT_TRUE(Take(queue).empty());
  now_ += microseconds(1'000'000);
  EXPECT_EQ(Take(queue), std::vector<int>{0});
}

TEST_F(BatchQueueTest, ReturnedRequestsComeFirstAndAlone) {
  BatchQueue queue(Batches(4, 1'000'000), 100);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Add(queue, 1).ok());
  const std::vector<InferRequestPtr> batch = queue.Take(now_, &again_);
  ASSERT_EQ(batch.size(), 4u);
  queue.Return(batch);
  EXPECT_EQ(queue.size(), 5);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(Take(queue), std::vector<int>{i});
  EXPECT_TRUE(Take(queue).empty());
}

TEST_F(BatchQueueTest, TheHighestPriorityLeads) {
  ServingOptions options = Batches(2);
  options.priority_levels = 3;
  options.default_priority = 2;
  BatchQueue queue(options, 100);
  EXPECT_TRUE(Add(queue, 1, "", 3).ok());
  EXPECT_TRUE(Add(queue, 1).ok());
  EXPECT_TRUE(Add(queue, 1, "", 1).ok());
  EXPECT_EQ(Take(queue), (std::vector<int>{2, 1}));
  EXPECT_EQ(Take(queue), std::vector<int>{0});
}

TEST_F(BatchQueueTest, APriorityThatThereIsNotIsTheDefault) {
  ServingOptions options;
  options.priority_levels = 3;
  options.default_priority = 2;
  BatchQueue queue(options, 100);
  for (const uint64_t priority : {3, 4, 0, 1}) EXPECT_TRUE(Add(queue, 1, "", priority).ok());
  for (const int number : {3, 1, 2, 0}) EXPECT_EQ(Take(queue), std::vector<int>{number});
  BatchQueue none({}, 100);
  for (const uint64_t priority : {7, 0, 1}) EXPECT_TRUE(Add(none, 1, "", priority).ok());
  for (const int number : {4, 5, 6}) EXPECT_EQ(Take(none), std::vector<int>{number});
}

TEST_F(BatchQueueTest, EachPriorityHasAQueueOfItsOwn) {
  ServingOptions options;
  options.max_queue_size = 2;
  options.priority_levels = 2;
  options.default_priority = 2;
  BatchQueue queue(options, 100);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Add(queue, 1).ok());
  EXPECT_TRUE(absl::IsUnavailable(Add(queue, 1)));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Add(queue, 1, "", 1).ok()) << "lower ones do not stand in the way";
  const absl::Status full = Add(queue, 1, "", 1);
  EXPECT_TRUE(absl::IsUnavailable(full));
  EXPECT_NE(full.message().find("2 requests of this priority wait"), std::string::npos) << full;
  EXPECT_FALSE(queue.has_dead());
  for (const int number : {3, 4, 0, 1}) EXPECT_EQ(Take(queue), std::vector<int>{number});
}

TEST_F(BatchQueueTest, AQueueThatHurriesWaitsForNoMore) {
  BatchQueue queue(Batches(8, 1'000'000), 100);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(Add(queue, 1).ok());
  EXPECT_TRUE(Take(queue).empty());
  queue.set_hurries(true);
  EXPECT_EQ(Take(queue), (std::vector<int>{0, 1}));
  queue.set_hurries(false);
  EXPECT_TRUE(Add(queue, 1).ok());
  EXPECT_TRUE(Take(queue).empty());
}

TEST_F(BatchQueueTest, LimitsAreTold) {
  ServingOptions options = Batches(4);
  options.max_queue_size = 2;
  BatchQueue queue(options, 100);
  EXPECT_TRUE(absl::IsInvalidArgument(Add(queue, 5)));
  EXPECT_TRUE(Add(queue, 1).ok());
  EXPECT_TRUE(Add(queue, 1).ok());
  const absl::Status full = Add(queue, 1);
  EXPECT_TRUE(absl::IsUnavailable(full));
  EXPECT_NE(full.message().find("max_queue_size"), std::string::npos) << full;
  BatchQueue open(Batches(4), 1);
  EXPECT_TRUE(Add(open, 1).ok());
  EXPECT_NE(Add(open, 1).message().find("--max_requests"), std::string::npos);
}

TEST_F(BatchQueueTest, TheDeadAreTakenOut) {
  ServingOptions options = Batches(4, 1'000'000);
  options.default_timeout = microseconds(5000);
  options.allow_timeout_override = true;
  BatchQueue queue(options, 100);
  const InferRequestPtr hasty = Request(1), patient = Request(1), cancelled = Request(1);
  hasty->timeout = microseconds(500);
  patient->timeout = microseconds(2000);
  cancelled->cancellation = std::make_shared<Cancellation>();
  for (const InferRequestPtr& request : {hasty, patient, cancelled}) EXPECT_TRUE(queue.Add(request).ok());
  EXPECT_TRUE(queue.TakeDead(now_).empty());
  EXPECT_EQ(queue.next_death(), now_ + microseconds(500));
  now_ += microseconds(500);
  cancelled->cancellation->Cancel();
  const auto dead = queue.TakeDead(now_);
  ASSERT_EQ(dead.size(), 2u);
  EXPECT_TRUE(absl::IsUnavailable(dead[0].second)) << dead[0].second;
  EXPECT_NE(dead[0].second.message().find("500 us"), std::string::npos) << dead[0].second;
  EXPECT_TRUE(absl::IsCancelled(dead[1].second));
  EXPECT_EQ(queue.size(), 1);
  EXPECT_EQ(queue.next_death(), patient->arrived + microseconds(2000));
}

TEST_F(BatchQueueTest, ARequestsTimeoutIsHeardWhereItMayAndOnlyShortensTheDefault) {
  const auto death = [this](int64_t its, int64_t of_version, bool allowed) {
    ServingOptions options;
    options.default_timeout = microseconds(of_version);
    options.allow_timeout_override = allowed;
    BatchQueue queue(options, 100);
    const InferRequestPtr request = Request(1);
    request->timeout = microseconds(its);
    EXPECT_TRUE(queue.Add(request).ok());
    const Clock::time_point next = queue.next_death();
    return next == Clock::time_point::max() ? -1 : std::chrono::duration_cast<microseconds>(next - now_).count();
  };
  EXPECT_EQ(death(500, 1000, true), 500);
  EXPECT_EQ(death(2000, 1000, true), 1000);
  EXPECT_EQ(death(2000, 0, true), 2000);
  EXPECT_EQ(death(500, 1000, false), 1000);
  EXPECT_EQ(death(500, 0, false), -1);
}

TEST_F(BatchQueueTest, ABatchIsCancelledWhenNobodyWaitsForIt) {
  const std::vector<InferRequestPtr> batch = {Request(1), Request(1), Request(1)};
  EXPECT_EQ(CancelledTogether(batch), nullptr) << "they cannot be cancelled";
  const auto deadline = now_ + std::chrono::hours(1);
  const auto mine = std::make_shared<Cancellation>(deadline), others = std::make_shared<Cancellation>(now_);
  batch[0]->cancellation = batch[2]->cancellation = mine;
  EXPECT_EQ(CancelledTogether(batch), nullptr);
  batch[1]->cancellation = others;
  const std::shared_ptr<Cancellation> together = CancelledTogether(batch);
  ASSERT_NE(together, nullptr);
  EXPECT_EQ(together->deadline(), deadline) << "the last one's";
  others->Cancel();
  EXPECT_TRUE(together->Check().ok());
  EXPECT_TRUE(IsWanted(batch));
  mine->Cancel();
  EXPECT_TRUE(absl::IsCancelled(together->Check()));
  EXPECT_FALSE(IsWanted(batch));
  for (const InferRequestPtr& request : batch) request->Unlisten();
  EXPECT_TRUE(absl::IsCancelled(CancelledTogether(batch)->Check())) << "they were cancelled before";
}

class FairBatchQueueTest : public BatchQueueTest {
 protected:
  absl::Status AddOf(BatchQueue& queue, const AccountPtr& caller, int64_t rows = 1, uint64_t priority = 0) {
    const InferRequestPtr request = Request(rows, "", priority);
    request->account = caller;
    return queue.Add(request);
  }

  const AccountPtr many_ = std::make_shared<Account>("many"), few_ = std::make_shared<Account>("few");
};

TEST_F(FairBatchQueueTest, CallersTakeTurnsWithinAPriority) {
  BatchQueue queue({}, 100);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(AddOf(queue, many_).ok());
  EXPECT_EQ(Take(queue), std::vector<int>{0});
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(AddOf(queue, few_).ok());
  std::vector<int> order;
  for (int i = 0; i < 5; ++i) order.push_back(Take(queue).at(0));
  EXPECT_EQ(order, (std::vector<int>{4, 1, 5, 2, 3}));
}

TEST_F(FairBatchQueueTest, AnIdentityIsOneCallerOnHoweverManyConnections) {
  BatchQueue queue({}, 100);
  const auto add = [&](const std::string& caller, const AccountPtr& connection) {
    const InferRequestPtr request = Request(1);
    request->caller = caller;
    request->account = connection;
    EXPECT_TRUE(queue.Add(request).ok());
  };
  for (int i = 0; i < 4; ++i) add("alice", std::make_shared<Account>("one of many"));
  for (int i = 0; i < 2; ++i) add("bob", many_);
  add("carol", many_);
  std::vector<int> order;
  for (int i = 0; i < 7; ++i) order.push_back(Take(queue).at(0));
  EXPECT_EQ(order, (std::vector<int>{0, 4, 6, 1, 5, 2, 3}));
}

TEST_F(FairBatchQueueTest, TurnsCountRows) {
  BatchQueue queue(Batches(4), 100);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(AddOf(queue, many_, 4).ok());
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(AddOf(queue, few_, 1).ok());
  EXPECT_EQ(Take(queue), std::vector<int>{0});
  EXPECT_EQ(Take(queue), (std::vector<int>{3, 4, 5, 6})) << "four rows of one caller, then four of the other";
}

TEST_F(FairBatchQueueTest, ACallerThatWasAwayGetsNoCreditForIt) {
  BatchQueue queue({}, 100);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(AddOf(queue, many_).ok());
  for (int i = 0; i < 40; ++i) EXPECT_EQ(Take(queue), std::vector<int>{i});
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(AddOf(queue, few_).ok());
  int of_few = 0;
  for (int i = 0; i < 10; ++i) of_few += Take(queue).at(0) >= 50;
  EXPECT_EQ(of_few, 5) << "from here on they take turns";
}

TEST_F(FairBatchQueueTest, InAFullQueueTheLastOfTheCallerWithTheMostGivesWay) {
  ServingOptions options;
  options.priority_levels = 2;
  options.default_priority = 2;
  BatchQueue queue(options, 4);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(AddOf(queue, many_).ok());
  EXPECT_TRUE(AddOf(queue, many_, 1, /*priority=*/1).ok());
  EXPECT_TRUE(absl::IsUnavailable(AddOf(queue, many_)));
  EXPECT_FALSE(queue.has_dead());
  EXPECT_TRUE(AddOf(queue, few_).ok());
  EXPECT_TRUE(queue.has_dead());
  BatchQueue::Dead dead = queue.TakeDead(now_);
  ASSERT_EQ(dead.size(), 1u);
  EXPECT_EQ(dead[0].first, all_[3]) << "the last one of the same priority";
  EXPECT_TRUE(absl::IsUnavailable(dead[0].second));
  EXPECT_NE(dead[0].second.message().find("4 of the 4 requests"), std::string::npos) << dead[0].second;
  EXPECT_FALSE(queue.has_dead());
  EXPECT_EQ(queue.size(), 5);
  EXPECT_TRUE(AddOf(queue, few_).ok());
  EXPECT_TRUE(absl::IsUnavailable(AddOf(queue, few_))) << "both have two by now";
  BatchQueue odd(options, 3);
  for (const AccountPtr& caller : {many_, many_, few_}) EXPECT_TRUE(AddOf(odd, caller).ok());
  EXPECT_TRUE(absl::IsUnavailable(AddOf(odd, few_))) << "nothing is won when two against one turn into one against two";
  EXPECT_EQ(Take(queue), std::vector<int>{4}) << "the higher priority's";
}

TEST_F(BatchQueueTest, LateRequestsGoOnBehindTheOthersOfTheirPriority) {
  ServingOptions options;
  options.default_timeout = microseconds(500);
  options.delay_late_requests = true;
  options.priority_levels = 2;
  options.default_priority = 1;
  BatchQueue queue(options, 100);
  for (const uint64_t priority : {1, 1, 2}) EXPECT_TRUE(Add(queue, 1, "", priority).ok());
  now_ += microseconds(400);
  EXPECT_TRUE(Add(queue, 1).ok());
  now_ += microseconds(100);
  EXPECT_TRUE(queue.TakeDead(now_).empty()) << "three are late, and none is dead";
  EXPECT_EQ(queue.next_death(), now_ + microseconds(400));
  EXPECT_TRUE(Add(queue, 1).ok());
  std::vector<int> order;
  for (int i = 0; i < 5; ++i) order.push_back(Take(queue).at(0));
  EXPECT_EQ(order, (std::vector<int>{3, 4, 0, 1, 2}));
}

}  // namespace
}  // namespace gluond::server
