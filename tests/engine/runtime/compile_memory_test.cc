// Compiling is charged for what it takes: no graph makes the heap grow by more than the budget has paid for. Every call of malloc
// and its kin in this program passes through the counters below.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/passes/gradient.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/lane.h"

namespace {

std::atomic<int64_t> heap = 0, most = 0;

[[maybe_unused]] void* Taken(void* p) {
  if (p == nullptr) return p;
  const int64_t now = heap += static_cast<int64_t>(malloc_usable_size(p));
  int64_t known = most;
  while (known < now && !most.compare_exchange_weak(known, now)) {
  }
  return p;
}
[[maybe_unused]] void* Left(void* p) {
  if (p != nullptr) heap -= static_cast<int64_t>(malloc_usable_size(p));
  return p;
}

}  // namespace

// glibc's own names for what is replaced here; operator new calls malloc.
extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
void __libc_free(void*);

#if !defined(__SANITIZE_ADDRESS__) && !defined(GLUOND_THREAD_SANITIZER)
void* malloc(size_t n) { return Taken(__libc_malloc(n)); }
void* calloc(size_t n, size_t size) { return Taken(__libc_calloc(n, size)); }
void* realloc(void* p, size_t n) { return Taken(__libc_realloc(Left(p), n)); }
void* aligned_alloc(size_t alignment, size_t n) { return Taken(__libc_memalign(alignment, n)); }
void* memalign(size_t alignment, size_t n) { return Taken(__libc_memalign(alignment, n)); }
int posix_memalign(void** p, size_t alignment, size_t n) {
  *p = Taken(__libc_memalign(alignment, n));
  return *p == nullptr ? ENOMEM : 0;
}
void free(void* p) { __libc_free(Left(p)); }
#endif
}

namespace gluond {
namespace {

constexpr int kNodes = 16500;  // Vectors that double have the most to spare behind a power of two.

struct Form {
  const char* name;
  NodeEntry (*make)(const NodeEntry& x);
};

NodeEntry Chain(const NodeEntry& x) {
  NodeEntry y = x;
  for (int i = 0; i < kNodes; ++i) y = MakeNode("tanh", absl::StrCat("n", i), {y});
  return y;
}
// Each sum reads the 64 before it.
NodeEntry Readers(const NodeEntry& x) {
  std::vector<NodeEntry> all = {x};
  for (int i = 0; i < kNodes / 16; ++i) {
    std::vector<NodeEntry> terms(all.end() - std::min<ptrdiff_t>(64, all.end() - all.begin()), all.end());
    const std::string count = absl::StrCat(terms.size());
    all.push_back(MakeNode("add_n", absl::StrCat("n", i), std::move(terms), {{"num_args", count}}));
  }
  return all.back();
}
// The values of a chain are read from the first to the last: they die late.
NodeEntry Ladder(const NodeEntry& x) {
  std::vector<NodeEntry> steps = {x};
  for (int i = 0; i < kNodes / 2; ++i) steps.push_back(MakeNode("tanh", absl::StrCat("n", i), {steps.back()}));
  NodeEntry y = steps.back();
  for (const NodeEntry& step : steps) y = y + step;
  return y;
}
NodeEntry Layers(const NodeEntry& x) {
  NodeEntry y = x;
  for (int i = 0; i < kNodes / 4; ++i) {
    const std::string name = absl::StrCat("layer", i);
    const NodeEntry weight = MakeVariable(name + "_weight"), bias = MakeVariable(name + "_bias");
    y = MakeNode("FullyConnected", name, {y, weight, bias}, {{"num_hidden", "4"}});
    y = MakeNode("Activation", name, {y}, {{"act_type", "relu"}});
  }
  return y;
}
// A prediction folds each normalization into the layer before it: passes make most of its nodes.
NodeEntry Normalized(const NodeEntry& x) {
  NodeEntry y = x;
  for (int i = 0; i < kNodes / 16; ++i) {
    const std::string name = absl::StrCat("layer", i);
    const auto own = [&](const char* what) { return MakeVariable(absl::StrCat(name, what)); };
    y = MakeNode("FullyConnected", name, {y, own("_weight"), own("_bias")}, {{"num_hidden", "4"}});
    y = MakeNode("BatchNorm", name, {y, own("_gamma"), own("_beta"), own("_mean"), own("_var")});
  }
  return y;
}
NodeEntry ManyOutputs(const NodeEntry& x) {
  NodeEntry y = x;
  for (int i = 0; i < kNodes / 64; ++i) {
    const NodeEntry parts = MakeNode("split", absl::StrCat("n", i), {y}, {{"num_outputs", "4"}});
    y = MakeNode("concat", absl::StrCat("m", i), {parts, {parts.node, 1}, {parts.node, 2}, {parts.node, 3}}, {{"num_args", "4"}});
  }
  return y;
}

class CompileMemoryTest : public testing::TestWithParam<Form> {
 protected:
#if defined(__SANITIZE_ADDRESS__) || defined(GLUOND_THREAD_SANITIZER)
  void SetUp() override { GTEST_SKIP() << "the sanitizer has its own malloc"; }
#endif

  void Compile(const Graph& graph, bool is_train, std::shared_ptr<const absl::flat_hash_set<std::string>> constants) {
    const auto budget = std::make_shared<Budget>("the test", int64_t{1} << 33, "--none");
    const std::unique_ptr<DeviceAllocator> allocator = *DeviceAllocator::Create(Device(), budget);
    const std::shared_ptr<Lane> lane = *Lane::Create(Device(), {.threads = 1}, *allocator);
    const Signatures known = {{"x", {{64, 4}, DType::kFloat32}}};
    const ExecutorOptions options = {.is_train = is_train, .constants = std::move(constants)};
    const int64_t heap_before = most = heap.load(), before = budget->used();
    auto executor = Executor::Compile(graph, known, options, *lane, *allocator);
    ASSERT_TRUE(executor.ok()) << executor.status();
    const int64_t took = most - heap_before, keeps = heap - heap_before;
    // The arena is of other memory than malloc's.
    const int64_t arena = before + (*executor)->arena_bytes(), paid = budget->peak() - arena, stays = budget->used() - arena;
    EXPECT_LE(took, paid);
    EXPECT_LE(paid, 3 * took) << "what is charged is about what is taken";
    EXPECT_LE(keeps, stays + stays / 16);
    EXPECT_LE(stays, keeps + keeps / 4);
    *executor = nullptr;
    EXPECT_EQ(budget->used(), before);
  }
};

TEST_P(CompileMemoryTest, IsPaid) {
  std::vector<NodeEntry> variables;
  const auto constants = std::make_shared<absl::flat_hash_set<std::string>>();
  Graph graph{{GetParam().make(MakeVariable("x"))}};
  PostOrderVisit(graph.outputs, [&](const NodePtr& node) {
    if (!node->is_variable()) return;
    variables.push_back({node, 0});
    if (node->name() != "x") constants->insert(node->name());
  });
  Compile(graph, false, constants);
  const auto gradients = BuildGradient(graph.outputs, variables, {NodeEntry()});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  for (const NodeEntry& gradient : *gradients) {
    if (gradient) graph.outputs.push_back(gradient);
  }
  Compile(graph, true, nullptr);
}

TEST_P(CompileMemoryTest, OfManyOutputsIsPaid) {
  Graph graph;
  PostOrderVisit(std::vector<NodeEntry>{GetParam().make(MakeVariable("x"))}, [&](const NodePtr& node) {
    for (uint32_t i = 0; i < node->num_outputs(); ++i) graph.outputs.push_back({node, i});
  });
  Compile(graph, true, nullptr);
}

INSTANTIATE_TEST_SUITE_P(Forms, CompileMemoryTest,
                         testing::ValuesIn(std::vector<Form>{{"Chain", Chain},
                                                             {"Readers", Readers},
                                                             {"Ladder", Ladder},
                                                             {"Layers", Layers},
                                                             {"Normalized", Normalized},
                                                             {"ManyOutputs", ManyOutputs}}),
                         [](const auto& form) { return std::string(form.param.name); });

}  // namespace
}  // namespace gluond
