// Formula: calls of operators as C++ expressions, for layers and losses that are made of several.
//
//   Formula f(scope);
//   const NodeEntry gate = f("sigmoid", {f.Scalar("_mul_scalar", x, beta)});
//   return f.Result(f.Mul(x, gate));
//
// The first error is kept until Result; expressions after it are empty entries.

#ifndef ENGINE_NN_FORMULA_H_
#define ENGINE_NN_FORMULA_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/core/graph.h"
#include "engine/core/param.h"

namespace gluond {

class Formula {
 public:
  // Output 0 of a call; `suffix` is unique among the calls of one formula and ends the node's name.
  using Call = std::function<absl::StatusOr<NodeEntry>(absl::string_view op, std::string suffix, std::vector<NodeEntry> inputs,
                                                       AttrDict attrs)>;
  explicit Formula(Call call) : call_(std::move(call)) {}

  NodeEntry operator()(absl::string_view op, std::vector<NodeEntry> inputs, AttrDict attrs = {}) {
    for (const NodeEntry& input : inputs) {
      if (!input) return {};  // An operand has failed.
    }
    absl::StatusOr<NodeEntry> made = call_(op, absl::StrCat(count_++, "_", op), std::move(inputs), std::move(attrs));
    if (made.ok()) return *std::move(made);
    if (status_.ok()) status_ = made.status();
    return {};
  }

  // The first `count` outputs of a call.
  std::vector<NodeEntry> Outputs(size_t count, absl::string_view op, std::vector<NodeEntry> inputs, AttrDict attrs) {
    const NodeEntry first = (*this)(op, std::move(inputs), std::move(attrs));
    std::vector<NodeEntry> outputs(count);
    for (size_t i = 0; i < count && first; ++i) outputs[i] = {first.node, static_cast<uint32_t>(i)};
    return outputs;
  }

  // A parameter, or an input that could not be made: the error is kept like a call's.
  NodeEntry Take(absl::StatusOr<NodeEntry> entry) {
    if (entry.ok()) return *std::move(entry);
    if (status_.ok()) status_ = entry.status();
    return {};
  }

  NodeEntry Scalar(absl::string_view op, NodeEntry x, double scalar) {
    return (*this)(op, {std::move(x)}, {{"scalar", param_internal::FormatValue(scalar)}});
  }
  NodeEntry Add(NodeEntry a, NodeEntry b) { return (*this)("elemwise_add", {std::move(a), std::move(b)}); }
  NodeEntry Sub(NodeEntry a, NodeEntry b) { return (*this)("elemwise_sub", {std::move(a), std::move(b)}); }
  NodeEntry Mul(NodeEntry a, NodeEntry b) { return (*this)("elemwise_mul", {std::move(a), std::move(b)}); }
  NodeEntry Activation(NodeEntry x, const std::string& act_type) {
    return (*this)("Activation", {std::move(x)}, {{"act_type", act_type}});
  }

  const absl::Status& status() const { return status_; }
  absl::StatusOr<NodeEntry> Result(NodeEntry y) const {
    if (!status_.ok()) return status_;
    return y;
  }

 private:
  const Call call_;
  int count_ = 0;
  absl::Status status_;
};

}  // namespace gluond

#endif  // ENGINE_NN_FORMULA_H_
