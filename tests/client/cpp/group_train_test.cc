// Train on a group of two real servers, of which too few are left for a while, and which ends by an error.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gluond/client.h"
#include "gluond/nn.h"
#include "gtest/gtest.h"
#include "tests/client/cpp/server_process.h"

namespace gluond::client {
namespace {

class GroupTrainTest : public testing::Test {
 protected:
  static constexpr int64_t kRows = 1000, kBatch = 10, kEpochs = 10, kSteps = kRows / kBatch * kEpochs;

  void SetUp() override {
    leader_.Start(Flags("--group=127.0.0.1:0", "--group_role=leader"));
    StartMember();
    client_.emplace(Client::Connect(leader_.address(), {.retry_for = absl::Minutes(1)}).value());
    model_.emplace(client_->DefineModel("net", nn::Dense({.units = 3}), {Input("data", {-1, 4})}, {.group = true}).value());
    ASSERT_TRUE(model_->Initialize(Named("Xavier")).ok());
    ASSERT_TRUE(model_->CreateTrainer({.loss = Named("SoftmaxCrossEntropyLoss")}).ok());
    std::vector<float> data(kRows * 4), label(kRows);
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<float>(i % 7);
    for (size_t i = 0; i < label.size(); ++i) label[i] = static_cast<float>(i % 3);
    ASSERT_TRUE(
        client_->UploadDataset("rows", {{"data", Tensor::Of({kRows, 4}, data)}, {"label", Tensor::Of({kRows}, label)}}).ok());
  }
  static std::vector<std::string> Flags(const std::string& group, const std::string& role) {
    return {group, role, "--group_size=2:2", "--group_timeout=2s", "--gloo_plugin=server/group/gloo/libgluond_gloo.so"};
  }
  void StartMember() { member_.Start(Flags("--group=" + leader_.address(), "--group_role=member")); }
  // Calls `change` after the first steps.
  absl::StatusOr<TrainProgress> Train(const std::function<void()>& change) {
    TrainRequest request;
    request.rows.dataset = "rows";
    request.batch_size = kBatch;
    request.epochs = kEpochs;
    request.progress_every = absl::Milliseconds(50);
    bool is_done = false, is_changed = false;
    return model_->Train(request, [&](const TrainProgress& progress) {
      EXPECT_FALSE(std::exchange(is_done, progress.done)) << "there is one last message";
      EXPECT_EQ(progress.total_steps, kSteps);
      EXPECT_EQ(!progress.status.ok(), progress.done && progress.stop != TrainProgress::Stop::kNotStopped);
      if (!std::exchange(is_changed, true)) change();
      return true;
    });
  }

  ServerProcess leader_, member_;
  std::optional<Client> client_;
  std::optional<Model> model_;
};

TEST_F(GroupTrainTest, ItGoesOnWhenEnoughProcessesAreThereAgain) {
  std::thread later;
  const auto last = Train([&] {
    later = std::thread([&] {
      member_.Kill();
      std::this_thread::sleep_for(std::chrono::seconds(3));
      StartMember();
    });
  });
  later.join();
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->stop, TrainProgress::Stop::kNotStopped) << last->error;
  EXPECT_EQ(last->steps, kSteps);
  EXPECT_EQ(last->samples, kRows * kEpochs);
  EXPECT_EQ(model_->GetTrainer().value().step, kSteps);
}

TEST_F(GroupTrainTest, AnErrorThatStaysEndsIt) {
  const Client other = Client::Connect(leader_.address()).value();
  const auto last = Train([&] { EXPECT_TRUE(other.GetModel("net").Delete().ok()); });
  ASSERT_TRUE(last.ok()) << last.status();
  EXPECT_EQ(last->stop, TrainProgress::Stop::kByError);
  EXPECT_LT(last->steps, kSteps);
  EXPECT_EQ(last->status.message(), last->error);
}

}  // namespace
}  // namespace gluond::client
