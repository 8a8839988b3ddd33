// Rings over Gloo's TCP: the contract within a process, and processes that are killed.

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "server/group/gloo_plugin.h"
#include "tests/server/ring_contract.h"

namespace gluond::server {
namespace {

// The test's program is also the rank of another process.
constexpr char kBeRank[] = "--be_rank";

GlooTransportMaker Gloo() {
  static const GlooTransportMaker maker = LoadGloo(std::getenv("GLUOND_GLOO_PLUGIN")).value();
  return maker;
}

class GlooNetwork final : public RingNetwork {
 public:
  std::unique_ptr<RingTransport> Transport(int rank, int ranks) override {
    return std::unique_ptr<RingTransport>(Gloo()("127.0.0.1", rank, ranks, milliseconds(10000)));
  }
};

INSTANTIATE_TEST_SUITE_P(Gloo, RingTest, RingsOf([]() -> std::unique_ptr<RingNetwork> { return std::make_unique<GlooNetwork>(); }));

TEST(LoadGloo, SaysWhatIsWrongWithTheFile) {
  EXPECT_EQ(LoadGloo("/nowhere").status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(LoadGloo("/etc/passwd").status().message(), testing::HasSubstr("no ring"));
  EXPECT_THAT(LoadGloo("/proc/self/exe").status().message(), testing::HasSubstr("no ring"));
}

TEST(LoadGloo, KeepsWritesToTheDeadFromEndingTheProcess) {
  signal(SIGPIPE, SIG_DFL);
  ASSERT_TRUE(LoadGloo(std::getenv("GLUOND_GLOO_PLUGIN")).ok());
  EXPECT_EQ(signal(SIGPIPE, SIG_IGN), SIG_IGN);
}

TEST(GlooTransport, RefusesWhatIsNoAddress) {
  std::unique_ptr<RingTransport> transport(Gloo()("127.0.0.1", 0, 2, milliseconds(100)));
  std::map<int, std::string> addresses{{1, ""}};
  ASSERT_EQ(transport->Listen(&addresses), "");
  EXPECT_NE(addresses[1], "");
  for (const size_t bytes : {0, 1, 1000}) EXPECT_NE(transport->Connect({{1, std::string(bytes, 'x')}}), "") << bytes;
}

// Texts as files, for processes.
class FolderRendezvous final : public Rendezvous {
 public:
  explicit FolderRendezvous(std::filesystem::path folder) : folder_(std::move(folder)) {}

  absl::Status Set(absl::string_view key, absl::string_view value) override {
    const std::filesystem::path unfinished = folder_ / absl::StrCat("unfinished ", getpid());
    std::ofstream(unfinished, std::ios::binary) << value;
    std::filesystem::rename(unfinished, File(key));
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Get(absl::string_view key, Time deadline) override {
    while (!std::filesystem::exists(File(key))) {
      if (cancelled_) return absl::CancelledError("cancelled");
      if (std::chrono::steady_clock::now() > deadline) return absl::DeadlineExceededError(absl::StrCat("nobody has set ", key));
      std::this_thread::sleep_for(milliseconds(1));
    }
    std::ifstream file(File(key), std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(file), {}};
  }
  void Cancel() override { cancelled_ = true; }

 private:
  std::filesystem::path File(absl::string_view key) const {
    std::string name(key);
    std::replace(name.begin(), name.end(), '/', '_');
    return folder_ / name;
  }

  const std::filesystem::path folder_;
  std::atomic<bool> cancelled_ = false;
};

constexpr int kRanks = 4;
constexpr int kDead = 2;

// A file that the processes of a test have in common.
struct Shared {
  static Shared* Open(const std::string& folder) {
    const int file = open((folder + "/shared").c_str(), O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) std::abort();
    void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory == MAP_FAILED) std::abort();
    return static_cast<Shared*>(memory);
  }
  std::atomic<int> sums[kRanks];        // That are done.
  std::atomic<int> done;                // Ranks, at the end.
  std::atomic<int64_t> failed[kRanks];  // When, on the steady clock.
};

enum Exit { kGood = 0, kNotFormed, kWrongSum, kWrongError, kNotFormedAgain, kWrongSumAgain };

int64_t Now() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

std::unique_ptr<Ring> FormIn(const std::string& folder, Ring::Options options) {
  options.key = std::string(32, 'k');
  auto transport = GlooNetwork().Transport(static_cast<int>(options.rank), static_cast<int>(options.size + options.spares));
  auto ring = Ring::Form(options, std::move(transport), std::make_shared<FolderRendezvous>(folder), nullptr);
  return ring.ok() && (*ring)->Wait().ok() ? *std::move(ring) : nullptr;
}

// A rank as a process. It adds up until that fails, and then once more in the generation that the survivors form.
Exit Be(int rank, int64_t elements, const std::string& folder) {
  Shared& shared = *Shared::Open(folder);
  auto ring = FormIn(folder, {.rank = rank, .size = kRanks, .generation = "1"});
  if (ring == nullptr) return kNotFormed;
  std::vector<float> values(elements);
  absl::Status status;
  for (;;) {
    values.assign(values.size(), static_cast<float>(rank + 1));
    ring->Start(ViewOf(values));
    status = ring->Wait();
    if (!status.ok()) break;
    if (values != std::vector<float>(values.size(), 10)) return kWrongSum;
    ++shared.sums[rank];
  }
  shared.failed[rank] = Now();
  if (status.code() != absl::StatusCode::kUnavailable) return kWrongError;
  ring.reset();
  // The ranks 0, 1 and 3 are two and a spare.
  ring = FormIn(folder, {.rank = rank < kDead ? rank : rank - 1, .size = 2, .spares = 1, .generation = "2"});
  if (ring == nullptr) return kNotFormedAgain;
  values.assign(values.size(), static_cast<float>(rank + 1));
  ring->Start(ViewOf(values));
  const bool is_good = ring->Wait().ok() && values == std::vector<float>(values.size(), 3);
  // Whoever left now would take those along that still tell the spare.
  ++shared.done;
  for (int i = 0; i < 20'000 && shared.done < kRanks - 1; ++i) std::this_thread::sleep_for(milliseconds(1));
  return is_good ? kGood : kWrongSumAgain;
}

class ProcessesTest : public testing::TestWithParam<int64_t> {};

TEST_P(ProcessesTest, GoOnWithoutOneThatIsKilled) {
  double longest = 0;
  for (int round = 0; round < 8; ++round) {
    std::string folder = testing::TempDir() + "/ring_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    Shared& shared = *Shared::Open(folder);
    const std::string elements = absl::StrCat(GetParam());
    pid_t children[kRanks];
    for (int rank = 0; rank < kRanks; ++rank) {
      const std::string number = absl::StrCat(rank);
      children[rank] = fork();
      if (children[rank] != 0) continue;
      execl("/proc/self/exe", "rank", kBeRank, number.c_str(), elements.c_str(), folder.c_str(), nullptr);
      _exit(127);
    }
    const int64_t begin = Now();
    while (shared.sums[0] < 2 && Now() - begin < int64_t{20'000'000'000}) std::this_thread::sleep_for(milliseconds(1));
    std::this_thread::sleep_for(std::chrono::microseconds(1300 * round));  // Somewhere within a sum.
    const int64_t killed = Now();
    kill(children[kDead], SIGKILL);
    for (int rank = 0; rank < kRanks; ++rank) {
      int status = 0;
      waitpid(children[rank], &status, 0);
      if (rank == kDead) {
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        continue;
      }
      EXPECT_TRUE(WIFEXITED(status)) << "rank " << rank << " is ended by signal " << WTERMSIG(status);
      EXPECT_EQ(WEXITSTATUS(status), kGood) << "rank " << rank;
      longest = std::max(longest, static_cast<double>(shared.failed[rank] - killed) * 1e-6);
    }
    munmap(&shared, sizeof(Shared));
    std::filesystem::remove_all(folder);
  }
  std::printf("%ld elements: the last survivor knows of the death after %.1f ms at most\n", static_cast<long>(GetParam()), longest);
  EXPECT_LT(longest, 10'000);
}

INSTANTIATE_TEST_SUITE_P(Bucket, ProcessesTest, testing::Values(1000, 250'000, 2'000'000));

}  // namespace
}  // namespace gluond::server

int main(int argc, char** argv) {
  if (argc == 5 && std::string(argv[1]) == gluond::server::kBeRank) {
    return gluond::server::Be(std::atoi(argv[2]), std::atoll(argv[3]), argv[4]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
