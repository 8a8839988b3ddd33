#include "engine/passes/block_channels.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/affine.h"
#include "engine/core/channel_blocks.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/passes/pass_work.h"
#include "engine/passes/readers.h"
#include "engine/passes/rewrite.h"

namespace gluond {
namespace {

class Blocker {
 public:
  Blocker(const IndexedGraph& graph, const Inferred& inferred)
      : graph_(graph),
        inferred_(inferred),
        readers_(ReadersOf(graph)),
        plain_(graph.num_entries()),
        blocked_(graph.num_entries()) {}

  // CANCELLED or DEADLINE_EXCEEDED: see pass_work.h.
  absl::Status PutAll() {
    PassWork work;
    for (uint32_t id = 0; id < graph_.num_nodes(); ++id) {
      RETURN_IF_ERROR(work.Add(1 + graph_[id].inputs.size()));
      if (!PutBlocked(id)) PutPlain(id);
    }
    return absl::OkStatus();
  }

  // The entry as it was in the graph.
  NodeEntry Plain(uint32_t entry) {
    if (plain_[entry].node == nullptr) {
      copied_ += ElementsOf(entry);
      const NodeEntry& blocked = blocked_[entry].value;
      plain_[entry] = MakeNode("_from_blocked", absl::StrCat(blocked.node->name(), "_from_blocked"), {blocked});
    }
    return plain_[entry];
  }

  // Whether half of the copies are left out: convolutions make theirs a piece at a time, in the processor's cache. Once all
  // outputs are plain.
  bool gains() const { return saved_ > 0 && saved_ >= 2 * copied_; }

 private:
  struct Blocked {
    NodeEntry value;
    int64_t block = 0;  // 0: nobody has wanted it.
  };

  NodeEntry InBlocks(uint32_t entry, int64_t block) {
    Blocked& blocked = blocked_[entry];
    if (blocked.block == block) return blocked.value;
    const NodeEntry plain = Plain(entry);
    copied_ += ElementsOf(entry);
    blocked = {MakeNode("_to_blocked", absl::StrCat(plain.node->name(), "_to_blocked"), {plain}, {{"block", absl::StrCat(block)}}),
               block};
    return blocked.value;
  }

  // The elements of an image, where its size is known.
  int64_t ElementsOf(uint32_t entry) const {
    const Shape& shape = inferred_.shapes[entry];
    return shape[1] * std::max<int64_t>(1, shape[2]) * std::max<int64_t>(1, shape[3]);
  }

  // Images whose channels, if `block` is known, fill blocks.
  bool MayBeBlocked(uint32_t entry, int64_t block) const {
    const Shape& shape = inferred_.shapes[entry];
    return shape.ndim() == 4 && shape[1] > 0 && (block == 0 || shape[1] % block == 0) && inferred_.types[entry] == DType::kFloat32;
  }

  // False: the call stays as it is.
  bool PutBlocked(uint32_t id) {
    const IndexedGraph::IndexedNode& indexed = graph_[id];
    const Node& node = *indexed.node;
    if (node.is_variable() || indexed.inputs.empty()) return false;
    const uint32_t output = graph_.entry(id, 0);
    if (!MayBeBlocked(indexed.inputs[0].entry, 0) || !MayBeBlocked(output, 0)) return false;
    for (uint32_t i = 1; i < node.num_outputs(); ++i) {
      if (readers_[graph_.entry(id, i)] > 0) return false;
    }
    return PutBlockedCall(indexed, output) || PutBlockedAffine(indexed, output);
  }

  bool PutBlockedCall(const IndexedGraph::IndexedNode& indexed, uint32_t output) {
    const Node& node = *indexed.node;
    static const OpMap<FChannelBlocks> in_blocks_of("FChannelBlocks");
    const auto* const in_blocks = in_blocks_of[node.op()];
    if (in_blocks == nullptr) return false;
    ShapeVector shapes;
    for (const IndexedGraph::Input& input : indexed.inputs) shapes.push_back(inferred_.shapes[input.entry]);
    const BlockedCall call = (*in_blocks)(node, shapes, blocked_[indexed.inputs[0].entry].block);
    if (call.block == 0 || !MayBeBlocked(output, call.block)) return false;
    for (uint32_t i = 0; i < call.inputs; ++i) {
      const uint32_t entry = indexed.inputs[i].entry;
      if (!(call.gains ? MayBeBlocked(entry, call.block) : blocked_[entry].block == call.block)) return false;
    }
    std::vector<NodeEntry> inputs;
    for (uint32_t i = 0; i < indexed.inputs.size(); ++i) {
      const uint32_t entry = indexed.inputs[i].entry;
      inputs.push_back(i < call.inputs ? InBlocks(entry, call.block) : Plain(entry));
    }
    blocked_[output] = {MakeNode(call.op, node.name(), std::move(inputs), call.dict), call.block};
    if (call.gains) saved_ += ElementsOf(output) + (call.inputs > 0 ? ElementsOf(indexed.inputs[0].entry) : 0);
    return true;
  }

  // A scale and a shift for each channel: a convolution of each by itself.
  bool PutBlockedAffine(const IndexedGraph::IndexedNode& indexed, uint32_t output) {
    const Node& node = *indexed.node;
    const Blocked& x = blocked_[indexed.inputs[0].entry];
    const auto* const affine_of = AffineOf(node);
    if (affine_of == nullptr || x.block == 0 || !MayBeBlocked(output, x.block)) return false;
    for (size_t i = 1; i < indexed.inputs.size(); ++i) {
      if (Plain(indexed.inputs[i].entry).node != node.inputs[i].node) return false;  // The fact is told of the old ones.
    }
    const Affine affine = (*affine_of)(node, DType::kFloat32);
    if ((affine.axis != 1 && affine.axis != -3) || affine.x.node != node.inputs[0].node || affine.x.index != node.inputs[0].index) {
      return false;
    }
    const std::string channels = absl::StrCat(inferred_.shapes[output][1]);
    const NodeEntry filters =
        MakeNode("Reshape", absl::StrCat(node.name(), "_scale"), {affine.scale}, {{"shape", "(-1, 1, 1, 1)"}});
    const AttrDict dict = {
        {"kernel", "(1, 1)"}, {"num_filter", channels}, {"num_group", channels}, {"block", absl::StrCat(x.block)}};
    blocked_[output] = {MakeNode("_blocked_Convolution", node.name(), {x.value, filters, affine.shift}, dict), x.block};
    return true;
  }

  void PutPlain(uint32_t id) {
    const IndexedGraph::IndexedNode& indexed = graph_[id];
    std::vector<NodeEntry> inputs;
    for (const IndexedGraph::Input& input : indexed.inputs) inputs.push_back(Plain(input.entry));
    const NodePtr node = WithInputs(indexed.node, std::move(inputs));
    for (uint32_t i = 0; i < node->num_outputs(); ++i) plain_[graph_.entry(id, i)] = {node, i};
  }

  const IndexedGraph& graph_;
  const Inferred& inferred_;
  const std::vector<int> readers_;
  // By entry.
  std::vector<NodeEntry> plain_;
  std::vector<Blocked> blocked_;
  int64_t copied_ = 0, saved_ = 0;  // Elements that are put into blocks and out of them, and those that convolutions would.
};

}  // namespace

absl::StatusOr<Graph> BlockChannels(const Graph& graph, const IndexedGraph& indexed, const Inferred& inferred) {
  Blocker blocker(indexed, inferred);
  RETURN_IF_ERROR(blocker.PutAll());
  Graph blocked;
  for (const IndexedGraph::Input& output : indexed.outputs()) blocked.outputs.push_back(blocker.Plain(output.entry));
  return blocker.gains() ? blocked : graph;
}

}  // namespace gluond
