// Whatever lies in the place of a file or a folder of the store: the server starts, and serves what it does not need for.

#include <sys/stat.h>

#include <filesystem>

#include "absl/strings/match.h"
#include "tests/server/serving_fixture.h"

namespace gluond::server {
namespace {

namespace fs = std::filesystem;

struct InTheWay {
  const char* what;
  void (*put)(const fs::path& place);
};
constexpr InTheWay kInTheWay[] = {
    {"a folder", [](const fs::path& place) { fs::create_directory(place); }},
    {"a pipe", [](const fs::path& place) { ASSERT_EQ(mkfifo(place.c_str(), 0600), 0); }},
    {"a link to nothing", [](const fs::path& place) { fs::create_symlink("nowhere", place); }},
};

class StoreDamageTest : public ServingTest {
 protected:
  void Configure(ServerOptions* options) override { options->checkpoint_every = {.steps = 1}; }

  // A store with something of each kind. No server has it afterwards.
  void FillStore() {
    DefineMlp("other");
    UploadToy("toy");
    Publish();
    Publish(R"(, "served": "gone")");
    Call(serving_, &Serving::RetireVersion, R"({"served": "gone", "version": 1})");
    Call(models_, &v1::ModelService::Stub::SaveCheckpoint, R"({"model": "mlp"})");
    DropStubs();
    server_->Drain(std::chrono::seconds(60));
    StopServer();
  }
  // Starts a server on a copy of the store in which `in_the_way` lies in a path's place. What it logs.
  std::string StartOn(const fs::path& kept, const fs::path& path, const InTheWay& in_the_way) {
    StopServer();
    fs::remove_all(store_);
    fs::copy(kept, store_, fs::copy_options::recursive);
    fs::remove_all(fs::path(store_) / path);
    in_the_way.put(fs::path(store_) / path);
    log_.Take();
    StartServer({});
    std::string all;
    for (const std::string& line : log_.Take()) all += line;
    return all;
  }
  std::vector<std::string> ModelNames() {
    std::vector<std::string> names;
    const auto listed = Call(models_, &v1::ModelService::Stub::ListModels, "{}");
    for (const v1::Model& model : listed.models()) names.push_back(model.name());
    return names;
  }
};

TEST_F(StoreDamageTest, AnythingMayLieInThePlaceOfAnyFile) {
  FillStore();
  const fs::path kept = store_ + "-kept";
  fs::rename(store_, kept);
  std::vector<fs::path> paths;
  for (const auto& entry : fs::recursive_directory_iterator(kept)) paths.push_back(fs::relative(entry.path(), kept));
  ASSERT_GT(paths.size(), 30u);
  for (const fs::path& path : paths) {
    for (const InTheWay& in_the_way : kInTheWay) {
      SCOPED_TRACE(absl::StrCat(in_the_way.what, " at ", path.string()));
      const std::string log = StartOn(kept, path, in_the_way);
      ASSERT_FALSE(HasFatalFailure());
      if (absl::StartsWith(path.filename().string(), ".lock-")) {
        EXPECT_THAT(log, HasSubstr(absl::StrCat(path.filename().string(), ": ")));
        EXPECT_THAT(log, HasSubstr("remove it"));
      }
      if (*path.begin() == ".live") continue;
      EXPECT_THAT(ModelNames(), ElementsAre("mlp", "other"));
    }
  }
  StopServer();
  fs::remove_all(kept);
}

TEST_F(StoreDamageTest, AModelWhoseLockCannotBeTakenIsSaidAndTheOthersAreThere) {
  FillStore();
  const fs::path kept = store_ + "-kept";
  fs::rename(store_, kept);
  for (const InTheWay& in_the_way : kInTheWay) {
    const std::string log = StartOn(kept, ".live/.lock-mlp", in_the_way);
    EXPECT_THAT(ModelNames(), ElementsAre("other")) << in_the_way.what;
    EXPECT_THAT(log, HasSubstr("it stands in the place of a lock, an empty file; remove it"));
    EXPECT_THAT(log, HasSubstr("the live checkpoint of model 'mlp' was not loaded"));
  }
  StopServer();
  fs::remove_all(kept);
}

TEST_F(StoreDamageTest, AFolderOfTheStoreThatIsNoneIsSaid) {
  FillStore();
  const fs::path kept = store_ + "-kept";
  fs::rename(store_, kept);
  for (const char* folder : {".live", ".datasets", ".sessions", ".versions", ".owners"}) {
    const std::string log = StartOn(kept, folder, kInTheWay[1]);
    EXPECT_THAT(log, HasSubstr(absl::StrCat("/", folder,
                                            "/: Not a directory; it stands in the place of a folder of the store; "
                                            "remove it, and start the server again")));
  }
  StopServer();
  fs::remove_all(kept);
}

}  // namespace
}  // namespace gluond::server
