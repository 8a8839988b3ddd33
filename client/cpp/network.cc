#include "client/cpp/network.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace gluond::client {
namespace {

void Fill(const Attributes& attributes, google::protobuf::Map<std::string, google::protobuf::Value>* map) {
  for (const auto& [name, value] : attributes) (*map)[name] = value.proto;
}

Attributes WithFirst(std::string name, Value value, Attributes rest) {
  rest.emplace(rest.begin(), std::move(name), std::move(value));
  return rest;
}

}  // namespace

Value::Value(std::initializer_list<double> tuple) {
  auto* list = proto.mutable_list_value();
  for (double element : tuple) list->add_values()->set_number_value(element);
}

Value::Value(const v1::Component& component) {
  auto* fields = proto.mutable_struct_value()->mutable_fields();
  (*fields)["name"].set_string_value(component.name());
  auto* attributes = (*fields)["attributes"].mutable_struct_value()->mutable_fields();
  for (const auto& [name, value] : component.attributes()) (*attributes)[name] = value;
}

v1::Component Named(std::string name, const Attributes& attributes) {
  v1::Component component;
  component.set_name(std::move(name));
  Fill(attributes, component.mutable_attributes());
  return component;
}

v1::Block Block(std::string block, const Attributes& attributes, std::vector<v1::Block> children) {
  v1::Block result;
  result.set_block(std::move(block));
  Fill(attributes, result.mutable_attributes());
  for (v1::Block& child : children) *result.add_children() = std::move(child);
  return result;
}

v1::Block WithName(v1::Block block, std::string name) {
  block.set_name(std::move(name));
  return block;
}

v1::Block Sequential(std::vector<v1::Block> children) { return Block("HybridSequential", {}, std::move(children)); }

v1::Block Dense(int64_t units, Attributes attributes) { return Block("Dense", WithFirst("units", units, std::move(attributes))); }

v1::Block Conv2D(int64_t channels, int64_t kernel_size, Attributes attributes) {
  return Block("Conv2D", WithFirst("channels", channels, WithFirst("kernel_size", kernel_size, std::move(attributes))));
}

v1::Block MaxPool2D(int64_t pool_size, Attributes attributes) {
  return Block("MaxPool2D", WithFirst("pool_size", pool_size, std::move(attributes)));
}

v1::Variable Input(std::string name, const Shape& shape, DType dtype) {
  v1::Variable variable;
  variable.set_name(std::move(name));
  variable.set_kind(v1::Variable::INPUT);
  variable.mutable_shape()->Add(shape.begin(), shape.end());
  variable.set_dtype(static_cast<v1::Tensor::DType>(dtype));
  return variable;
}

std::string GraphBuilder::Add(std::string op, std::vector<std::string> inputs, const Attributes& attributes, std::string name) {
  if (name.empty()) name = absl::StrCat(absl::AsciiStrToLower(op), used_[op]++);
  v1::Node* node = graph_.add_nodes();
  node->set_name(name);
  node->set_op(std::move(op));
  Fill(attributes, node->mutable_attributes());
  for (std::string& input : inputs) node->add_inputs(std::move(input));
  return name;
}

v1::Graph GraphBuilder::Outputs(const std::vector<std::string>& outputs) const {
  v1::Graph graph = graph_;
  graph.mutable_outputs()->Add(outputs.begin(), outputs.end());
  return graph;
}

}  // namespace gluond::client
