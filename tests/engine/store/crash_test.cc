// A save that is stopped at any moment leaves the old checkpoint or the new one, whole. A child process saves and kills
// itself before, or after, its k-th file operation, for every k; the parent looks at what is there.

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "engine/store/checkpoint.h"
#include "gtest/gtest.h"

namespace gluond {
namespace {

// Counts the operations that change something, and kills the process at one of them.
class FatalFileSystem : public FileSystem {
 public:
  FatalFileSystem(int fatal, bool after) : fatal_(fatal), after_(after) {}
  int count() const { return count_; }
  const std::vector<std::string>& log() const { return log_; }

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    Before(absl::StrCat("create ", path));
    auto file = local_.Create(path);
    After();
    if (!file.ok()) return file;
    return std::make_unique<File>(*this, *std::move(file), path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return Do(absl::StrCat("rename ", to), [&] { return local_.Rename(from, to); });
  }
  absl::Status SyncDirectory(const std::string& path) override {
    return Do(absl::StrCat("sync ", path), [&] { return local_.SyncDirectory(path); });
  }
  absl::Status MakeDirectory(const std::string& path) override {
    return Do(absl::StrCat("mkdir ", path), [&] { return local_.MakeDirectory(path); });
  }
  absl::Status RemoveTree(const std::string& path) override {
    return Do(absl::StrCat("remove ", path), [&] { return local_.RemoveTree(path); });
  }
  absl::StatusOr<std::string> Read(const std::string& path, int64_t max_bytes) const override {
    return local_.Read(path, max_bytes);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& path) const override { return local_.List(path); }

 private:
  class File : public WritableFile {
   public:
    File(FatalFileSystem& files, std::unique_ptr<WritableFile> file, std::string path)
        : files_(files), file_(std::move(file)), path_(std::move(path)) {}
    absl::Status Append(absl::string_view bytes) override {
      // Two halves, so that the process also dies in the middle of a piece.
      const size_t half = bytes.size() / 2;
      absl::Status status = files_.Do(absl::StrCat("write ", path_), [&] { return file_->Append(bytes.substr(0, half)); });
      if (!status.ok()) return status;
      return files_.Do(absl::StrCat("write ", path_), [&] { return file_->Append(bytes.substr(half)); });
    }
    absl::Status Sync() override {
      return files_.Do(absl::StrCat("sync ", path_), [&] { return file_->Sync(); });
    }

   private:
    FatalFileSystem& files_;
    const std::unique_ptr<WritableFile> file_;
    const std::string path_;
  };

  template <class F>
  absl::Status Do(std::string what, F f) {
    Before(std::move(what));
    absl::Status status = f();
    After();
    return status;
  }
  void Before(std::string what) {
    log_.push_back(std::move(what));
    if (count_ == fatal_ && !after_) kill(getpid(), SIGKILL);
  }
  void After() {
    if (count_++ == fatal_ && after_) kill(getpid(), SIGKILL);
  }

  FileSystem& local_ = LocalFileSystem();
  const int fatal_;
  const bool after_;
  int count_ = 0;
  std::vector<std::string> log_;
};

class CrashTest : public testing::Test {
 protected:
  CrashTest()
      : memory_(*DeviceAllocator::Create(Device(), std::make_shared<Budget>("the test", 1 << 30, "--none"))),
        directory_(absl::StrCat(testing::TempDir(), "/crash_", getpid())) {
    EXPECT_EQ(LocalFileSystem().RemoveTree(directory_), absl::OkStatus());
  }
  ~CrashTest() override { LocalFileSystem().RemoveTree(directory_).IgnoreError(); }

  // All its values are `value`.
  Checkpoint Make(float value) {
    Checkpoint checkpoint;
    ModelDefinition& definition = checkpoint.model.definition;
    definition.inputs = {{"data", {-1, 3}}};
    Parameter parameter;
    parameter.name = "w";
    parameter.shape = {64, 3};
    definition.parameters = {parameter};
    definition.outputs = {MakeVariable("data")};
    definition.output_names = {"output"};
    Tensor w = *Tensor::Empty(*memory_, parameter.shape, DType::kFloat32);
    std::fill_n(w.data<float>(), w.Size(), value);
    checkpoint.model.parameters = {{"w", w}};
    checkpoint.model.random = {7, static_cast<uint32_t>(value)};
    checkpoint.trainer.emplace();
    checkpoint.trainer->step = static_cast<int64_t>(value);
    checkpoint.trainer->states = {{"w/mom", w}};
    return checkpoint;
  }

  // The value of a whole checkpoint; -1: something in it is of another one, or damaged.
  float ValueOf(const CheckpointStore& store) {
    const absl::StatusOr<Checkpoint> checkpoint = store.Load("c", *memory_);
    if (!checkpoint.ok()) return ADD_FAILURE() << checkpoint.status(), -1;
    const auto value = static_cast<float>(checkpoint->trainer->step);
    for (const NamedTensors& tensors : {checkpoint->model.parameters, checkpoint->trainer->states}) {
      for (int64_t i = 0; i < 64 * 3; ++i) if (tensors[0].tensor.data<float>()[i] != value) return -1;
    }
    return static_cast<float>(checkpoint->model.random.runs) == value ? value : -1;
  }

  const std::shared_ptr<Allocator> memory_;
  const std::string directory_;
};

TEST_F(CrashTest, LeavesTheOldCheckpointOrTheNew) {
  auto store = *CheckpointStore::Open(LocalFileSystem(), directory_);
  int num_operations = 0, num_old = 0, num_new = 0;
  {
    FatalFileSystem counting(/*fatal=*/-1, false);
    auto counted = *CheckpointStore::Open(counting, directory_);
    ASSERT_TRUE(counted->Save("c", Make(1)).ok());
    ASSERT_TRUE(counted->Save("c", Make(1)).ok());
    num_operations = counting.count();
  }
  ASSERT_GT(num_operations, 20);
  for (int fatal = 1; fatal < num_operations; ++fatal) {
    for (bool after : {false, true}) {
      ASSERT_TRUE(store->Save("c", Make(1)).ok());
      const pid_t child = fork();
      if (child == 0) {
        FatalFileSystem files(fatal, after);
        auto dying = CheckpointStore::Open(files, directory_);
        _exit(dying.ok() && (*dying)->Save("c", Make(2)).ok() ? 0 : 1);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      const bool finished = WIFEXITED(status);
      ASSERT_TRUE(finished ? WEXITSTATUS(status) == 0 : WTERMSIG(status) == SIGKILL) << fatal;
      const float value = ValueOf(*store);
      ASSERT_TRUE(value == 1 || value == 2) << "operation " << fatal << (after ? " after" : " before");
      if (finished) {
        EXPECT_EQ(value, 2);
      } else {
        ++(value == 1 ? num_old : num_new);
      }
      EXPECT_EQ(store->List()->size(), 1u);
    }
  }
  EXPECT_GT(num_old, 10);
  EXPECT_GT(num_new, 0);
}

// What a process's death does not show, a loss of power would: everything is on the disk before CURRENT points to it.
TEST_F(CrashTest, SyncsEverythingBeforeItPublishes) {
  FatalFileSystem files(-1, false);
  auto store = *CheckpointStore::Open(files, directory_);
  ASSERT_TRUE(store->Save("c", Make(1)).ok());
  std::vector<std::string> dirty;
  bool published = false;
  for (const std::string& entry : files.log()) {
    const std::string verb = entry.substr(0, entry.find(' ')), path = entry.substr(entry.find(' ') + 1);
    const std::string parent = path.substr(0, path.rfind('/'));
    if (verb == "sync") dirty.erase(std::remove(dirty.begin(), dirty.end(), path), dirty.end());
    if (verb == "write" || verb == "create") dirty.push_back(path);
    if (verb == "mkdir" && path != directory_) dirty.push_back(parent);
    if (verb == "create" && path.find(".tmp") == std::string::npos) dirty.push_back(parent);
    if (verb != "rename") continue;
    published = true;
    EXPECT_EQ(dirty, std::vector<std::string>{});
  }
  EXPECT_TRUE(published);
  EXPECT_EQ(files.log().back().substr(0, 4), "sync");
}

}  // namespace
}  // namespace gluond
