// Blocks made of blocks: one after the other, side by side, around a shortcut.

#include "engine/nn/blocks.h"

namespace gluond {
namespace {

struct ConcurrentParam : Param<ConcurrentParam> {
  int axis;
  static void Fields(Schema<ConcurrentParam>& s) {
    s.Field("axis", &ConcurrentParam::axis).Default(-1).Describe("Along which the children's outputs are joined.");
  }
};

absl::StatusOr<NodeEntry> Sequential(const BlockSpec& block, const BlockScope&, NodeEntry x, const BlockChildren& children) {
  RETURN_IF_ERROR(ParseAttrs<NoParam>(block.attrs).status());
  for (size_t i = 0; i < block.children.size(); ++i) {
    ASSIGN_OR_RETURN(x, children.Expand(i, std::move(x)));
  }
  return x;
}

absl::StatusOr<NodeEntry> Concurrent(const BlockSpec& block, const BlockScope& scope, NodeEntry x, const BlockChildren& children) {
  ASSIGN_OR_RETURN(const ConcurrentParam p, ParseAttrs<ConcurrentParam>(block.attrs));
  if (block.children.empty()) return absl::InvalidArgumentError("wants at least one child");
  std::vector<NodeEntry> parts;
  for (size_t i = 0; i < block.children.size(); ++i) {
    ASSIGN_OR_RETURN(NodeEntry part, children.Expand(i, x));
    parts.push_back(std::move(part));
  }
  return scope.Call("concat", "concat", std::move(parts), {{"dim", absl::StrCat(p.axis)}});
}

absl::StatusOr<NodeEntry> Residual(const BlockSpec& block, const BlockScope& scope, NodeEntry x, const BlockChildren& children) {
  RETURN_IF_ERROR(ParseAttrs<NoParam>(block.attrs).status());
  if (block.children.empty() || block.children.size() > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("wants a body and, perhaps, a shortcut, got ", block.children.size(), " children"));
  }
  ASSIGN_OR_RETURN(NodeEntry body, children.Expand(0, x));
  if (block.children.size() == 2) {
    ASSIGN_OR_RETURN(x, children.Expand(1, std::move(x)));
  }
  return scope.Call("elemwise_add", "add", {std::move(body), std::move(x)});
}

}  // namespace

std::vector<BlockCatalog::Entry> ContainerBlocks() {
  return {
      {"Sequential", "The children one after the other.", {}, &Sequential},
      {"HybridSequential", "The same as Sequential: every block here is compiled.", {}, &Sequential},
      {"Concurrent", "The children side by side on one input, their outputs joined along an axis.", ConcurrentParam::__FIELDS__(),
       &Concurrent},
      {"HybridConcurrent", "The same as Concurrent.", ConcurrentParam::__FIELDS__(), &Concurrent},
      {"Residual",
       "body(x) + shortcut(x): the first child is the body, the second the shortcut, without one x itself.",
       {},
       &Residual},
  };
}

}  // namespace gluond
