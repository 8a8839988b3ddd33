// Rates by update, as MXNet's schedulers give them.

#include "engine/train/lr_schedule.h"

#include <cmath>

#include "gtest/gtest.h"

namespace gluond {
namespace {

struct ScheduleCase {
  const char* name;
  Spec schedule;
  std::vector<std::pair<int64_t, double>> rates;
};
class LrScheduleTest : public testing::TestWithParam<ScheduleCase> {};

TEST_P(LrScheduleTest, FollowsMxnet) {
  const auto schedule = LrSchedules().Make(GetParam().schedule.type, GetParam().schedule.attrs, /*base_lr=*/1.0);
  ASSERT_TRUE(schedule.ok()) << schedule.status();
  for (const auto& [update, rate] : GetParam().rates) EXPECT_NEAR((**schedule)(update), rate, 1e-12) << update;
}

INSTANTIATE_TEST_SUITE_P(
    Schedules, LrScheduleTest,
    testing::ValuesIn<ScheduleCase>({
        {"Factor", {"factor", {{"step", "10"}, {"factor", "0.5"}}}, {{1, 1}, {10, 1}, {11, 0.5}, {20, 0.5}, {21, 0.25}}},
        {"FactorStops",
         {"factor", {{"step", "1"}, {"factor", "0.1"}, {"stop_factor_lr", "0.05"}}},
         {{1, 1}, {2, 0.1}, {3, 0.05}, {100, 0.05}, {int64_t{1} << 60, 0.05}}},
        {"FactorRisesToItsEnd", {"FactorScheduler", {{"step", "2"}, {"stop_factor_lr", "3"}}}, {{2, 1}, {3, 3}, {9, 3}}},
        {"FactorAfterManySteps",
         {"factor", {{"step", "1"}, {"factor", "0.9999"}}},
         {{20001, std::pow(0.9999, 20000)}, {100001, std::pow(0.9999, 100000)}}},
        {"MultiFactor", {"multifactor", {{"step", "(5, 8)"}, {"factor", "0.1"}}}, {{5, 1}, {6, 0.1}, {8, 0.1}, {9, 0.01}}},
        {"Poly", {"poly", {{"max_update", "100"}}}, {{0, 1}, {50, 0.25}, {100, 0}, {200, 0}}},
        {"PolyFinal", {"poly", {{"max_update", "100"}, {"pwr", "1"}, {"final_lr", "0.2"}}}, {{50, 0.6}, {100, 0.2}}},
        {"Cosine", {"cosine", {{"max_update", "100"}}}, {{0, 1}, {50, 0.5}, {100, 0}, {101, 0}}},
        {"CosineBase",
         {"cosine", {{"max_update", "4"}, {"base_lr", "2"}, {"final_lr", "1"}}},
         {{1, 1 + (1 + std::sqrt(0.5)) / 2}, {2, 1.5}, {4, 1}}},
        {"WarmUpLinear",
         {"cosine", {{"max_update", "110"}, {"warmup_steps", "10"}, {"warmup_begin_lr", "0.5"}}},
         {{1, 0.55}, {9, 0.95}, {10, 1}, {60, 0.5}}},
        {"WarmUpConstant",
         {"factor", {{"step", "100"}, {"warmup_steps", "3"}, {"warmup_begin_lr", "0.2"}, {"warmup_mode", "constant"}}},
         {{1, 0.2}, {2, 0.2}, {3, 1}}},
    }),
    [](const auto& info) { return info.param.name; });

// A loop in Python multiplies the rate once for each change, and this is what it gets.
TEST(LrSchedulesTest, HaveTheBitsOfRepeatedMultiplication) {
  const auto factor = *LrSchedules().Make("factor", AttrDict{{"step", "1"}, {"factor", "0.7"}}, 0.1);
  const auto multifactor =
      *LrSchedules().Make("multifactor", AttrDict{{"step", "(1, 2, 3, 4, 5, 6, 7, 8, 9)"}, {"factor", "0.7"}}, 0.1);
  double rate = 0.1;
  for (int64_t update = 1; update <= 10; ++update) {
    EXPECT_EQ((*factor)(update), rate);
    EXPECT_EQ((*multifactor)(update), rate);
    rate *= 0.7;
  }
}

TEST(LrSchedulesTest, CheckTheirAttributes) {
  const auto code = [](const char* name, const AttrDict& attrs) { return LrSchedules().Make(name, attrs, 1.0).status().code(); };
  EXPECT_EQ(code("cosin", {}), absl::StatusCode::kNotFound);
  EXPECT_EQ(code("multifactor", {{"step", "(5, 5)"}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("multifactor", {{"step", "()"}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("factor", {{"step", "0"}}), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code("poly", {}), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond
