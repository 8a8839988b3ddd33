#include "engine/runtime/constant_tensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <memory>
#include <vector>

#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"

namespace gluond {
namespace {

class ConstantTensorsTest : public testing::Test {
 protected:
  static constexpr int64_t kBytes = 1024;

  // The tensor's form, which takes so many bytes. Null: there is none.
  const void* Find(const Tensor& tensor, const char* form, size_t bytes = kBytes) {
    const absl::StatusOr<const void*> found = constants_->Find(tensor.data(), form, bytes, [&](void* to) {
      ++made_;
      std::memset(to, made_, bytes);
      return status_;
    });
    return found.ok() ? *found : nullptr;
  }
  Tensor NewTensor() { return *Tensor::Empty(*allocator_, Shape{kBytes / 4}, DType::kFloat32); }

  const std::shared_ptr<Budget> budget_ = std::make_shared<Budget>("b", std::numeric_limits<int64_t>::max(), "--f");
  const std::shared_ptr<Allocator> allocator_ = *DeviceAllocator::Create(Device(), budget_);
  const Tensor weight_ = NewTensor(), other_ = NewTensor();
  std::unique_ptr<ConstantTensors> constants_ = std::make_unique<ConstantTensors>(std::vector<Tensor>{weight_}, allocator_);
  int made_ = 0;
  absl::Status status_;
};

TEST_F(ConstantTensorsTest, AFormIsMadeOnceAndCharged) {
  const int64_t before = budget_->used();
  const void* const form = Find(weight_, "blocked");
  ASSERT_NE(form, nullptr);
  EXPECT_EQ(Find(weight_, "blocked"), form);
  EXPECT_EQ(made_, 1);
  EXPECT_EQ(static_cast<const char*>(form)[kBytes - 1], 1);
  EXPECT_EQ(budget_->used(), before + kBytes);
  constants_.reset();
  EXPECT_EQ(budget_->used(), before);
}

TEST_F(ConstantTensorsTest, ATensorThatMayChangeHasFormsFromTheSecondRunOn) {
  constants_ = std::make_unique<ConstantTensors>(allocator_);
  constants_->BeginRun();
  constants_->Add(weight_);
  EXPECT_EQ(Find(weight_, "blocked"), nullptr);
  constants_->BeginRun();
  EXPECT_NE(Find(weight_, "blocked"), nullptr);
  constants_->Forget(weight_);
  EXPECT_EQ(Find(weight_, "blocked"), nullptr);
  constants_->Add(weight_);
  EXPECT_EQ(Find(weight_, "blocked"), nullptr) << "it is new in this run";
}

TEST_F(ConstantTensorsTest, ATensorThatNobodyElseHoldsGoes) {
  constants_ = std::make_unique<ConstantTensors>(allocator_);
  const int64_t before = budget_->used();
  {
    const Tensor tensor = NewTensor();
    constants_->Add(tensor);
    constants_->DropDead();
  }
  EXPECT_EQ(budget_->used(), before + kBytes);
  constants_->BeginRun();
  EXPECT_EQ(budget_->used(), before);
}

TEST_F(ConstantTensorsTest, ARunKnowsItsOwnConstantsAlone) {
  int made = 0;
  const auto find = [&](RunConstants& run, const Tensor& tensor) {
    return *run.Find(tensor.data(), "blocked", kBytes, [&](void*) { return ++made, absl::OkStatus(); });
  };
  RunConstants own, others, none;
  own.Begin(constants_.get());
  own.Add(weight_.data());
  own.Sort();
  others.Begin(constants_.get());
  others.Add(other_.data());
  others.Sort();
  none.Begin(nullptr);
  none.Add(weight_.data());
  EXPECT_TRUE(own.Contains(weight_.data()));
  EXPECT_FALSE(own.empty());
  EXPECT_NE(find(own, weight_), nullptr);
  EXPECT_FALSE(others.Contains(weight_.data())) << "it is data there";
  EXPECT_EQ(find(others, weight_), nullptr);
  EXPECT_TRUE(none.empty());
  own.Begin(constants_.get());
  EXPECT_TRUE(own.empty());
  EXPECT_EQ(made, 1);
}

TEST_F(ConstantTensorsTest, ValuesOfNoTensorAreNotKept) {
  EXPECT_FALSE(constants_->OfferValues("arange", {}, {other_})) << "nothing would end them";
  const void* const from = weight_.data();
  EXPECT_TRUE(constants_->OfferValues("twice", {&from, 1}, {other_}));
  ASSERT_NE(constants_->FindValues("twice", {&from, 1}), nullptr);
  EXPECT_EQ(constants_->FindValues("thrice", {&from, 1}), nullptr);
  constants_->Forget(weight_);
  EXPECT_EQ(constants_->FindValues("twice", {&from, 1}), nullptr);
}

TEST_F(ConstantTensorsTest, OtherTensorsAreNone) {
  EXPECT_EQ(Find(other_, "blocked"), nullptr);
  EXPECT_EQ(made_, 0);
}

TEST_F(ConstantTensorsTest, FormsTakeTwiceTheTensorsAtMost) {
  EXPECT_NE(Find(weight_, "a"), nullptr);
  EXPECT_NE(Find(weight_, "b"), nullptr);
  EXPECT_EQ(Find(weight_, "c"), nullptr);
  EXPECT_EQ(Find(weight_, "c", 0), nullptr) << "what was refused is not tried again at once";
  EXPECT_EQ(made_, 2);
}

TEST_F(ConstantTensorsTest, AFormForWhichThereWasNoMemoryIsMadeLater) {
  const int64_t left = budget_->limit() - budget_->used();
  ASSERT_EQ(budget_->Charge(left), absl::OkStatus());
  EXPECT_EQ(Find(weight_, "a"), nullptr);
  budget_->Refund(left);
  for (int i = 0; i < UsesWithout::kMost; ++i) ASSERT_EQ(Find(weight_, "a"), nullptr) << "a try for each use would cost too much";
  EXPECT_EQ(made_, 0);
  const void* const form = Find(weight_, "a");
  EXPECT_NE(form, nullptr);
  EXPECT_EQ(Find(weight_, "a"), form);
  EXPECT_EQ(made_, 1);
}

TEST_F(ConstantTensorsTest, AFormThatCouldNotBeMadeIsTriedAgain) {
  const int64_t before = budget_->used();
  status_ = absl::InternalError("no");
  EXPECT_EQ(Find(weight_, "a"), nullptr);
  EXPECT_EQ(budget_->used(), before);
  status_ = absl::OkStatus();
  EXPECT_NE(Find(weight_, "a"), nullptr);
  EXPECT_EQ(made_, 2);
}

}  // namespace
}  // namespace gluond
