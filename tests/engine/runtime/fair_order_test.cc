// Accounts take turns by the time that they have used; queues keep their order.

#include "engine/runtime/fair_order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace gluond {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

struct Named final : Work {
  explicit Named(std::string name) : name(std::move(name)) {}
  void Do() override {}
  const std::string name;
};

class FairOrderTest : public testing::Test {
 protected:
  // The name of the next piece, which takes `time`.
  std::string Next(milliseconds time = milliseconds(1)) {
    const auto piece = order_.Take(now_);
    if (!piece.has_value()) return "nothing";
    now_ += time;
    order_.Done(*piece, now_);
    return static_cast<Named*>(piece->work)->name;
  }

  const AccountPtr a_ = std::make_shared<const Account>("a"), b_ = std::make_shared<const Account>("b");
  FairOrder order_{std::chrono::milliseconds(20)};
  FairOrder::Clock::time_point now_;
};

TEST_F(FairOrderTest, AQueueKeepsItsOrder) {
  WorkQueue queue;
  Named first("first"), second("second"), third("third");
  order_.Add(queue, &first, a_, now_);
  order_.Add(queue, &second, b_, now_);
  order_.Add(queue, &third, a_, now_);
  EXPECT_THAT((std::vector<std::string>{Next(), Next(), Next(), Next()}), ElementsAre("first", "second", "third", "nothing"));
  EXPECT_TRUE(order_.empty());
}

TEST_F(FairOrderTest, SaysHowLongWorksHaveWaited) {
  WorkQueue queue;
  Named first("first"), second("second"), removed("removed");
  order_.Add(queue, &first, a_, now_);
  order_.Add(queue, &second, a_, now_);
  order_.Add(queue, &removed, a_, now_);
  order_.Remove(queue, &removed);
  EXPECT_EQ(order_.load().waiting, 2);
  now_ += milliseconds(2);
  Next(milliseconds(5));
  Next();
  EXPECT_EQ(order_.load().waiting, 0);
  EXPECT_EQ(order_.load().taken, 2);
  EXPECT_EQ(order_.load().longest, milliseconds(7));
  EXPECT_EQ(order_.load().waited, milliseconds(9));
  EXPECT_EQ(order_.load().worked, milliseconds(6));
}

TEST_F(FairOrderTest, WhoHasUsedLeastComesFirst) {
  WorkQueue of_a, of_b;
  Named a1("a1"), a2("a2"), a3("a3"), b1("b1"), b2("b2");
  order_.Add(of_a, &a1, a_, now_);
  EXPECT_EQ(Next(milliseconds(50)), "a1");
  order_.Add(of_a, &a2, a_, now_);
  order_.Add(of_a, &a3, a_, now_);
  order_.Add(of_b, &b1, b_, now_);
  order_.Add(of_b, &b2, b_, now_);
  EXPECT_EQ(Next(milliseconds(20)), "b1") << "it came last, and has used nothing";
  EXPECT_EQ(Next(milliseconds(100)), "b2");
  EXPECT_EQ(Next(), "a2") << "nobody else waits";
}

TEST_F(FairOrderTest, EqualsComeInTheOrderOfArrival) {
  WorkQueue queues[3];
  Named x("x"), y("y"), z("z");
  order_.Add(queues[0], &x, a_, now_);
  order_.Add(queues[1], &y, b_, now_);
  order_.Add(queues[2], &z, nullptr, now_);
  EXPECT_THAT((std::vector<std::string>{Next(), Next(), Next()}), ElementsAre("x", "y", "z"));
}

TEST_F(FairOrderTest, WhoComesAnewHasNoCredit) {
  WorkQueue of_a, of_new[4];
  for (int i = 0; i < 300; ++i) {
    Named work("short");
    order_.Add(of_a, &work, a_, now_);
    EXPECT_EQ(Next(), "short");
  }
  std::vector<std::unique_ptr<Named>> longs;
  for (WorkQueue& queue : of_new) {
    const auto account = std::make_shared<const Account>("new");
    order_.Add(queue, longs.emplace_back(std::make_unique<Named>("long")).get(), account, now_);
  }
  Named next("next"), last("last");
  order_.Add(of_a, &next, a_, now_);
  order_.Add(of_a, &last, a_, now_);
  EXPECT_EQ(Next(), "next") << "it has used much more than the others, but not while they were here";
  EXPECT_EQ(Next(), "last") << "its works are short: the others wait less for them than it would for theirs";
  EXPECT_EQ(Next(milliseconds(50)), "long");
}

TEST_F(FairOrderTest, ShortWorksDoNotKeepALongOneWaiting) {
  WorkQueue of_a, of_b;
  Named a1("a"), b1("b");
  order_.Add(of_a, &a1, a_, now_);
  order_.Add(of_b, &b1, b_, now_);
  EXPECT_EQ(Next(milliseconds(50)), "a");
  EXPECT_EQ(Next(milliseconds(50)), "b");
  std::vector<std::unique_ptr<Named>> shorts;
  for (int i = 0; i < 400; ++i) {
    order_.Add(of_a, shorts.emplace_back(std::make_unique<Named>("short")).get(), a_, now_);
  }
  order_.Add(of_b, &b1, b_, now_);
  int before = 0;
  while (Next() == "short") ++before;
  EXPECT_LT(before, 100);
}

TEST_F(FairOrderTest, TimeUsedFades) {
  WorkQueue of_a, of_b;
  Named a1("a1"), a2("a2"), b1("b1"), b2("b2");
  order_.Add(of_a, &a1, a_, now_);
  EXPECT_EQ(Next(milliseconds(5000)), "a1");
  now_ += std::chrono::seconds(10);
  order_.Add(of_b, &b1, b_, now_);
  EXPECT_EQ(Next(milliseconds(100)), "b1");
  order_.Add(of_b, &b2, b_, now_);
  order_.Add(of_a, &a2, a_, now_);
  EXPECT_EQ(Next(), "a2") << "its five seconds were long ago";
}

TEST_F(FairOrderTest, AnAccountDoesOneThingAtATime) {
  WorkQueue one, other, of_b;
  Named a1("a1"), a2("a2"), b1("b1");
  order_.Add(one, &a1, a_, now_);
  order_.Add(other, &a2, a_, now_);
  const auto running = order_.Take(now_);
  ASSERT_TRUE(running.has_value());
  EXPECT_FALSE(order_.ready());
  EXPECT_EQ(Next(), "nothing") << "another queue, but the same account";
  order_.Add(of_b, &b1, b_, now_);
  EXPECT_EQ(Next(), "b1");
  order_.Done(*running, now_);
  EXPECT_EQ(Next(), "a2");
}

TEST_F(FairOrderTest, ForgottenWorkIsNotDone) {
  WorkQueue queue;
  Named first("first"), second("second"), third("third");
  for (Named* work : {&first, &second, &third}) order_.Add(queue, work, work == &first ? a_ : b_, now_);
  EXPECT_TRUE(order_.Remove(queue, &first));
  EXPECT_FALSE(order_.Remove(queue, &first));
  EXPECT_TRUE(order_.Remove(queue, &third));
  EXPECT_EQ(Next(), "second");
  EXPECT_EQ(Next(), "nothing");
  EXPECT_TRUE(order_.empty());
}

TEST_F(FairOrderTest, AccountsThatAreGoneAreForgotten) {
  std::vector<std::weak_ptr<const Account>> accounts;
  for (int i = 0; i < 200; ++i) {
    WorkQueue queue;
    Named work("work");
    const auto account = std::make_shared<const Account>("one of many");
    accounts.push_back(account);
    order_.Add(queue, &work, account, now_);
    EXPECT_EQ(Next(), "work");
    now_ += std::chrono::seconds(1);
  }
  EXPECT_TRUE(accounts.front().expired());
  EXPECT_FALSE(accounts.back().expired()) << "what it has used is remembered for a while";
}

class GroupsTest : public FairOrderTest {
 protected:
  // Gives an account of the group a queue with `count` works.
  void Add(const char* name, const AccountGroupPtr& group, int count) {
    const auto account = std::make_shared<const Account>(name, group);
    WorkQueue& queue = *queues_.emplace_back(std::make_unique<WorkQueue>());
    for (int i = 0; i < count; ++i) {
      order_.Add(queue, works_.emplace_back(std::make_unique<Named>(name)).get(), account, now_);
    }
  }
  // How many of the next `pieces`, which take 10 ms each, are called `name`.
  int Count(const std::string& name, int pieces) {
    int count = 0;
    for (int i = 0; i < pieces; ++i) count += Next(milliseconds(10)) == name;
    return count;
  }

  const std::shared_ptr<AccountGroup> acme_ = std::make_shared<AccountGroup>("acme"),
                                      globex_ = std::make_shared<AccountGroup>("globex");
  std::vector<std::unique_ptr<WorkQueue>> queues_;
  std::vector<std::unique_ptr<Named>> works_;
};

TEST_F(GroupsTest, ManyAccountsOfAGroupAreAsOne) {
  for (int i = 0; i < 8; ++i) Add("flood", acme_, 10);
  Add("one", globex_, 10);
  EXPECT_EQ(Count("one", 10), 5);
  Add("of no group", nullptr, 10);
  EXPECT_NEAR(Count("of no group", 9), 3, 1);
}

TEST_F(GroupsTest, WithinAGroupAccountsTakeTurns) {
  Add("busy", acme_, 20);
  EXPECT_EQ(Count("busy", 5), 5);
  Add("new", acme_, 5);
  Add("another's", globex_, 20);
  EXPECT_NEAR(Count("new", 12), 3, 1) << "half of the half";
}

TEST_F(GroupsTest, AShareIsOfTheTime) {
  acme_->Set(/*share=*/3, AccountGroup::kNoLimit);
  Add("acme", acme_, 60);
  Add("globex", globex_, 60);
  EXPECT_NEAR(Count("acme", 40), 30, 2);
}

TEST_F(GroupsTest, AGroupHoldsNoMoreThreadsThanAnotherThatHasWork) {
  for (int i = 0; i < 3; ++i) Add("flood", acme_, 1);
  const auto first = order_.Take(now_), second = order_.Take(now_);
  ASSERT_TRUE(first.has_value() && second.has_value()) << "nobody else wants the threads";
  Add("one", globex_, 2);
  const auto others = order_.Take(now_);
  ASSERT_TRUE(others.has_value());
  EXPECT_EQ(static_cast<Named*>(others->work)->name, "one");
  EXPECT_FALSE(order_.ready());
  EXPECT_FALSE(order_.Take(now_).has_value()) << "one has one thread, and flood has two";
  order_.Done(*first, now_);
  EXPECT_FALSE(order_.ready());
  order_.Done(*second, now_);
  EXPECT_EQ(Next(), "flood");
  order_.Done(*others, now_);
  EXPECT_EQ(Next(), "one");
}

TEST_F(GroupsTest, AGroupThatComesAnewHasNoCredit) {
  Add("acme", acme_, 100);
  EXPECT_EQ(Count("acme", 50), 50);
  Add("globex", globex_, 50);
  EXPECT_LE(Count("globex", 20), 11);
}

}  // namespace
}  // namespace gluond
