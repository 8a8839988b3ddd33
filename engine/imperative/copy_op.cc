#include "engine/imperative/copy_op.h"

#include <any>
#include <utility>

#include "engine/core/op.h"

namespace gluond {
namespace {

Gradients CopyBack(const NodePtr& node, const Gradients& dy) {
  Gradients gradients(node->num_inputs());
  gradients[0] = {MakeInternalNode("_CopyLike", {}, {dy[0], node->inputs[0]}), 0};
  return gradients;
}

absl::Status NotByName(NodeAttrs*) { return absl::InvalidArgumentError("it is not to be called by name"); }

GLUOND_REGISTER_OP(_CopyTo)
    .describe("x on another device. Made by the imperative API; not to be called by name.")
    .set_attr_parser(NotByName)
    .set_num_inputs(1)
    .set_attr<FGradient>("FGradient", CopyBack);

GLUOND_REGISTER_OP(_CopyLike)
    .describe("x on the device of another array. Made by the imperative API; not to be called by name.")
    .set_attr_parser(NotByName)
    .set_num_inputs(2)
    .set_attr<FGradient>("FGradient", CopyBack);

}  // namespace

PreparedOpPtr PrepareCopy(Device to) {
  return Prepared(MakeInternalNode("_CopyTo", to, {MakeVariable("input")}), /*recordable=*/true);
}

bool IsCopyOp(const Op& op) {
  static const Op* const to = Op::Find("_CopyTo");
  static const Op* const like = Op::Find("_CopyLike");
  return &op == to || &op == like;
}

const Device* CopiesTo(const PreparedOp& op) { return std::any_cast<Device>(&op.node->attrs.parsed); }

}  // namespace gluond
