// --checkpoint_every, as people write it.

#include "server/start/checkpoint_schedule.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace gluond::server {
namespace {

TEST(CheckpointSchedule, StepsOrATimeOrBoth) {
  EXPECT_FALSE(ParseCheckpointSchedule("")->any());
  EXPECT_EQ(ParseCheckpointSchedule("500steps")->steps, 500);
  EXPECT_EQ(ParseCheckpointSchedule("1step")->steps, 1);
  EXPECT_EQ(ParseCheckpointSchedule("90s")->period, std::chrono::seconds(90));
  EXPECT_EQ(ParseCheckpointSchedule("2h")->period, std::chrono::hours(2));
  const CheckpointSchedule both = *ParseCheckpointSchedule("500steps, 10m");
  EXPECT_EQ(both.steps, 500);
  EXPECT_EQ(both.period, std::chrono::minutes(10));
}

TEST(CheckpointSchedule, AnythingElseIsRefusedWithItsName) {
  for (const char* wrong :
       {"500", "steps", "0steps", "-1m", "10m,20m", "5steps,6steps", "10 m", "1.5h", "10m,", ",", "10d", "99999999999999999999s"}) {
    const absl::Status status = ParseCheckpointSchedule(wrong).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << wrong;
    EXPECT_TRUE(absl::StrContains(status.message(), "500steps,10m")) << status;
  }
}

}  // namespace
}  // namespace gluond::server
