#include "engine/train/update_graph.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"

namespace gluond {
namespace {

constexpr size_t kMostWeights = 1 << 16;  // The operators take so many.

}  // namespace

NodeEntry JointUpdate::AddVariable(const Shape& shape, DType type) {
  variables_.push_back({absl::StrCat(prefix_, "numbers", variables_.size()), places_.size(), shape, type});
  return MakeVariable(variables_.back().name);
}

NodeEntry JointUpdate::Number(const std::string& name, DType type) {
  const auto [it, is_new] = single_.try_emplace({name, type});
  if (is_new) {
    it->second = AddVariable({1}, type);
    places_.push_back({parameter_, name, type});
  }
  return it->second;
}

NodeEntry JointUpdate::Call(const std::string& op, DType type, std::vector<NodeEntry> inputs, AttrDict attrs,
                            std::vector<std::string> numbers) {
  auto call = std::find_if(calls_.begin(), calls_.end(), [&](const ManyWeights& each) {
    return each.op == op && each.type == type && each.parameters.size() < kMostWeights;
  });
  if (call == calls_.end()) {
    call = calls_.insert(call, {op, type, std::move(attrs), std::move(numbers), std::make_shared<Node>(), {}, {}});
  }
  call->inputs.insert(call->inputs.end(), std::make_move_iterator(inputs.begin()), std::make_move_iterator(inputs.end()));
  call->parameters.push_back(parameter_);
  return {call->node, static_cast<uint32_t>(call->parameters.size() - 1)};
}

absl::Status JointUpdate::Finish() {
  for (ManyWeights& call : calls_) {
    const auto rows = static_cast<int64_t>(call.parameters.size()), columns = static_cast<int64_t>(call.numbers.size());
    call.inputs.insert(call.inputs.begin(), AddVariable({rows, columns}, DType::kFloat64));
    for (const size_t parameter : call.parameters) {
      for (const std::string& number : call.numbers) places_.push_back({parameter, number, DType::kFloat64});
    }
    call.attrs["num_weights"] = absl::StrCat(rows);
    call.attrs["numbers"] = absl::StrJoin(call.numbers, ",");
    const std::string op = absl::StrCat("_multi_", call.op);
    ASSIGN_OR_RETURN(const NodePtr node,
                     TryMakeNode(op, absl::StrCat("update_", Name(call.type)), std::move(call.inputs), std::move(call.attrs)));
    *call.node = *node;
  }
  return absl::OkStatus();
}

NodeEntry UpdateGraph::Call(const char* op, std::vector<NodeEntry> inputs, AttrDict attrs) const {
  return MakeNode(op, name, std::move(inputs), std::move(attrs));
}

NodeEntry UpdateGraph::Cast(const NodeEntry& x, DType type) const {
  return Call("Cast", {x}, {{"dtype", std::string(gluond::Name(type))}});
}

NodeEntry UpdateGraph::Broadcast(const char* op, const NodeEntry& x, const NodeEntry& element) const {
  const NodeEntry y = Call(op, {x, element});
  return shape.ndim() == 0 ? Call("reshape_like", {y, x}) : y;
}

}  // namespace gluond
