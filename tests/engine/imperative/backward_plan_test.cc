// Plans of backward passes: found again for a tape of the same form, and for no other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/engine/imperative/imperative_bench.h"

namespace gluond {
namespace {

using testing::ElementsAre;
using testing::FloatNear;

class BackwardPlanTest : public testing::Test {
 protected:
  // A call of an operator that is prepared once, as a session's are.
  Array Call(const std::string& op, std::vector<Array> inputs, const AttrDict& attrs = {}) {
    PreparedOpPtr& prepared = ops_[{op, attrs}];
    if (prepared == nullptr) prepared = *PrepareOp(op, attrs, inputs.size());
    return bench_.OnLane([&] { return bench_.imperative().Invoke(prepared, std::move(inputs), bench_.options).outputs[0]; });
  }
  Array Times(const Array& a, const Array& b) { return Call("elemwise_mul", {a, b}); }
  Array Marked(float value, uint64_t gradient) { return bench_.Marked(bench_.Of({value}), gradient); }
  std::vector<float> Gradient(const Array& y, uint64_t of, std::vector<Array> head = {}) {
    return bench_.Values(bench_.Backward({y}, std::move(head)).at(of));
  }
  int64_t planned() {
    return bench_.OnLane([&] { return bench_.imperative().planned(); });
  }

  ImperativeBench bench_;
  std::map<std::pair<std::string, AttrDict>, PreparedOpPtr> ops_;
};

TEST_F(BackwardPlanTest, IsFoundAgainForTheNextStep) {
  const Array w = Marked(3, 1);
  int64_t first = 0;
  for (int step = 1; step < 5; ++step) {
    const Array x = bench_.Of({static_cast<float>(step)});
    EXPECT_THAT(Gradient(Times(Times(w, x), w), 1), ElementsAre(static_cast<float>(6 * step)));
    if (step == 1) first = planned();
    EXPECT_GT(first, 0);
    EXPECT_EQ(planned(), first) << "one plan";
  }
  bench_.OnLane([&] { bench_.imperative().ForgetPlans(); });
  EXPECT_EQ(planned(), 0);
  EXPECT_THAT(Gradient(Times(w, w), 1), ElementsAre(6));
}

// The same calls in each case: the wiring, the marks, the heads and the variables tell the tapes apart.
TEST_F(BackwardPlanTest, IsOfOneFormOnly) {
  for (int round = 0; round < 2; ++round) {
    const Array a = Marked(2, 1), b = Marked(5, 2), c = bench_.Of({7});
    EXPECT_THAT(Gradient(Times(Times(a, b), c), 1), ElementsAre(35));
    EXPECT_THAT(Gradient(Times(Times(a, b), c), 2), ElementsAre(14));
    EXPECT_THAT(Gradient(Times(Times(a, a), c), 1), ElementsAre(28));
    EXPECT_THAT(Gradient(Times(Times(a, c), c), 1), ElementsAre(49));
    EXPECT_THAT(Gradient(Times(Times(c, a), a), 1), ElementsAre(28));
    EXPECT_THAT(Gradient(Times(a, Times(b, c)), 2), ElementsAre(14));
    EXPECT_THAT(Gradient(Times(Times(a, b), c), 1, {bench_.Of({10})}), ElementsAre(350));
    const std::vector<Array> one = bench_.Grad({Times(a, b)}, {b}), other = bench_.Grad({Times(a, b)}, {a}),
                             both = bench_.Grad({Times(a, b)}, {b, a});
    EXPECT_THAT(bench_.Values(one[0]), ElementsAre(2));
    EXPECT_THAT(bench_.Values(other[0]), ElementsAre(5));
    EXPECT_THAT(bench_.Values(both[1]), ElementsAre(5));
    const Array square = Times(a, a);
    const auto two = bench_.Backward({square, Times(square, b)});
    EXPECT_THAT(bench_.Values(two.at(1)), ElementsAre(4 + 20));
  }
}

// Calls of one operator share its facts.
TEST_F(BackwardPlanTest, TellsCallsByTheirAttributes) {
  const Array a = Marked(2, 1);
  const auto times = [&](const char* scalar) { return Call("_mul_scalar", {a}, {{"scalar", scalar}}); };
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(Gradient(times("3"), 1), ElementsAre(3));
    EXPECT_THAT(Gradient(times("5"), 1), ElementsAre(5));
  }
}

TEST_F(BackwardPlanTest, HasTheModesOfItsCalls) {
  const AttrDict attrs = {{"fix_gamma", "0"}, {"eps", "0"}};
  const auto gradient = [&](bool training, bool backward_training) {
    bench_.options.training = training;
    bench_.backward_options.training = backward_training;
    const Array x = bench_.Marked(bench_.Of({1, 3}, {2, 1}));
    const Array y = Call("BatchNorm", {x, bench_.Of({1}), bench_.Of({0}), bench_.Of({0}), bench_.Of({1})}, attrs);
    return Gradient(y, 1, {bench_.Of({1, 0}, {2, 1})});
  };
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(gradient(false, true), ElementsAre(1, 0)) << "by the running statistics";
    EXPECT_THAT(gradient(true, true), ElementsAre(FloatNear(0, 1e-4f), FloatNear(0, 1e-4f)));
    EXPECT_THAT(gradient(false, false), ElementsAre(1, 0));
  }
}

TEST_F(BackwardPlanTest, CanBeDifferentiatedAgain) {
  const Array x = Marked(2, 1);
  for (int round = 0; round < 3; ++round) {
    bench_.backward_options.create_graph = true;
    const Array first = bench_.Grad({Times(Times(x, x), x)}, {x})[0];
    EXPECT_THAT(bench_.Values(first), ElementsAre(12));
    bench_.backward_options.create_graph = false;
    EXPECT_THAT(bench_.Values(bench_.Grad({first}, {x})[0]), ElementsAre(12));
  }
}

// A tape of a form that never comes again pushes out the oldest plan; a very long one is not kept.
TEST_F(BackwardPlanTest, FewAreKept) {
  const Array w = Marked(1, 1);
  const auto power = [&](int n) {
    Array y = w;
    for (int i = 0; i < n; ++i) y = Times(y, w);
    return y;
  };
  int64_t most = 0;
  for (int n = 1; n < 30; ++n) {
    EXPECT_THAT(Gradient(power(n), 1), ElementsAre(static_cast<float>(n + 1)));
    most = std::max(most, planned());
  }
  EXPECT_LT(most, 8 * 5 * 30);
  const int64_t before = planned();
  EXPECT_THAT(Gradient(power(5000), 1), ElementsAre(5001));
  EXPECT_EQ(planned(), before);
}

}  // namespace
}  // namespace gluond
