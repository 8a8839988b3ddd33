#include "engine/core/node_memory.h"

#include <cstdint>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gluond {
namespace {

constexpr int kNodes = 1000;

std::vector<NodePtr> Named() {
  std::vector<NodePtr> nodes;
  for (int i = 0; i < kNodes; ++i) {
    nodes.push_back(NewNode());
    nodes.back()->attrs.name = absl::StrCat("a name that is too long to be kept in place, ", i);
  }
  return nodes;
}

TEST(NodeMemoryTest, NodesLiveOnAfterTheirThreadAndTheirNeighbours) {
  std::vector<NodePtr> nodes;
  std::thread([&] { nodes = Named(); }).join();
  for (int i = 0; i < kNodes; ++i) {
    if (i % 7 != 0) nodes[i] = nullptr;
  }
  const std::vector<NodePtr> others = Named();
  for (int i = 0; i < kNodes; i += 7) EXPECT_TRUE(nodes[i]->name().ends_with(absl::StrCat(" ", i))) << nodes[i]->name();
  std::thread([&] { nodes.clear(); }).join();
  for (int i = 0; i < kNodes; ++i) EXPECT_TRUE(others[i]->name().ends_with(absl::StrCat(" ", i))) << others[i]->name();
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(GLUOND_THREAD_SANITIZER)  // Nodes have memory of their own there.
TEST(NodeMemoryTest, NodesThatAreMadeOneAfterTheOtherLieBesideEachOther) {
  std::vector<NodePtr> nodes;
  std::vector<std::string> between;
  int beside = 0;
  for (int i = 0; i < kNodes; ++i) {
    nodes.push_back(NewNode());
    between.emplace_back(300, 'x');
    if (i == 0) continue;
    const auto address = reinterpret_cast<intptr_t>(nodes[i].get()), before = reinterpret_cast<intptr_t>(nodes[i - 1].get());
    beside += std::abs(address - before) < 300 ? 1 : 0;
  }
  EXPECT_GT(beside, kNodes * 9 / 10);
}
#endif

}  // namespace
}  // namespace gluond
