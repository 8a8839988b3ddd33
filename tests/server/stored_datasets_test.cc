// Committed datasets outlive the server: a new one begins with those of its store. A server of this fixture that is
// destroyed ends as one that is killed.

#include <filesystem>
#include <fstream>
#include <thread>

#include "engine/store/crc32c.h"
#include "tests/server/service_fixture.h"

namespace gluond::server {
namespace {

using Stub = v1::TrainingService::Stub;
using grpc::StatusCode;

class StoredDatasetsTest : public ServiceTest {
 protected:
  void Configure(ServerOptions* options) override { options->checkpoint_every = {.steps = 1}; }

  std::string Folder(const std::string& name) const { return store_ + "/.datasets/" + name; }
  static v1::UploadDatasetRequest Toy(const std::string& name) {
    v1::UploadDatasetRequest request;
    request.set_dataset(name);
    request.set_commit(true);
    v1::Tensor& data = (*request.mutable_tensors())["data"];
    v1::Tensor& label = (*request.mutable_tensors())["label"];
    data.add_shape(30);
    data.add_shape(4);
    label.add_shape(30);
    for (int row = 0; row < 30; ++row) {
      for (int j = 0; j < 4; ++j) data.add_float_data(static_cast<float>(row % 3 == j) + 0.01f * static_cast<float>(row));
      label.add_int_data(row % 3);
    }
    return request;
  }
  void UploadToy(const std::string& name) { EXPECT_TRUE(Call(training_, &Stub::UploadDataset, Toy(name)).committed()); }
  std::vector<v1::Dataset> List() {
    const auto response = Call(training_, &Stub::ListDatasets, "{}");
    return {response.datasets().begin(), response.datasets().end()};
  }
  std::vector<std::string> Names() {
    std::vector<std::string> names;
    for (const v1::Dataset& dataset : List()) names.push_back(dataset.name());
    return names;
  }
  void TrainOnToy(const std::string& model, int begin, const std::string& numbered = "") {
    Call(training_, &Stub::TrainStep,
         absl::StrCat(R"({"model": ")", model, R"(", "batch_size": "6", )", numbered, R"("rows": {"dataset": "toy", "shuffle": true,
             "seed": "3", "begin": ")",
                      begin, R"(", "end": ")", begin + 12, R"("}})"));
  }
  void Delete(const std::string& name, StatusCode expected = StatusCode::OK) {
    Call(training_, &Stub::DeleteDataset, R"({"dataset": ")" + name + R"("})", expected);
  }
  void Damage(const std::string& name) const { std::ofstream(Folder(name) + "/v1/parameters.safetensors", std::ios::app) << "x"; }
  void ExpectLogged(const std::string& part) {
    std::string all;
    for (const std::string& line : log_.Take()) all += line;
    EXPECT_NE(all.find(part), std::string::npos) << all;
  }
};

TEST_F(StoredDatasetsTest, TheNextServerHasThem) {
  auto declare = Json<v1::UploadDatasetRequest>(R"({"dataset": "bytes", "call": {"client_id": "ann"}, "columns": [
      {"name": "data", "shape": [6, 4], "dtype": "UINT8", "scale": 0.5, "shift": -1}]})");
  const std::string data = "abcdefghijklmnopqrstuvwx";
  declare.mutable_columns(0)->set_crc32c(Crc32c(data));
  Call(training_, &Stub::UploadDataset, declare);
  auto chunk = Json<v1::UploadDatasetRequest>(R"({"dataset": "bytes", "call": {"client_id": "ann"}, "column": "data"})");
  chunk.mutable_chunk()->set_data(data);
  Call(training_, &Stub::UploadDataset, chunk);
  EXPECT_FALSE(List()[0].stored());
  const std::string commit = R"({"dataset": "bytes", "call": {"client_id": "ann"}, "commit": true})";
  EXPECT_TRUE(Call(training_, &Stub::UploadDataset, commit).committed());
  EXPECT_TRUE(std::filesystem::exists(Folder("bytes") + "/CURRENT")) << "durable before it is answered";
  const v1::Dataset before = List()[0];
  EXPECT_TRUE(before.stored());
  StartServer({});
  ASSERT_EQ(Names(), std::vector<std::string>{"bytes"});
  v1::Dataset now = List()[0];
  // The store keeps microseconds.
  EXPECT_EQ(now.created().seconds(), before.created().seconds());
  *now.mutable_created() = before.created();
  EXPECT_EQ(now.SerializeAsString(), before.SerializeAsString());
  EXPECT_TRUE(Call(training_, &Stub::UploadDataset, commit).committed()) << "a commit whose answer the crash took";
  EXPECT_EQ(Call(training_, &Stub::UploadDataset, declare).received().at("data"), 24u);
  declare.mutable_columns(0)->set_crc32c(1);
  Call(training_, &Stub::UploadDataset, declare, StatusCode::ALREADY_EXISTS);
}

TEST_F(StoredDatasetsTest, ATrainingGoesOnWithoutAnUpload) {
  DefineMlp("mlp");
  UploadToy("toy");
  TrainOnToy("mlp", 0, R"("call": {"client_id": "ann", "sequence": "1"}, )");
  while (Call(training_, &Stub::GetSequence, R"({"client_id": "ann", "model": "mlp"})").durable() < 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  StartServer({});
  TrainOnToy("mlp", 12);
  Delete("toy");
  UploadToy("toy");
  DefineMlp("calm");
  TrainOnToy("calm", 0);
  TrainOnToy("calm", 12);
  EXPECT_EQ(Parameters("mlp"), Parameters("calm"));
}

TEST_F(StoredDatasetsTest, ADamagedOneIsLoggedAndStaysOnTheDiskUntilAnotherUpload) {
  UploadToy("bad");
  UploadToy("good");
  StopServer();
  Damage("bad");
  log_.Take();
  StartServer({});
  ExpectLogged("the stored dataset 'bad' was not loaded and stays on the disk");
  EXPECT_EQ(Names(), std::vector<std::string>{"good"});
  EXPECT_TRUE(std::filesystem::exists(Folder("bad") + "/v1/parameters.safetensors"));
  UploadToy("bad");
  StartServer({});
  EXPECT_EQ(Names(), (std::vector<std::string>{"bad", "good"}));
}

TEST_F(StoredDatasetsTest, OneOfANewerFormatIsLoggedAndStaysOnTheDisk) {
  UploadToy("new");
  StopServer();
  const std::string path = Folder("new") + "/v1/manifest.json", from = R"("notes":{"format_version":1)";
  std::ifstream in(path);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, from.size(), R"("notes":{"format_version":2)");
  std::ofstream(path) << text;
  std::ofstream(Folder("new") + "/CURRENT") << "1 " << Crc32c(text) << "\n";
  log_.Take();
  StartServer({});
  ExpectLogged("format_version is 2");
  EXPECT_TRUE(Names().empty());
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST_F(StoredDatasetsTest, TheNextServersLimitsHold) {
  for (const char* name : {"a", "b"}) {  // Each has 6 MB.
    Call(training_, &Stub::UploadDataset, absl::StrCat(R"({"dataset": ")", name, R"(", "commit": true, "tensors": {
        "data": {"shape": [1500000], "fill": {}}}})"));
  }
  log_.Take();
  StartServer({.max_datasets = 1});
  ExpectLogged("--max_datasets");
  EXPECT_EQ(Names(), std::vector<std::string>{"a"});
  StartServer({.max_tensor_bytes = 10'000'000});
  ExpectLogged("the stored dataset 'b' was not loaded and stays on the disk");
  EXPECT_EQ(Names(), std::vector<std::string>{"a"});
  StartServer({});
  EXPECT_EQ(Names(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(StoredDatasetsTest, ADeletedOneIsGone) {
  UploadToy("a");
  UploadToy("b");
  Delete("a");
  EXPECT_FALSE(std::filesystem::exists(Folder("a")));
  StopServer();
  Damage("b");
  StartServer({});
  EXPECT_TRUE(Names().empty());
  Delete("b");
  EXPECT_FALSE(std::filesystem::exists(Folder("b"))) << "it was on the disk alone";
  Delete("b", StatusCode::NOT_FOUND);
  Delete("a/b", StatusCode::NOT_FOUND);
}

TEST_F(StoredDatasetsTest, ATemporaryOneIsNotStored) {
  v1::UploadDatasetRequest request = Toy("brief");
  request.set_temporary(true);
  EXPECT_TRUE(Call(training_, &Stub::UploadDataset, request).committed());
  EXPECT_FALSE(List()[0].stored());
  EXPECT_FALSE(std::filesystem::exists(Folder("brief")));
  StartServer({});
  EXPECT_TRUE(Names().empty());
}

TEST_F(StoredDatasetsTest, AStoreThatCannotBeWrittenLeavesTheUpload) {
  std::ofstream(Folder("toy")) << "a file, and no folder";
  v1::UploadDatasetRequest request = Toy("toy");
  request.mutable_call()->set_client_id("ann");
  Call(training_, &Stub::UploadDataset, request, StatusCode::FAILED_PRECONDITION);
  ExpectMessage("dataset 'toy' is not stored and not committed; its bytes are kept for another `commit`");
  EXPECT_FALSE(List()[0].committed());
  DefineMlp("mlp");
  Call(training_, &Stub::TrainStep, R"({"model": "mlp", "batch_size": "6", "rows": {"dataset": "toy"}})",
       StatusCode::FAILED_PRECONDITION);
  std::filesystem::remove(Folder("toy"));
  EXPECT_TRUE(
      Call(training_, &Stub::UploadDataset, R"({"dataset": "toy", "call": {"client_id": "ann"}, "commit": true})").committed());
  EXPECT_TRUE(List()[0].stored());
  StartServer({});
  EXPECT_EQ(Names(), std::vector<std::string>{"toy"});
}

TEST_F(StoredDatasetsTest, AStoreWithoutRoomNamesItsLimit) {
  StartServer({.max_store_bytes = 4000});
  Call(training_, &Stub::UploadDataset, Toy("toy"), StatusCode::RESOURCE_EXHAUSTED);
  ExpectMessage("--max_store_bytes");
}

TEST_F(StoredDatasetsTest, AnUploadThatTheServerDoesNotHaveIsToldSo) {
  const std::string declare =
      R"({"dataset": "d", "call": {"client_id": "ann"}, "columns": [{"name": "x", "shape": [2], "dtype": "UINT8"}]})";
  const std::string chunk = R"({"dataset": "d", "call": {"client_id": "ann"}, "column": "x", "chunk": {"data": "AAA="}})";
  Call(training_, &Stub::UploadDataset, declare);
  StartServer({});
  Call(training_, &Stub::UploadDataset, chunk, StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(status_), "NOT_FOUND");
  Call(training_, &Stub::UploadDataset, R"({"dataset": "d", "call": {"client_id": "ann"}, "commit": true})", StatusCode::NOT_FOUND);
  Call(training_, &Stub::UploadDataset, R"({"dataset": "d", "call": {"client_id": "ann"}})", StatusCode::INVALID_ARGUMENT);
  Call(training_, &Stub::UploadDataset, declare);
  EXPECT_EQ(Call(training_, &Stub::UploadDataset, chunk).received().at("x"), 2u);
}

TEST_F(StoredDatasetsTest, CommitsAndDeletionsAtOnceLeaveMemoryAndDiskAlike) {
  for (int round = 0; round < 20; ++round) {
    v1::UploadDatasetRequest request = Toy("d");
    request.mutable_call()->set_client_id("ann");
    request.set_commit(false);
    Call(training_, &Stub::UploadDataset, request);
    const auto commit = Json<v1::UploadDatasetRequest>(R"({"dataset": "d", "call": {"client_id": "ann"}, "commit": true})");
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&, i] {
        grpc::ClientContext context;
        v1::UploadDatasetResponse uploaded;
        v1::DeleteDatasetResponse deleted;
        if (i < 2) {
          (void)training_->UploadDataset(&context, commit, &uploaded);
        } else if (round % 2 == 0) {
          (void)training_->DeleteDataset(&context, Json<v1::DeleteDatasetRequest>(R"({"dataset": "d"})"), &deleted);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    const std::vector<v1::Dataset> listed = List();
    ASSERT_EQ(listed.size(), round % 2 == 0 ? 0u : 1u);
    EXPECT_EQ(std::filesystem::exists(Folder("d") + "/CURRENT"), round % 2 == 1);
    if (round % 2 == 1) Delete("d");
  }
}

}  // namespace
}  // namespace gluond::server
