// The limits' flags: each has a range, and an error that names it.

#include "server/start/limits.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gluond::server {
namespace {

TEST(Limits, TheDefaultsAreGood) { EXPECT_TRUE(CheckLimits(Limits()).ok()); }

TEST(Limits, OneOutOfItsRangeIsRefusedWithItsName) {
  for (const LimitFlag& flag : LimitFlags()) {
    for (const int64_t limit : {flag.least - 1, flag.most}) {
      Limits limits;
      limits.*flag.limit = limit;
      EXPECT_EQ(CheckLimits(limits).ok(), limit == flag.most) << flag.name;
    }
    Limits limits;
    limits.*flag.limit = -1;
    const absl::Status status = CheckLimits(limits);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << flag.name;
    EXPECT_TRUE(absl::StartsWith(status.message(), absl::StrCat("--", flag.name, " is -1; want ", flag.least))) << status;
  }
}

TEST(Limits, SecondsFitAClock) {
  Limits limits;
  limits.session_lease_seconds = int64_t{1} << 62;
  EXPECT_EQ(CheckLimits(limits).message(), "--session_lease_seconds is 4611686018427387904; want 1 to 3153600000");
}

}  // namespace
}  // namespace gluond::server
