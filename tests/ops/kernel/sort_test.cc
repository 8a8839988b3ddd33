// The merge sort that a GPU runs, on a CPU, against std::stable_sort.

#include "ops/kernel/sort.h"

#include <numeric>

#include "tests/ops/kernel/kernel_context.h"

namespace gluond::ops {
namespace {

std::vector<int64_t> Merged(int64_t n, bool ascending, const std::vector<double>& keys) {
  KernelContext context;
  std::vector<int64_t> order(keys.size()), merged(keys.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i) % n;
  for (int64_t width = 1; width < n; width *= 2) {
    const MergePass<double> pass{n, width, keys.data(), order.data(), merged.data(), {ascending}};
    EXPECT_TRUE(ForEach<cpu>(context.ctx, static_cast<int64_t>(keys.size()), pass).ok());
    order.swap(merged);
  }
  return order;
}

std::vector<int64_t> Stable(int64_t n, bool ascending, const std::vector<double>& keys) {
  std::vector<int64_t> order(keys.size());
  for (size_t row = 0; row < keys.size(); row += n) {
    const auto first = order.begin() + row;
    std::iota(first, first + n, 0);
    std::stable_sort(first, first + n, [&](int64_t a, int64_t b) {
      return ascending ? keys[row + a] < keys[row + b] : keys[row + a] > keys[row + b];
    });
  }
  return order;
}

TEST(Sort, MergePassesSortEveryLengthStably) {
  for (int64_t n : {1, 2, 3, 5, 8, 31, 64, 100, 129}) {
    for (bool ascending : {true, false}) {
      const std::vector<double> keys = Numbers(3 * n, static_cast<uint32_t>(n));  // 65 values: some are equal.
      EXPECT_EQ(Merged(n, ascending, keys), Stable(n, ascending, keys)) << n << (ascending ? " up" : " down");
    }
  }
}

TEST(Sort, TheKernelOrdersAsTheMergeDoes) {
  const RowGeometry rows = {2, 100, 3};
  for (DType type : {DType::kFloat32, DType::kFloat16, DType::kInt32}) {
    std::vector<double> numbers = Numbers(600, 1);
    if (type == DType::kInt32)
      for (double& x : numbers) x *= 16;
    Values x(type, numbers);
    KernelContext context;
    const auto order = SortedOrder<cpu>(context.ctx, rows, true, 100, x.blob({2, 100, 3}));
    ASSERT_TRUE(order.ok());
    std::vector<double> keys;
    for (int64_t row = 0; row < 6; ++row) {
      for (int64_t i = 0; i < 100; ++i) keys.push_back(x[rows.begin(row) + i * 3]);
    }
    EXPECT_EQ(std::vector<int64_t>(*order, *order + 600), Merged(100, true, keys)) << Name(type);
  }
}

}  // namespace
}  // namespace gluond::ops
