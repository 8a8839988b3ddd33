// Models defined as trees of blocks.

#include "engine/nn/block.h"
#include "engine/nn/initializer.h"
#include "tests/fuzz/definition.h"
#include "tests/fuzz/fuzz.h"

namespace gluond::fuzz {
namespace {

std::vector<std::string> BlockWords() {
  std::vector<std::string> words = {"True", "False", "relu", "Xavier(magnitude=2)", "zeros", "int32", "function", "dot"};
  for (const auto& block : Blocks().entries()) {
    words.push_back(block.name);
    for (const ArgumentDoc& attribute : block.attributes) words.push_back(attribute.name);
  }
  for (const auto& initializer : Initializers().entries()) words.push_back(initializer.name);
  return words;
}

}  // namespace
}  // namespace gluond::fuzz

STRUCTURED_FUZZ_TARGET(v1::DefineModelRequest, CheckDefinition, BlockWords())
