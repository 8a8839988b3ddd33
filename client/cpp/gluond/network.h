// The two forms of a network in a client: Blocks, or operators that read each other.
//
//   BlockTree net = Sequential({
//       Conv2D(20, 5, {{"activation", "relu"}}), MaxPool2D(2), Dense(500, {{"activation",
//       "relu"}}), Dense(10)});
//
//   GraphBuilder graph;
//   std::string fc1 = graph.Add("FullyConnected", {"data"}, {{"num_hidden", 64}});
//   std::string out = graph.Add("Activation", {fc1}, {{"act_type", "relu"}});
//   Graph net = graph.Outputs({out});
//
// The server alone knows which blocks, operators and attributes exist: an unknown name is its error.

#ifndef GLUOND_NETWORK_H_
#define GLUOND_NETWORK_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gluond/export.h"
#include "gluond/tensor.h"
#include "gluond/types.h"
#include "gluond/value.h"

namespace gluond::client {

// Any block, by Gluon's name.
GLUOND_EXPORT BlockTree Block(std::string block, const Attributes& attributes = {}, std::vector<BlockTree> children = {});

// `block` under a name of its own, which leads its parameters' names.
GLUOND_EXPORT BlockTree WithName(BlockTree block, std::string name);

GLUOND_EXPORT BlockTree Sequential(std::vector<BlockTree> children);
GLUOND_EXPORT BlockTree Dense(int64_t units, Attributes attributes = {});
GLUOND_EXPORT BlockTree Conv2D(int64_t channels, int64_t kernel_size, Attributes attributes = {});
GLUOND_EXPORT BlockTree MaxPool2D(int64_t pool_size, Attributes attributes = {});

// Declares an input; -1 is a dimension that varies.
GLUOND_EXPORT Variable Input(std::string name, const Shape& shape, DType dtype = DType::kFloat32);

class GLUOND_EXPORT GraphBuilder {
 public:
  // Adds a node and returns the reference to its first output. Without a name it gets the
  // operator's and a number.
  std::string Add(std::string op, std::vector<std::string> inputs, const Attributes& attributes = {}, std::string name = "");

  // The graph so far, with these outputs.
  Graph Outputs(const std::vector<std::string>& outputs) const;

 private:
  Graph graph_;
  std::map<std::string, int> used_;  // The last number given, by operator.
};

}  // namespace gluond::client

#endif  // GLUOND_NETWORK_H_
