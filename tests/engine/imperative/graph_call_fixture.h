// The tests of graph calls share this fixture: graphs that are called like operators, and the same calls one by one.

#ifndef TESTS_ENGINE_IMPERATIVE_GRAPH_CALL_FIXTURE_H_
#define TESTS_ENGINE_IMPERATIVE_GRAPH_CALL_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/imperative/graph_call.h"
#include "tests/engine/imperative/imperative_bench.h"

namespace gluond {

inline NodeEntry Apply(const std::string& op, std::vector<NodeEntry> inputs, AttrDict attrs = {}) {
  static int count = 0;
  return MakeNode(op, op + std::to_string(count++), std::move(inputs), std::move(attrs));
}

inline std::shared_ptr<CachedGraph> Cached(std::vector<NodeEntry> outputs, std::vector<std::string> inputs) {
  absl::StatusOr<std::shared_ptr<CachedGraph>> graph = CachedGraph::Create({std::move(outputs)}, std::move(inputs));
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph.ok() ? *graph : nullptr;
}

class GraphCallTest : public testing::Test {
 protected:
  Array Marked(const std::vector<float>& values, Shape shape, uint64_t gradient) {
    return bench_.Marked(bench_.Of(values, shape), gradient);
  }
  // tanh(x w^T + b), by a graph.
  static std::shared_ptr<CachedGraph> Dense() {
    const NodeEntry x = MakeVariable("x"), w = MakeVariable("w"), b = MakeVariable("b");
    return Cached({Apply("tanh", {Apply("FullyConnected", {x, w, b}, {{"num_hidden", "2"}})})}, {"x", "w", "b"});
  }
  std::vector<Array> DenseInputs(int rows = 2) {
    std::vector<float> x;
    for (int i = 0; i < 3 * rows; ++i) x.push_back(0.1f * static_cast<float>(i) - 0.3f);
    return {Marked(x, {rows, 3}, 1), Marked({0.5, -0.4, 0.2, 0.9, 0.1, -0.3}, {2, 3}, 2), Marked({0.1, -0.1}, {2}, 3)};
  }
  Array DenseByHand(const std::vector<Array>& inputs) {
    const Array h = bench_.Call("FullyConnected", {{"num_hidden", "2"}}, inputs[0], inputs[1], inputs[2]);
    return bench_.Call("tanh", {}, h);
  }
  void ExpectSame(const std::map<uint64_t, Array>& one, const std::map<uint64_t, Array>& other) {
    ASSERT_EQ(one.size(), other.size());
    for (const auto& [name, gradient] : one) {
      EXPECT_THAT(bench_.Values(gradient), testing::Pointwise(testing::FloatNear(1e-5f), bench_.Values(other.at(name)))) << name;
    }
  }

  ImperativeBench bench_;
};

}  // namespace gluond

#endif  // TESTS_ENGINE_IMPERATIVE_GRAPH_CALL_FIXTURE_H_
