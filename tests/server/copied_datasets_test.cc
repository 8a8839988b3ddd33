// Datasets of a group's leader, and a member's copies of them: both sides, with messages that go from one to the other.

#include "server/group/copied_datasets.h"

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "gtest/gtest.h"
#include "server/group/shared_datasets.h"
#include "server/wire/wire_message.h"

namespace gluond::server {
namespace {

constexpr int64_t kMember = 3;
constexpr int64_t kWholeMemory = int64_t{1} << 30;

class CopiedDatasetsTest : public testing::Test {
 protected:
  void SetUp() override { NewMember(kWholeMemory); }

  // A member with so much memory, and no copies.
  void NewMember(int64_t memory) {
    copied_ = nullptr;
    memory_ = std::make_shared<Budget>("member", memory, "--flag");
    host_ = DeviceAllocator::Create({DeviceType::kCpu, 0}, memory_).value();
    copied_ = std::make_unique<CopiedDatasets>(*host_, [this](const v1::JoinRequest& message) { said_.push_back(message); });
  }

  // Two columns: `data` with rows of so many floats, and `label`. Values depend on `first`.
  std::shared_ptr<const Dataset> Make(int64_t rows, int64_t width, float first = 0) {
    auto dataset = Dataset::Create({{"data", {width}, DType::kFloat32, 0.5, 1}, {"label", Shape::Scalar(), DType::kInt32}}, rows,
                                   *leaders_host_)
                       .value();
    std::vector<float> data(static_cast<size_t>(rows * width));
    std::iota(data.begin(), data.end(), first);
    std::vector<int32_t> label(static_cast<size_t>(rows));
    std::iota(label.begin(), label.end(), 7);
    EXPECT_EQ(dataset->Append("data", {reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float)}), absl::OkStatus());
    EXPECT_EQ(dataset->Append("label", {reinterpret_cast<const char*>(label.data()), label.size() * sizeof(int32_t)}),
              absl::OkStatus());
    EXPECT_EQ(dataset->Commit(), absl::OkStatus());
    return dataset;
  }

  // Delivers messages until there are none. The checksums come from another thread.
  void Deliver() {
    while (true) {
      Idle();
      if (!said_.empty()) {
        const v1::JoinRequest message = std::move(said_.front());
        said_.pop_front();
        if (message.has_fetch()) OnLoop([&] { shared_.Heard(kMember, message.fetch()); });
        if (message.has_copied()) OnLoop([&] { shared_.Heard(kMember, message.copied()); });
      } else if (!sent_.empty()) {
        v1::JoinResponse message = std::move(sent_.front());
        sent_.pop_front();
        if (damages_ && message.has_dataset_part()) Damage(&message);
        parts_ += message.has_dataset_part();
        if (message.has_dataset()) copied_->Heard(message.dataset());
        if (message.has_dataset_part()) copied_->Heard(std::move(*message.mutable_dataset_part()));
      } else {
        return;
      }
    }
  }

  static void Damage(v1::JoinResponse* message) { (*message->mutable_dataset_part()->mutable_chunk()->mutable_data())[0] ^= 1; }

  void OnLoop(const std::function<void()>& work) {
    std::promise<void> done;
    loop_->Post([&] {
      work();
      done.set_value();
    });
    done.get_future().get();
  }
  // Dispatched work has been posted, and done.
  void Idle() {
    std::promise<void> done;
    dispatch_.Run(Weight::kHeavy, [&done] { done.set_value(); });
    done.get_future().get();
    OnLoop([] {});
  }

  void Join() {
    copied_->Joined();
    OnLoop([this] { shared_.Joined(kMember); });
  }
  void Use(const std::shared_ptr<const Dataset>& dataset) {
    OnLoop([&] { shared_.Use(dataset); });
  }
  std::optional<uint64_t> NumberOf(const std::shared_ptr<const Dataset>& dataset) {
    std::optional<uint64_t> number;
    OnLoop([&] { number = shared_.NumberOf(kMember, dataset); });
    return number;
  }
  // The member has a copy with the same values, and the leader knows.
  void ExpectCopy(const std::shared_ptr<const Dataset>& dataset) {
    const std::optional<uint64_t> number = NumberOf(dataset);
    ASSERT_TRUE(number.has_value());
    const auto copy = copied_->Find(*number);
    ASSERT_TRUE(copy.ok()) << copy.status();
    ASSERT_TRUE((*copy)->committed());
    ASSERT_EQ((*copy)->columns().size(), dataset->columns().size());
    for (size_t i = 0; i < dataset->columns().size(); ++i) {
      const Column &is = (*copy)->columns()[i], &was = dataset->columns()[i];
      EXPECT_EQ(is.name, was.name);
      EXPECT_EQ(is.scale, was.scale);
      EXPECT_EQ(is.shift, was.shift);
      ASSERT_EQ((*copy)->tensor(i).bytes(), dataset->tensor(i).bytes());
      EXPECT_EQ(std::memcmp((*copy)->tensor(i).data(), dataset->tensor(i).data(), dataset->tensor(i).bytes()), 0) << was.name;
    }
  }

  std::shared_ptr<Budget> memory_;
  std::shared_ptr<Allocator> host_;
  const std::shared_ptr<Allocator> leaders_host_ =
      DeviceAllocator::Create({DeviceType::kCpu, 0}, std::make_shared<Budget>("leader", kWholeMemory, "--flag")).value();
  std::deque<v1::JoinRequest> said_;
  std::deque<v1::JoinResponse> sent_;
  bool damages_ = false;
  int parts_ = 0;
  Dispatch dispatch_;
  const std::shared_ptr<GroupLoop> loop_ = [] {
    auto loop = std::make_shared<GroupLoop>();
    loop->Start(std::chrono::seconds(1), [] {});
    return loop;
  }();
  SharedDatasets shared_{dispatch_, loop_, [this](int64_t, const v1::JoinResponse& message, const Attachments& attachments) {
                           v1::JoinResponse read;
                           Slices slices = SerializeMessage(message, attachments);
                           std::string bytes;
                           for (const grpc::Slice& slice : slices) bytes.append(slice.begin(), slice.end());
                           ASSERT_TRUE(read.ParseFromString(bytes));
                           sent_.push_back(std::move(read));
                         }};
  std::unique_ptr<CopiedDatasets> copied_;
};

TEST_F(CopiedDatasetsTest, CopiesInPartsWhatStepsDrawFrom) {
  const auto small = Make(5, 3), large = Make(1000, 1000);  // 4 MB: four parts, and one of labels.
  Use(small);
  Join();
  Use(large);
  EXPECT_FALSE(NumberOf(large).has_value());
  Deliver();
  ExpectCopy(small);
  ExpectCopy(large);
  EXPECT_EQ(parts_, 2 + 5);
  OnLoop([&] { EXPECT_EQ(shared_.BytesOf(kMember), small->bytes() + large->bytes()); });
  Use(large);
  Deliver();
  EXPECT_EQ(parts_, 2 + 5) << "a dataset is copied once";
}

TEST_F(CopiedDatasetsTest, KeepsACopyForTheNextJoin) {
  const auto dataset = Make(5, 3), other = Make(5, 3, /*first=*/1);
  Use(dataset);
  Join();
  Deliver();
  OnLoop([this] { shared_.Lost(kMember); });
  EXPECT_FALSE(NumberOf(dataset).has_value());
  parts_ = 0;
  Join();
  Deliver();
  ExpectCopy(dataset);
  EXPECT_EQ(parts_, 0);
  Use(other);
  Deliver();
  ExpectCopy(other);  // Equal columns with other values are another dataset.
  EXPECT_EQ(parts_, 2);
}

TEST_F(CopiedDatasetsTest, LeavesOutWhatIsDamagedOnTheWay) {
  const auto dataset = Make(5, 3);
  damages_ = true;
  Use(dataset);
  Join();
  Deliver();
  EXPECT_FALSE(NumberOf(dataset).has_value());
  damages_ = false;
  const auto other = Make(6, 3);
  Use(other);
  Deliver();
  ExpectCopy(other);
  EXPECT_FALSE(NumberOf(dataset).has_value());
}

TEST_F(CopiedDatasetsTest, LeavesOutWhatHasNoRoom) {
  NewMember(/*memory=*/3 << 20);
  const auto large = Make(1000, 1000), small = Make(5, 3);
  Use(large);
  Use(small);
  Join();
  Deliver();
  EXPECT_FALSE(NumberOf(large).has_value());
  ExpectCopy(small);
}

TEST_F(CopiedDatasetsTest, AnEarlierLeadersDatasetsMakeRoom) {
  NewMember(/*memory=*/5 << 20);
  auto old = Make(1000, 1000);
  Use(old);
  Join();
  Deliver();
  ExpectCopy(old);
  OnLoop([this] { shared_.Lost(kMember); });
  copied_->Joined();
  old = nullptr;
  OnLoop([this] {
    shared_.Tick();
    shared_.Joined(kMember);
  });
  const auto next = Make(1000, 1000, /*first=*/1);
  Use(next);
  Deliver();
  ExpectCopy(next);
}

TEST_F(CopiedDatasetsTest, ForgetsWhatTheLeaderHasNoMore) {
  auto dataset = Make(1000, 1000);
  Use(dataset);
  Join();
  Deliver();
  const std::optional<uint64_t> number = NumberOf(dataset);
  ASSERT_TRUE(number.has_value());
  dataset = nullptr;
  OnLoop([this] { shared_.Tick(); });
  Deliver();
  EXPECT_EQ(copied_->Find(*number).status().code(), absl::StatusCode::kNotFound);
  EXPECT_LT(memory_->used(), 1 << 20);
  OnLoop([&] { EXPECT_EQ(shared_.BytesOf(kMember), 0); });
}

TEST_F(CopiedDatasetsTest, ADatasetMayGoWhileItIsCopied) {
  auto gone = Make(1000, 1000);
  const auto stays = Make(5, 3);
  Use(gone);
  Use(stays);
  Join();
  Idle();
  ASSERT_EQ(sent_.size(), 2u);  // Both are offered, and nothing is copied yet.
  copied_->Heard(sent_.front().dataset());
  sent_.pop_front();
  gone = nullptr;
  OnLoop([this] { shared_.Tick(); });
  Deliver();
  ExpectCopy(stays);
  EXPECT_LT(memory_->used(), 1 << 20);
}

TEST_F(CopiedDatasetsTest, GivesUpItsCopiesForModels) {
  const auto dataset = Make(1000, 1000), later = Make(5, 3);
  Use(dataset);
  Join();
  Deliver();
  ExpectCopy(dataset);
  copied_->GiveUp();
  EXPECT_LT(memory_->used(), 1 << 20);
  Use(later);
  Deliver();
  EXPECT_FALSE(NumberOf(dataset).has_value());
  EXPECT_FALSE(NumberOf(later).has_value());
}

TEST_F(CopiedDatasetsTest, HearsNoNonsense) {
  const auto dataset = Make(5, 3);
  Use(dataset);
  v1::JoinRequest::Fetch fetch;
  fetch.set_dataset(1);
  OnLoop([&] { shared_.Heard(/*member=*/9, fetch); });  // A member that has not joined.
  Join();
  Deliver();
  v1::JoinRequest::Copied copied;
  copied.set_dataset(77);
  copied.set_has_copy(true);
  for (int i = 0; i < 100; ++i) {
    fetch.set_dataset(i % 3);
    OnLoop([&] {
      shared_.Heard(kMember, fetch);
      shared_.Heard(kMember, copied);
    });
  }
  EXPECT_TRUE(sent_.empty()) << "all was sent before";
  v1::JoinResponse::DatasetPart part;
  part.set_dataset(1);
  part.set_column(5);
  copied_->Heard(part);
  ExpectCopy(dataset);
}

}  // namespace
}  // namespace gluond::server
