// The catalog of blocks. Each file blocks_*.cc has a family; attributes have Gluon's names and defaults.

#include "engine/nn/blocks.h"

namespace gluond {

const BlockCatalog& Blocks() {
  static const BlockCatalog& catalog = *[] {
    std::vector<BlockCatalog::Entry> entries = ContainerBlocks();
    for (auto family : {&BasicBlocks, &ConvolutionBlocks, &NormalizationBlocks}) {
      for (BlockCatalog::Entry& entry : family()) entries.push_back(std::move(entry));
    }
    return new BlockCatalog("block", std::move(entries));
  }();
  return catalog;
}

}  // namespace gluond
