#include "engine/core/tensor.h"

#include <cstdlib>

#include "gtest/gtest.h"

namespace gluond {
namespace {

class CountingAllocator final : public Allocator {
 public:
  Device device() const override { return {}; }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override {
    used += bytes;
    void* data = std::malloc(bytes);
    return std::make_shared<Buffer>(data, bytes, Device{}, [this, data, bytes] {
      std::free(data);
      used -= bytes;
    });
  }
  size_t used = 0;
};

TEST(Tensor, CopiesShareMemoryUntilTheLastOneGoes) {
  CountingAllocator allocator;
  {
    Tensor a = Tensor::Empty(allocator, {2, 3}, DType::kFloat32).value();
    EXPECT_EQ(allocator.used, 24u);
    Tensor b = a.Reshaped({6});
    a = Tensor();
    EXPECT_FALSE(a.defined());
    b.data<float>()[5] = 1;
    EXPECT_EQ(b.blob().dptr<float>()[5], 1);
    EXPECT_EQ(b.blob().shape, Shape({6}));
    EXPECT_EQ(b.bytes(), 24u);
    EXPECT_EQ(allocator.used, 24u);
  }
  EXPECT_EQ(allocator.used, 0u);
}

TEST(Tensor, LiesAtAnOffsetInItsBuffer) {
  CountingAllocator allocator;
  const auto buffer = allocator.Allocate(64).value();
  const Tensor tensor(buffer, 16, {4}, DType::kInt32);
  EXPECT_EQ(tensor.data(), static_cast<char*>(buffer->data()) + 16);
}

TEST(Tensor, OfNoElementsIsDefined) {
  CountingAllocator allocator;
  const Tensor tensor = Tensor::Empty(allocator, {3, 0}, DType::kFloat64).value();
  EXPECT_TRUE(tensor.defined());
  EXPECT_EQ(tensor.bytes(), 0u);
  EXPECT_EQ(tensor.Size(), 0);
}

TEST(Tensor, OfUnknownOrHugeShapeIsRefusedBeforeItIsAllocated) {
  CountingAllocator allocator;
  for (const Shape& shape : {Shape(), Shape({2, -1}), Shape({int64_t{1} << 40, int64_t{1} << 40})}) {
    EXPECT_EQ(Tensor::Empty(allocator, shape, DType::kFloat32).status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(allocator.used, 0u);
}

}  // namespace
}  // namespace gluond
