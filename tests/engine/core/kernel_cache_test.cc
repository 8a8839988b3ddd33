#include "engine/core/kernel_cache.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace gluond {
namespace {

struct Code {
  int number = 0;
  size_t kept_bytes() const { return 100; }
};
struct OtherCode : Code {};

// Pays for `limit` bytes.
class Purse final : public Allocator {
 public:
  explicit Purse(size_t limit) : limit_(limit) {}
  Device device() const override { return {}; }
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t) override { return absl::UnimplementedError("a purse has no memory"); }
  absl::StatusOr<std::shared_ptr<Buffer>> Charge(size_t bytes) override {
    if (used + bytes > limit_) return absl::ResourceExhaustedError("the purse is empty");
    used += bytes;
    return std::make_shared<Buffer>(nullptr, 0, Device(), [this, bytes] { used -= bytes; });
  }
  size_t used = 0;

 private:
  const size_t limit_;
};

class KernelCacheTest : public testing::Test {
 protected:
  template <class Value = Code, class Key = std::string>
  std::shared_ptr<Value> Get(KernelCache* cache, const Key& key) {
    return Prepared<Value>(cache, key,
                           [&]() -> absl::StatusOr<std::unique_ptr<Value>> {
                             auto value = std::make_unique<Value>();
                             value->number = made_++;
                             return value;
                           })
        .value();
  }
  int made_ = 0;
};

TEST_F(KernelCacheTest, AValueIsMadeOnceForItsKeyAndType) {
  KernelCache cache(8);
  const std::shared_ptr<Code> first = Get(&cache, std::string("a"));
  EXPECT_EQ(Get(&cache, std::string("a")), first);
  EXPECT_NE(Get(&cache, std::string("b")), first);
  EXPECT_EQ(Get<OtherCode>(&cache, std::string("a"))->number, 2);
  EXPECT_EQ((Get<Code, int>(&cache, 7))->number, 3);
  EXPECT_EQ(Get(&cache, std::string("a")), first);
  EXPECT_EQ(made_, 4);
  EXPECT_EQ(cache.size(), 4u);
}

TEST_F(KernelCacheTest, TheLeastRecentlyUsedGoesFirstAndItsUserKeepsIt) {
  KernelCache cache(2);
  const std::shared_ptr<Code> a = Get(&cache, std::string("a")), b = Get(&cache, std::string("b"));
  EXPECT_EQ(Get(&cache, std::string("a")), a);
  Get(&cache, std::string("c"));
  EXPECT_EQ(cache.size(), 2u);
  EXPECT_EQ(Get(&cache, std::string("a")), a);
  EXPECT_EQ(b->number, 1);
  EXPECT_EQ(Get(&cache, std::string("b"))->number, 3);
}

TEST_F(KernelCacheTest, TheOwnerPaysUntilTheValueGoes) {
  Purse purse(250);
  {
    KernelCache cache(2, &purse);
    Get(&cache, std::string("a"));
    Get(&cache, std::string("b"));
    EXPECT_EQ(purse.used, 200u);
    const std::weak_ptr<Code> refused = Get(&cache, std::string("c"));  // Only 50 are left.
    EXPECT_TRUE(refused.expired()) << "nobody pays for it: it serves one call";
    EXPECT_EQ(purse.used, 200u);
    EXPECT_EQ(Get(&cache, std::string("c"))->number, 3) << "the next call makes its own";
    for (int i = 0; i < 1000; ++i) Get(&cache, i);
    EXPECT_EQ(cache.size(), 2u);
    EXPECT_EQ(Get(&cache, std::string("a"))->number, 0) << "what is paid stays";
    EXPECT_EQ(Get(&cache, std::string("b"))->number, 1);
  }
  EXPECT_EQ(purse.used, 0u);
}

TEST_F(KernelCacheTest, WithoutACacheEachCallMakesItsOwn) {
  EXPECT_EQ(Get(nullptr, std::string("a"))->number, 0);
  EXPECT_EQ(Get(nullptr, std::string("a"))->number, 1);
}

TEST_F(KernelCacheTest, AnErrorIsTheMakersAndNothingIsKept) {
  KernelCache cache(2);
  const auto failed =
      cache.Get<Code>(std::string("a"), []() -> absl::StatusOr<std::unique_ptr<Code>> { return absl::InternalError("no code"); });
  EXPECT_EQ(failed.status().message(), "no code");
  EXPECT_EQ(cache.size(), 0u);
}

}  // namespace
}  // namespace gluond
