// The catalog of blocks. Each file blocks_*.cc has a family; attributes have Gluon's names and defaults.

#include "engine/nn/blocks.h"

#include <algorithm>

namespace gluond {

absl::StatusOr<std::vector<int64_t>> SizesOfAxes(absl::string_view name, std::vector<int64_t> sizes, size_t count, int64_t low) {
  if (sizes.size() == 1) sizes.resize(count, sizes[0]);
  if (sizes.size() == count && std::all_of(sizes.begin(), sizes.end(), [low](int64_t n) { return n >= low; })) {
    return sizes;
  }
  const absl::string_view many = count == 1 ? "" : absl::string_view(count == 2 ? " or two" : " or three");
  return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' is ", Text(sizes), "; want one", many,
                                                 count == 1 ? " number" : " numbers", " of ", low, " or more"));
}

const BlockCatalog& Blocks() {
  static const BlockCatalog& catalog = *[] {
    std::vector<BlockCatalog::Entry> entries = ContainerBlocks();
    for (auto family : {&BasicBlocks, &ActivationBlocks, &ConvolutionBlocks, &PoolingBlocks, &NormalizationBlocks, &RecurrentBlocks,
                        &CellBlocks}) {
      for (BlockCatalog::Entry& entry : family()) entries.push_back(std::move(entry));
    }
    return new BlockCatalog("block", std::move(entries));
  }();
  return catalog;
}

}  // namespace gluond
