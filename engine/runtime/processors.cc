#include "engine/runtime/processors.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/runtime/tuning.h"

namespace gluond {
namespace {

// The words of a small file; none where it cannot be read.
std::vector<std::string> WordsOf(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; file >> word;) words.push_back(std::move(word));
  return words;
}

double NumberAt(const std::vector<std::string>& words, size_t i) {
  double number = 0;
  return i < words.size() && absl::SimpleAtod(words[i], &number) ? number : 0;
}

// The processors that a group's quota keeps busy; 0: it has no quota.
double QuotaOf(const std::string& folder, bool second_version) {
  double quota, period;
  if (second_version) {
    const std::vector<std::string> words = WordsOf(folder + "/cpu.max");  // "max 100000" or "150000 100000"
    quota = NumberAt(words, 0);
    period = NumberAt(words, 1);
  } else {
    quota = NumberAt(WordsOf(folder + "/cpu.cfs_quota_us"), 0);  // -1: none.
    period = NumberAt(WordsOf(folder + "/cpu.cfs_period_us"), 0);
  }
  return quota > 0 && period > 0 ? quota / period : 0;
}

int64_t ThrottledOf(const std::string& folder) {
  const std::vector<std::string> words = WordsOf(folder + "/cpu.stat");
  const auto name = std::find(words.begin(), words.end(), "nr_throttled");
  return static_cast<int64_t>(NumberAt(words, name - words.begin() + 1));
}

bool Exists(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

// Adds `group`, in the hierarchy that is mounted at `mount`, and those above it. In a container the kernel may name the group as
// the host sees it, while its own group is mounted at the root.
void AddGroups(const std::string& mount, std::string group, bool second_version, std::vector<ControlGroup>* groups) {
  while (!group.empty()) {
    const std::string folder = group == "/" ? mount : mount + group;
    if (Exists(folder)) groups->push_back({folder, second_version});
    if (group == "/") break;
    group.resize(group.rfind('/'));
    if (group.empty()) group = "/";
  }
}

}  // namespace

std::vector<ControlGroup> ControlGroups(absl::string_view controller, const std::string& root) {
  std::vector<ControlGroup> groups;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {  // "3:cpu,cpuacct:/docker/1f" or "0::/user.slice"
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3 || parts[2].empty() || parts[2][0] != '/') continue;
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    const std::string base = root + "/sys/fs/cgroup";
    if (parts[1].empty()) {
      AddGroups(base, parts[2], true, &groups);
    } else if (std::find(controllers.begin(), controllers.end(), controller) != controllers.end()) {
      const std::string joined = absl::StrCat(base, "/", parts[1]);
      AddGroups(Exists(joined) ? joined : absl::StrCat(base, "/", controller), parts[2], false, &groups);
    }
  }
  return groups;
}

ProcessorShare Processors::Read() const {
  ProcessorShare share;
  cpu_set_t mask;
  CPU_ZERO(&mask);
  // The first thread's: that is the one whose mask an operator changes.
  if (sched_getaffinity(getpid(), sizeof(mask), &mask) == 0) share.count = std::max(1, CPU_COUNT(&mask));
  for (const ControlGroup& group : groups_) {
    const double quota = QuotaOf(group.folder, group.second_version);
    if (quota == 0) continue;
    share.count = std::min(share.count, std::max(1, static_cast<int>(std::min(quota + 0.999, 1e6))));
    share.throttled += ThrottledOf(group.folder);
  }
  return share;
}

namespace {

void TakeTurns(std::chrono::nanoseconds length) {
  // The kernel's sched_attr, for which the C library has no name before 2.41.
  struct {
    uint32_t size;
    uint32_t policy = SCHED_OTHER;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime = 0;  // Nanoseconds of a turn; 0: as many as usual.
    uint64_t deadline = 0;
    uint64_t period = 0;
  } attributes;
  attributes.size = sizeof(attributes);
  attributes.nice = getpriority(PRIO_PROCESS, 0);
  attributes.runtime = static_cast<uint64_t>(length.count());
  (void)syscall(SYS_sched_setattr, 0, &attributes, 0);
}

}  // namespace

void TakeShortTurns() { TakeTurns(tuning::kShortTurn); }
void TakeUsualTurns() { TakeTurns({}); }

}  // namespace gluond
