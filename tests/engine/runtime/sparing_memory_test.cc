// Memory that is kept only to be faster goes before anybody is refused.

#include "engine/runtime/sparing_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

#include "engine/runtime/executor_cache.h"
#include "tests/engine/runtime/test_ops.h"

namespace gluond {
namespace {

class SparingMemoryTest : public testing::Test {
 protected:
  static constexpr int64_t kLimit = 1 << 20, kHalf = kLimit / 2 + 4096;

  Tensor NewTensor(int64_t bytes) { return *Tensor::Empty(*memory_, Shape{bytes / 4}, DType::kFloat32); }
  absl::Status Half() { return Tensor::Empty(*memory_, Shape{kHalf / 4}, DType::kFloat32).status(); }
  // Whether a form of the tensor is kept now.
  bool HasForm(const Tensor& tensor) {
    bool made = false;
    const auto form =
        memory_->constants()->Find(tensor.data(), "form", kHalf, [&](void*) { return made = true, absl::OkStatus(); });
    EXPECT_EQ(form.status(), absl::OkStatus());
    return *form != nullptr && !made;
  }
  void KeepForm(const Tensor& tensor) {
    memory_->constants()->BeginRun();
    memory_->constants()->Add(tensor);
    EXPECT_FALSE(HasForm(tensor));
    memory_->constants()->BeginRun();
    HasForm(tensor);
    EXPECT_TRUE(HasForm(tensor));
  }

  Bench bench_;
  const std::shared_ptr<Budget> budget_ = std::make_shared<Budget>("b", kLimit, "--f");
  const std::shared_ptr<SparingMemory> memory_ = std::make_shared<SparingMemory>(*DeviceAllocator::Create(Device(), budget_));
};

TEST_F(SparingMemoryTest, FormsOfConstantsGo) {
  const Tensor weight = NewTensor(kLimit / 8 * 3);
  KeepForm(weight);
  EXPECT_EQ(Half(), absl::OkStatus());
  EXPECT_FALSE(HasForm(weight));
  memory_->constants()->BeginRun();
  const void* const data = weight.data();
  EXPECT_TRUE(memory_->constants()->KeepsValues({&data, 1})) << "the tensor itself stays";
}

TEST_F(SparingMemoryTest, NotWhileARunMayReadThem) {
  const Tensor weight = NewTensor(kLimit / 8 * 3);
  KeepForm(weight);
  memory_->constants()->Pin();
  EXPECT_TRUE(absl::IsResourceExhausted(Half()));
  EXPECT_TRUE(HasForm(weight));
  memory_->constants()->Unpin();
  EXPECT_EQ(Half(), absl::OkStatus());
}

TEST_F(SparingMemoryTest, IdleExecutorsGo) {
  ExecutorCache cache(bench_.lane(), *memory_);
  memory_->Spare(&cache);
  const NodeEntry x = MakeVariable("x");
  const auto graph = std::make_shared<const Graph>(Graph{{MakeNode("t_square", "y", {MakeNode("t_square", "z", {x})})}});
  std::promise<void> done;
  cache.Checkout(bench_.KeyOf(graph, kHalf / 4), [&](absl::StatusOr<ExecutorLease> lease) {
    EXPECT_EQ(lease.status(), absl::OkStatus());
    lease = ExecutorLease();
    done.set_value();
  });
  done.get_future().get();
  bench_.Drain();
  ASSERT_EQ(cache.num_idle(), 1u);
  ASSERT_GT(budget_->used(), kHalf - 8192);
  EXPECT_EQ(Half(), absl::OkStatus());
  EXPECT_EQ(cache.num_idle(), 0u);
  memory_->Spare(nullptr);
  EXPECT_TRUE(absl::IsResourceExhausted(Tensor::Empty(*memory_, Shape{kLimit}, DType::kFloat32).status()));
}

}  // namespace
}  // namespace gluond
