#include "client/cpp/connect.h"
#include "gtest/gtest.h"
#include "tests/client/cpp/fake_server.h"

namespace gluond::client {
namespace {

using Fault = FakeServer::Fault;

// The fake server takes chunks of 16 bytes.
Tensor Bytes(const std::string& text) { return *Tensor::FromBytes(DType::kUint8, {static_cast<int64_t>(text.size())}, text); }

const char kLong[] = "forty characters are three chunks of it.";

class TransferTest : public testing::Test {
 protected:
  FakeServer server_;
  Client client_ = *Connect(server_.channel());
  Model model_ = client_.GetModel("lenet");
};

TEST_F(TransferTest, SmallParametersTravelInOneCallLargeOnesInChunks) {
  ASSERT_TRUE(model_.SetParameters({{"bias", Bytes("tiny")}, {"weight", Bytes(kLong)}}).ok());
  EXPECT_EQ(server_.values()["bias"], "tiny");
  EXPECT_EQ(server_.values()["weight"], kLong);
  EXPECT_EQ(server_.chunks(), 3);
}

TEST_F(TransferTest, ACutUploadLosesAndDoublesNothing) {
  server_.set_faults({Fault::kNone, Fault::kCutAfter, Fault::kCutBefore});
  ASSERT_TRUE(model_.SetParameters({{"weight", Bytes(kLong)}}).ok());
  EXPECT_EQ(server_.values()["weight"], kLong);
  EXPECT_EQ(server_.chunks(), 3);
}

TEST_F(TransferTest, DownloadsInChunksWhatIsTooLargeForOneMessage) {
  ASSERT_TRUE(model_.SetParameters({{"weight", Bytes(kLong)}, {"empty", Bytes("")}}).ok());
  server_.set_faults({Fault::kNone, Fault::kCutBefore});
  const auto values = model_.GetParameters({"weight", "empty"});
  ASSERT_TRUE(values.ok()) << values.status();
  EXPECT_EQ(*values, (Tensors{{"weight", Bytes(kLong)}, {"empty", Bytes("")}}));
}

TEST_F(TransferTest, ADownloadThatMixesTwoVersionsBeginsAgain) {
  ASSERT_TRUE(model_.SetParameters({{"weight", Bytes(kLong)}}).ok());
  server_.set_faults({Fault::kNone, Fault::kRestart});
  EXPECT_TRUE(model_.GetParameters({"weight"}).ok());
}

TEST_F(TransferTest, AModelThatNeverRestsIsNotRead) {
  ASSERT_TRUE(model_.SetParameters({{"weight", Bytes(kLong)}}).ok());
  server_.set_faults(std::vector<Fault>(100, Fault::kRestart));
  EXPECT_EQ(model_.GetParameters({"weight"}).status().code(), absl::StatusCode::kAborted);
}

TEST_F(TransferTest, DamagedBytesAreNotTaken) {
  ASSERT_TRUE(model_.SetParameters({{"weight", Bytes(kLong)}}).ok());
  server_.set_faults({Fault::kNone, Fault::kInvalidArgument});  // A wrong checksum.
  EXPECT_EQ(model_.GetParameters({"weight"}).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(TransferTest, ADatasetIsSentOnce) {
  const std::vector<DatasetColumn> columns = {{"data", Bytes(kLong), 0.5}, {"label", Bytes("0123")}};
  server_.set_faults({Fault::kCutAfter});
  ASSERT_TRUE(client_.UploadDataset("toy", columns).ok());
  EXPECT_EQ(server_.values()["data"], kLong);
  EXPECT_EQ(server_.chunks(), 4);
  EXPECT_TRUE(client_.UploadDataset("toy", columns).ok());
  EXPECT_EQ(server_.chunks(), 4);
}

TEST_F(TransferTest, ADeletionWhoseAnswerWasLostHasWorked) {
  ASSERT_TRUE(client_.UploadDataset("toy", {{"data", Bytes(kLong)}}).ok());
  server_.set_faults({Fault::kCutAfter});
  const absl::Status status = client_.DeleteDataset("toy");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(client_.DeleteDataset("toy").code(), absl::StatusCode::kNotFound);
}

TEST_F(TransferTest, AnotherDatasetOfThatNameIsAnError) {
  ASSERT_TRUE(client_.UploadDataset("toy", {{"data", Bytes(kLong)}}).ok());
  EXPECT_EQ(client_.UploadDataset("toy", {{"data", Bytes("other bytes")}}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(client_.UploadDataset("toy", {{"data", Bytes(kLong), 2.0}}).code(), absl::StatusCode::kAlreadyExists);
}

TEST_F(TransferTest, ADatasetsUploadGoesOnWhereAnotherRunStopped) {
  const Client first = *Connect(server_.channel(), {.client_id = "me", .retry_for = absl::ZeroDuration()});
  server_.set_faults({Fault::kNone, Fault::kNone, Fault::kCutBefore});
  EXPECT_EQ(first.UploadDataset("toy", {{"data", Bytes(kLong)}}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(server_.chunks(), 2);
  const Client second = *Connect(server_.channel(), {.client_id = "me"});
  ASSERT_TRUE(second.UploadDataset("toy", {{"data", Bytes(kLong)}}).ok());
  EXPECT_EQ(server_.chunks(), 3);
  EXPECT_EQ(server_.values()["data"], kLong);
}

TEST_F(TransferTest, ADatasetThatARestartTookIsDeclaredAgain) {
  server_.set_faults({Fault::kNone, Fault::kRestart});
  ASSERT_TRUE(client_.UploadDataset("toy", {{"data", Bytes(kLong)}}).ok());
  EXPECT_EQ(server_.values()["data"], kLong);
  ASSERT_EQ(client_.ListDatasets()->size(), 1u);
  EXPECT_TRUE(client_.ListDatasets()->at(0).committed);
}

}  // namespace
}  // namespace gluond::client
