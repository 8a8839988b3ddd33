#include "gluond/network.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace gluond::client {
namespace {

Attributes WithFirst(std::string name, Value value, Attributes rest) {
  rest.emplace(rest.begin(), std::move(name), std::move(value));
  return rest;
}

}  // namespace

BlockTree Block(std::string block, const Attributes& attributes, std::vector<BlockTree> children) {
  BlockTree result;
  result.block = std::move(block);
  result.attributes = attributes;
  result.children = std::move(children);
  return result;
}

BlockTree WithName(BlockTree block, std::string name) {
  block.name = std::move(name);
  return block;
}

BlockTree Sequential(std::vector<BlockTree> children) { return Block("HybridSequential", {}, std::move(children)); }

BlockTree Dense(int64_t units, Attributes attributes) { return Block("Dense", WithFirst("units", units, std::move(attributes))); }

BlockTree Conv2D(int64_t channels, int64_t kernel_size, Attributes attributes) {
  return Block("Conv2D", WithFirst("channels", channels, WithFirst("kernel_size", kernel_size, std::move(attributes))));
}

BlockTree MaxPool2D(int64_t pool_size, Attributes attributes) {
  return Block("MaxPool2D", WithFirst("pool_size", pool_size, std::move(attributes)));
}

Variable Input(std::string name, const Shape& shape, DType dtype) {
  Variable variable;
  variable.name = std::move(name);
  variable.kind = Variable::Kind::kInput;
  variable.shape = shape;
  variable.dtype = dtype;
  return variable;
}

std::string GraphBuilder::Add(std::string op, std::vector<std::string> inputs, const Attributes& attributes, std::string name) {
  if (name.empty()) name = absl::StrCat(absl::AsciiStrToLower(op), used_[op]++);
  Node& node = graph_.nodes.emplace_back();
  node.name = name;
  node.op = std::move(op);
  node.attributes = attributes;
  node.inputs = std::move(inputs);
  return name;
}

Graph GraphBuilder::Outputs(const std::vector<std::string>& outputs) const {
  Graph graph = graph_;
  graph.outputs = outputs;
  return graph;
}

}  // namespace gluond::client
