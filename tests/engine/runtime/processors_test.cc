// The processors that a process may use, from control groups as the kernel shows them.

#include "engine/runtime/processors.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace gluond {
namespace {

class ProcessorsTest : public testing::Test {
 protected:
  // A file of a tree that looks like a machine's root.
  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  ProcessorShare Read() const { return Processors(root_).Read(); }

  const std::string root_ = testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
  const int all_ = Processors("/nowhere").Read().count;  // The mask's.
};

TEST_F(ProcessorsTest, WithoutGroupsTheMaskDecides) {
  cpu_set_t mask;
  ASSERT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  EXPECT_EQ(all_, CPU_COUNT(&mask));
  EXPECT_EQ(Read().throttled, 0);
}

TEST_F(ProcessorsTest, AQuotaIsRoundedUp) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  Write("/sys/fs/cgroup/cpu.stat", "usage_usec 5\nnr_periods 9\nnr_throttled 7\nthrottled_usec 3\n");
  EXPECT_EQ(Read().count, 1);
  EXPECT_EQ(Read().throttled, 7);
  Write("/sys/fs/cgroup/cpu.max", "150000 100000\n");
  EXPECT_EQ(Read().count, std::min(all_, 2));
  Write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_EQ(Read().count, all_);
  EXPECT_EQ(Read().throttled, 0) << "without a quota nothing is throttled";
}

TEST_F(ProcessorsTest, AGroupAboveCounts) {
  Write("/proc/self/cgroup", "0::/pods/one/inner\n");
  Write("/sys/fs/cgroup/pods/one/inner/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/pods/cpu.max", "100000 100000\n");
  EXPECT_EQ(Read().count, 1);
}

TEST_F(ProcessorsTest, TheFirstVersion) {
  Write("/proc/self/cgroup", "4:memory:/a\n3:cpu,cpuacct:/a/b\n0::/\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "90000\n");
  Write("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read().count, 1);
  Write("/sys/fs/cgroup/cpu,cpuacct/a/b/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(Read().count, all_);
}

TEST_F(ProcessorsTest, AContainerSeesItsGroupAtTheRoot) {
  Write("/proc/self/cgroup", "3:cpu:/docker/1f2e\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "40000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read().count, 1);
}

TEST_F(ProcessorsTest, NonsenseIsNoQuota) {
  Write("/proc/self/cgroup", "nothing\n::\n3:cpu\n0::relative\n0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "many\n");
  EXPECT_EQ(Read().count, all_);
}

TEST(TakeShortTurnsTest, ChangesTheTurnsAndNothingElse) {
  struct {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
  } before = {}, after = {};
  std::thread([&] {
    ASSERT_EQ(syscall(SYS_sched_getattr, 0, &before, sizeof(before), 0), 0);
    TakeShortTurns();
    ASSERT_EQ(syscall(SYS_sched_getattr, 0, &after, sizeof(after), 0), 0);
  }).join();
  if (before.runtime == 0) GTEST_SKIP() << "this kernel has no turns of a chosen length";
  EXPECT_EQ(after.runtime, 100'000u);
  EXPECT_GT(before.runtime, after.runtime);
  EXPECT_EQ(after.policy, before.policy);
  EXPECT_EQ(after.nice, before.nice);
}

}  // namespace
}  // namespace gluond
