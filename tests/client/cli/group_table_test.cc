#include "client/cli/group_table.h"

#include "client/cpp/type_messages.h"
#include "google/protobuf/util/json_util.h"
#include "gtest/gtest.h"

namespace gluond::cli {
namespace {

v1::GetGroupResponse Three() {
  v1::GetGroupResponse group;
  const auto status = google::protobuf::util::JsonStringToMessage(
      R"({"generation": 4, "min": 2, "max": 4, "applied": 90, "steps": 80, "steps_per_second": 12.5, "rows_per_second": 800,
      "pause": "0.2505s", "members": [
        {"member": 0, "name": "box-0", "place": "RANK", "applied": 90, "silent": "0s", "waited": "0.012345s"},
        {"member": 2, "name": "box-1", "place": "RANK", "applied": 89, "silent": "1.5049s", "waited": "0.0004s", "is_leaving": true},
        {"member": 5, "name": "late", "place": "PREPARING", "applied": 0, "silent": "0.02s"}]})",
      &group);
  EXPECT_TRUE(status.ok()) << status.ToString();
  return group;
}

std::string TableOf(const v1::GetGroupResponse& group) { return GroupTable(client::FromProto(group)); }

bool MarksNone(const v1::GetGroupResponse& group) { return TableOf(group).find("slowest") == std::string::npos; }

TEST(GroupTableTest, ShowsTheGroupAndEachProcess) {
  EXPECT_EQ(TableOf(Three()),
            "generation 4: 3 processes are there, steps run with 2 to 4\n"
            "80 steps, 12.5 steps/s, 800.0 rows/s; the last change is 90\n"
            "pause before this generation: 250ms\n"
            "\n"
            "member  name   place         lag  silent  waited\n"
            "0       box-0  RANK          0    0       12.34ms\n"
            "2       box-1  RANK, leaves  1    1.5s    400us, slowest\n"
            "5       late   PREPARING     90   20ms    -\n");
}

TEST(GroupTableTest, TellsWhyNoStepRuns) {
  v1::GetGroupResponse group = Three();
  group.set_generation(0);
  group.set_why_not("1 of 2 processes are there");
  const std::string text = TableOf(group);
  EXPECT_EQ(text.find("no generation has begun: 3 processes are there"), 0) << text;
  EXPECT_NE(text.find("\nno step runs: 1 of 2 processes are there\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("pause"), std::string::npos) << text;
}

TEST(GroupTableTest, TheSlowestIsARankThatWaitsLessThanEachOther) {
  v1::GetGroupResponse group = Three();
  v1::GroupMember& second = *group.mutable_members(1);
  *second.mutable_waited() = group.members(0).waited();
  EXPECT_TRUE(MarksNone(group)) << "two wait alike";
  second.mutable_waited()->set_nanos(0);
  EXPECT_FALSE(MarksNone(group));
  second.set_place(v1::GroupMember::SPARE);
  EXPECT_TRUE(MarksNone(group)) << "one rank is left, which waits for nobody";
  second.set_place(v1::GroupMember::RANK);
  second.clear_waited();
  EXPECT_TRUE(MarksNone(group)) << "one rank's wait is known";
}

TEST(GroupTableTest, AMemberAheadOfItsLeaderHasALagBelow0) {
  v1::GetGroupResponse group = Three();
  group.mutable_members(1)->set_applied(92);
  EXPECT_NE(TableOf(group).find("RANK, leaves  -2 "), std::string::npos) << TableOf(group);
}

}  // namespace
}  // namespace gluond::cli
