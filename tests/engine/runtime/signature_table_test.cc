#include "engine/runtime/signature_table.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace gluond {
namespace {

std::vector<Tensor> Inputs(int64_t rows, DType type = DType::kFloat32) {
  const auto nothing = std::make_shared<Buffer>(nullptr, 0, Device(), nullptr);
  return {Tensor(nothing, 0, {rows}, type), Tensor(nothing, 0, {2, 2}, DType::kInt8)};
}

TEST(SignatureTableTest, TellsShapesAndTypesApart) {
  SignatureTable<int> table;
  EXPECT_EQ(table.Find(Inputs(1)), nullptr);
  EXPECT_EQ(table.Insert(Inputs(1), 1), 1);
  table.Insert(Inputs(2), 2);
  table.Insert(Inputs(1, DType::kInt32), 3);
  EXPECT_EQ(*table.Find(Inputs(1)), 1);
  EXPECT_EQ(*table.Find(Inputs(2)), 2);
  EXPECT_EQ(*table.Find(Inputs(1, DType::kInt32)), 3);
  EXPECT_EQ(table.Find(Inputs(3)), nullptr);
}

TEST(SignatureTableTest, TheLeastRecentlyUsedGoesFirst) {
  SignatureTable<int> table;
  for (int i = 0; i < static_cast<int>(table.kMost); ++i) table.Insert(Inputs(i), i);
  const int* const first = table.Find(Inputs(0));
  table.Insert(Inputs(1000), 1000);
  EXPECT_EQ(table.Find(Inputs(0)), first) << "it was used last";
  EXPECT_EQ(table.Find(Inputs(1)), nullptr);
  EXPECT_EQ(*table.Find(Inputs(2)), 2);
}

}  // namespace
}  // namespace gluond
