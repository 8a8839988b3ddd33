#include "engine/runtime/random_stream.h"

#include <set>
#include <string>
#include <utility>

#include "gtest/gtest.h"

namespace gluond {
namespace {

using Stream = std::pair<uint32_t, uint32_t>;

Stream Of(RandomDomain domain, uint64_t which) {
  const Philox random = RandomStream(7, domain, which);
  EXPECT_EQ(random.seed, 7u);
  return {random.stream, random.run};
}

TEST(RandomStream, ANodeDrawsByItsNumberAndTheRuns) { EXPECT_EQ(Of(RandomDomain::kNode, uint64_t{5} << 32 | 9), Stream(5, 9)); }

// Everybody's streams of one seed. Hashes of 32 bits would give some of the names each other's, and some a node's.
TEST(RandomStream, NobodyHasAnothers) {
  std::set<Stream> streams;
  size_t drawn = 0;
  const auto draw = [&](RandomDomain domain, uint64_t which) {
    streams.insert(Of(domain, which));
    ++drawn;
  };
  for (uint64_t node = 0; node < 300; ++node) {
    for (uint64_t run = 0; run < 300; ++run) draw(RandomDomain::kNode, node << 32 | run);
  }
  for (int i = 0; i < 200'000; ++i) draw(RandomDomain::kParameter, NameHash("layer" + std::to_string(i) + ".weight"));
  for (uint64_t epoch = 0; epoch < 1000; ++epoch) draw(RandomDomain::kOrder, epoch);
  for (uint64_t tensor = 0; tensor < 2; ++tensor) draw(RandomDomain::kTensor, tensor);
  EXPECT_EQ(streams.size(), drawn);
}

// Published values of FNV-1a.
TEST(RandomStream, NamesAreHashedAsEver) {
  EXPECT_EQ(NameHash(""), 0xcbf29ce484222325u);
  EXPECT_EQ(NameHash("a"), 0xaf63dc4c8601ec8cu);
  EXPECT_EQ(NameHash("foobar"), 0x85944171f73967e8u);
}

}  // namespace
}  // namespace gluond
