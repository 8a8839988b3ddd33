// The two forms of a network in a client: Blocks, or operators that read each other.
//
//   v1::Block net = Sequential({
//       Conv2D(20, 5, {{"activation", "relu"}}), MaxPool2D(2), Dense(500, {{"activation",
//       "relu"}}), Dense(10)});
//
//   GraphBuilder graph;
//   std::string fc1 = graph.Add("FullyConnected", {"data"}, {{"num_hidden", 64}});
//   std::string out = graph.Add("Activation", {fc1}, {{"act_type", "relu"}});
//   v1::Graph net = graph.Outputs({out});
//
// The server alone knows which blocks, operators and attributes exist: an unknown name is its error.

#ifndef GLUOND_CLIENT_CPP_NETWORK_H_
#define GLUOND_CLIENT_CPP_NETWORK_H_

#include <concepts>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gluond/tensor.h"
#include "gluond/v1/graph.pb.h"

namespace gluond::client {

// The value of an attribute: a number, a boolean, a string, a tuple of numbers, or a component.
struct Value {
  Value(bool value) { proto.set_bool_value(value); }
  template <class Number>
  requires(std::integral<Number> || std::floating_point<Number>) && (!std::same_as<Number, bool>)Value(Number value) {
    const auto number = static_cast<double>(value);
    constexpr double kExact = 9007199254740992;  // From 2^53 on, a double loses an integer's digits.
    if (std::integral<Number> && (number >= kExact || number <= -kExact)) {
      proto.set_string_value(std::to_string(value));
    } else {
      proto.set_number_value(number);
    }
  }
  Value(const char* value) { proto.set_string_value(value); }
  Value(std::string value) { proto.set_string_value(std::move(value)); }
  Value(std::initializer_list<double> tuple);
  Value(const v1::Component& component);

  google::protobuf::Value proto;
};

using Attributes = std::vector<std::pair<std::string, Value>>;

// An initializer, loss, optimizer, schedule or metric: Named("sgd", {{"learning_rate", 0.1}}).
v1::Component Named(std::string name, const Attributes& attributes = {});

// Any block, by Gluon's name.
v1::Block Block(std::string block, const Attributes& attributes = {}, std::vector<v1::Block> children = {});

// `block` under a name of its own, which leads its parameters' names.
v1::Block WithName(v1::Block block, std::string name);

v1::Block Sequential(std::vector<v1::Block> children);
v1::Block Dense(int64_t units, Attributes attributes = {});
v1::Block Conv2D(int64_t channels, int64_t kernel_size, Attributes attributes = {});
v1::Block MaxPool2D(int64_t pool_size, Attributes attributes = {});

// Declares an input; -1 is a dimension that varies.
v1::Variable Input(std::string name, const Shape& shape, DType dtype = DType::kFloat32);

class GraphBuilder {
 public:
  // Adds a node and returns the reference to its first output. Without a name it gets the
  // operator's and a number.
  std::string Add(std::string op, std::vector<std::string> inputs, const Attributes& attributes = {}, std::string name = "");

  // The graph so far, with these outputs.
  v1::Graph Outputs(const std::vector<std::string>& outputs) const;

 private:
  v1::Graph graph_;
  std::map<std::string, int> used_;  // The last number given, by operator.
};

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_NETWORK_H_
