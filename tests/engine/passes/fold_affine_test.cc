// FoldAffine on two operators: `stretch`, a scale and a shift, and `weigh`, x w, which takes them into w.

#include "engine/passes/fold_affine.h"

#include <string>

#include "engine/core/affine.h"
#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "gtest/gtest.h"
#include "tests/engine/passes/test_ops.h"

namespace gluond {
namespace {

using testing::Call;

template <class F>
FCompute Elementwise(F f) {
  return [f](const NodeAttrs&, const OpContext&, absl::Span<const TBlob> in, absl::Span<const OpReqType>,
             absl::Span<const TBlob> out) {
    for (int64_t i = 0; i < out[0].Size(); ++i) {
      out[0].dptr<double>()[i] = f([&](size_t k) { return in[k].dptr<double>()[i]; });
    }
    return absl::OkStatus();
  };
}

GLUOND_REGISTER_OP(stretch)
    .set_num_inputs(3)
    .set_attr<FInferShape>("FInferShape", SameShape)
    .set_attr<FInferType>("FInferType", SameType)
    .set_attr<FCompute>("FCompute<cpu>", Elementwise([](auto in) { return in(0) * in(1) + in(2); }))
    .set_attr<FAffine>("FAffine", [](const Node& node, DType dtype) {
      return Affine{node.inputs[0], -1, node.inputs[1], node.inputs[2], dtype};
    });

GLUOND_REGISTER_OP(weigh)
    .set_num_inputs(2)
    .set_attr<FInferShape>("FInferShape", SameShape)
    .set_attr<FInferType>("FInferType", SameType)
    .set_attr<FCompute>("FCompute<cpu>", Elementwise([](auto in) { return in(0) * in(1); }))
    .set_attr<FAbsorbAffine>("FAbsorbAffine", [](const Node& node, const Affine& affine, int rank, DType) -> NodePtr {
      EXPECT_EQ(affine.axis, rank - 1) << "counted from the front";
      const NodeEntry weighed = Call("weigh", node.name(), {node.inputs[0], node.inputs[1] * affine.scale});
      return (weighed + affine.shift).node;
    });

const testing::Variables kVariables = {{"x", {1, 2}}, {"w", {3, -4}}, {"a", {5, 6}}, {"b", {7, 8}}};

const NodeEntry kX = MakeVariable("x"), kW = MakeVariable("w"), kA = MakeVariable("a"), kB = MakeVariable("b");

int Stretches(const Graph& graph) {
  int count = 0;
  PostOrderVisit(graph.outputs, [&](const NodePtr& node) { count += !node->is_variable() && node->op()->name() == "stretch"; });
  return count;
}

// The calls of `stretch` that are left, where w, a and b are constants.
int Left(const Graph& graph) {
  const IndexedGraph indexed(graph);
  const absl::StatusOr<Inferred> inferred = InferPartially(indexed, testing::SignaturesOf(kVariables));
  EXPECT_EQ(inferred.status(), absl::OkStatus());
  const Graph folded = *FoldAffine(graph, indexed, *inferred, {"w", "a", "b"}, /*narrow=*/false);
  EXPECT_EQ(testing::Evaluate(folded, kVariables), testing::Evaluate(graph, kVariables));
  return Stretches(folded);
}

TEST(FoldAffineTest, TheCallBeforeTakesAScaleAndAShift) {
  const NodeEntry y = Call("weigh", "y", {kX, kW});
  EXPECT_EQ(Left({{Call("stretch", "z", {y, kA, kB})}}), 0);
  EXPECT_EQ(Left({{Call("cube", "c", {Call("stretch", "z", {y, kA, kB})})}}), 0);
  EXPECT_EQ(Left({{Call("stretch", "z", {Call("cube", "c", {kX}), kA, kB})}}), 1) << "cube takes none";
  EXPECT_EQ(Left({{Call("stretch", "z", {kX, kA, kB})}}), 1) << "a variable takes none";
}

TEST(FoldAffineTest, WhatOthersReadStays) {
  const NodeEntry y = Call("weigh", "y", {kX, kW}), z = Call("stretch", "z", {y, kA, kB});
  EXPECT_EQ(Left({{z + y}}), 1);
  EXPECT_EQ(Left({{z, y}}), 1) << "an output of the graph";
  EXPECT_EQ(Left({{z, z + kX}}), 0) << "the result may have any number of readers";
}

TEST(FoldAffineTest, OnlyConstantsAreFolded) {
  const auto stretched = [](const NodeEntry& weight, const NodeEntry& scale, const NodeEntry& shift) {
    return Graph{{Call("stretch", "z", {Call("weigh", "y", {kX, weight}), scale, shift})}};
  };
  EXPECT_EQ(Left(stretched(kW, kA * 2.0, kB)), 0) << "an expression of constants is one";
  EXPECT_EQ(Left(stretched(kX, kA, kB)), 1);
  EXPECT_EQ(Left(stretched(kW, kX, kB)), 1);
  EXPECT_EQ(Left(stretched(kW, kA, 2.0 * kX)), 1);
}

}  // namespace
}  // namespace gluond
