// The words of operators on images in blocks of channels (engine/core/channel_blocks.h).

#ifndef OPS_CHANNEL_BLOCKS_H_
#define OPS_CHANNEL_BLOCKS_H_

#include "engine/core/batch_axis.h"
#include "engine/core/channel_blocks.h"
#include "ops/operator.h"

namespace gluond::ops {

// (batch, channels, height, width) of images in blocks. Requires: five axes.
inline Shape Unblocked(const Shape& x) { return {x[0], x[1] < 0 || x[4] < 0 ? Shape::kUnknown : x[1] * x[4], x[2], x[3]}; }
// Requires: four axes, and a known number of channels fills the blocks.
inline Shape InBlocks(const Shape& x, int64_t block) {
  return {x[0], x[1] < 0 ? Shape::kUnknown : x[1] / block, x[2], x[3], block};
}

// FInferType: float32 for all.
inline absl::StatusOr<bool> SameFloat32(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  for (size_t i = 0; i < in->size(); ++i) TYPE_ASSIGN_CHECK(in, i, DType::kFloat32);
  TYPE_ASSIGN_CHECK(out, 0, DType::kFloat32);
  return true;
}

// The same call of the same operator, on all its inputs.
inline BlockedCall AsItIs(const Node& node, int64_t block) {
  return {node.op()->name(), node.attrs.dict, block, node.num_inputs()};
}

// Facts of an operator that treats each element apart from the others, the first `inputs` of its inputs alike. Such an
// operator computes batches by rows, and images in blocks as they are.
template <uint32_t inputs>
void Elementwise(OpRegistration& op) {
  op.set_attr<TBatchInputs>("TBatchInputs", static_cast<int>(inputs));
  op.set_attr<FChannelBlocks>("FChannelBlocks", [](const Node& node, absl::Span<const Shape>, int64_t block) {
    return node.num_inputs() == inputs ? AsItIs(node, block) : BlockedCall();
  });
}

}  // namespace gluond::ops

#endif  // OPS_CHANNEL_BLOCKS_H_
