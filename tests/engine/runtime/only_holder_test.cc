// Run it with --config=tsan: what is held here is an order of memory accesses, which no value shows.

#include "engine/runtime/only_holder.h"

#include <thread>

#include "gtest/gtest.h"

namespace gluond {
namespace {

TEST(OnlyHolder, CountsReferences) {
  auto object = std::make_shared<int>(1);
  EXPECT_TRUE(IsOnlyHolder(object));
  const auto other = object;
  EXPECT_FALSE(IsOnlyHolder(object));
}

TEST(OnlyHolder, SeesWhatAFormerHolderWrote) {
  for (int i = 0; i < 100; ++i) {
    auto object = std::make_shared<int>(0);
    std::thread holder([held = object]() mutable {
      *held = 1;
      held.reset();
    });
    while (!IsOnlyHolder(object)) std::this_thread::yield();
    *object += 1;
    EXPECT_EQ(*object, 2);
    holder.join();
  }
}

}  // namespace
}  // namespace gluond
