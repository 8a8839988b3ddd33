#include "engine/passes/gradient.h"

#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/passes/operator_error.h"
#include "engine/passes/pass_work.h"

namespace gluond {
namespace {

constexpr size_t kMaxAddN = 8;

// A node, as reverse accumulation knows it.
struct Visited {
  bool leads_to_x = false;       // Some x is one of its outputs or lies before it.
  std::vector<Gradients> terms;  // By output: the contributions to its gradient, not yet summed.
};

class ReverseAccumulation {
 public:
  ReverseAccumulation(absl::Span<const NodeEntry> ys, absl::Span<const NodeEntry> xs, const OnDifferentiated& differentiated)
      : order_(ys, [](const Node*) { return false; }), differentiated_(differentiated), visited_(order_.size()) {
    for (uint32_t i = 0; i < order_.size(); ++i) visited_[i].terms.resize(order_.nodes()[i]->num_outputs());
    for (const NodeEntry& x : xs) {
      if (Visited* v = Find(x)) v->leads_to_x = true;
    }
    for (uint32_t i = 0; i < order_.size(); ++i)
      visited_[i].leads_to_x = visited_[i].leads_to_x || AnyLeadsToX(order_.inputs_of(i));
  }

  // Adds a contribution, where an x can see it.
  void Contribute(const NodeEntry& entry, NodeEntry gradient) { Contribute(Find(entry), entry.index, std::move(gradient)); }
  bool LeadsToX(const NodeEntry& entry) { return Find(entry)->leads_to_x; }

  // Every node is visited after all nodes that use its outputs.
  absl::Status Run() {
    PassWork work;
    for (uint32_t i = order_.size(); i-- > 0;) {
      RETURN_IF_ERROR(work.Add(1 + order_.inputs_of(i).size()));
      if (!order_.nodes()[i]->is_variable()) RETURN_IF_ERROR(Differentiate(i));
    }
    return absl::OkStatus();
  }

  // The sum of the contributions; an entry without a node when there are none.
  NodeEntry Sum(const NodeEntry& entry) {
    Visited* v = Find(entry);
    return v == nullptr ? NodeEntry() : Sum(*v, entry);
  }

 private:
  static void Contribute(Visited* to, uint32_t index, NodeEntry gradient) {
    if (to->leads_to_x) to->terms[index].push_back(std::move(gradient));
  }
  bool AnyLeadsToX(absl::Span<const uint32_t> nodes) const {
    return absl::c_any_of(nodes, [this](uint32_t node) { return visited_[node].leads_to_x; });
  }

  static NodeEntry Sum(Visited& v, const NodeEntry& entry) {
    Gradients& terms = v.terms[entry.index];
    if (terms.empty()) return {};
    if (terms.size() > 1) terms = {Add(entry, terms)};
    return terms[0];
  }

  // nullptr: no y depends on the entry's node.
  Visited* Find(const NodeEntry& entry) {
    const uint32_t number = order_.numbers.at(entry.node.get());
    return number == NodeNumbers::kNone ? nullptr : &visited_[number];
  }

  static NodeEntry Add(const NodeEntry& entry, const Gradients& terms) {
    const std::string name = absl::StrCat(entry.node->name(), "_grad_sum");
    if (terms.size() <= kMaxAddN) return MakeNode("add_n", name, terms);
    NodeEntry sum = terms[0];
    for (size_t i = 1; i < terms.size(); ++i) sum = MakeNode("_grad_sum", name, {sum, terms[i]});
    return MakeNode("_cast_like", name, {sum, terms[0]});
  }

  // Passes the gradients of the node's outputs on to its inputs.
  absl::Status Differentiate(uint32_t number) {
    const absl::Span<const uint32_t> from = order_.inputs_of(number);
    if (!AnyLeadsToX(from)) return absl::OkStatus();

    const NodePtr& node = order_.nodes()[number];
    Gradients heads(node->num_outputs());
    bool any = false;
    for (uint32_t i = 0; i < heads.size(); ++i) {
      heads[i] = Sum(visited_[number], {node, i});
      any = any || heads[i];
    }
    if (!any && !node->facts().begins_gradient) return absl::OkStatus();
    for (uint32_t i = 0; i < heads.size(); ++i) {
      if (!heads[i]) heads[i] = MakeNode("zeros_like", absl::StrCat(node->name(), "_no_grad"), {{node, i}});
    }

    const FGradient* gradient = node->facts().gradient;
    if (gradient == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("gradient: ", Describe(*node), " cannot be differentiated: operator '", node->op()->name(),
                       "' has no FGradient; put a BlockGrad before it, or leave it out of what is differentiated"));
    }
    absl::StatusOr<Gradients> inputs = (*gradient)(node, heads);
    if (!inputs.ok()) return Annotate(inputs.status(), absl::StrCat("gradient of ", Describe(*node)));
    if (inputs->size() != node->num_inputs()) {
      return absl::InternalError(absl::StrCat("gradient of ", Describe(*node), ": FGradient returned ", inputs->size(),
                                              " entries for ", node->num_inputs(), " inputs"));
    }
    if (differentiated_) differentiated_(*node, *inputs);
    for (uint32_t i = 0; i < node->num_inputs(); ++i) {
      if ((*inputs)[i]) Contribute(&visited_[from[i]], node->inputs[i].index, std::move((*inputs)[i]));
    }
    return absl::OkStatus();
  }

  const NodeOrder order_;
  const OnDifferentiated& differentiated_;
  std::vector<Visited> visited_;
};

}  // namespace

absl::StatusOr<Gradients> BuildGradient(absl::Span<const NodeEntry> ys, absl::Span<const NodeEntry> xs,
                                        absl::Span<const NodeEntry> out_grads, const OnDifferentiated& differentiated) {
  if (out_grads.size() != ys.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient: ", ys.size(), " outputs and ", out_grads.size(), " head gradients; give one for each"));
  }
  ReverseAccumulation reverse(ys, xs, differentiated);
  for (size_t i = 0; i < ys.size(); ++i) {
    if (!reverse.LeadsToX(ys[i])) continue;
    reverse.Contribute(ys[i],
                       out_grads[i] ? out_grads[i] : MakeNode("ones_like", absl::StrCat(ys[i].node->name(), "_ones"), {ys[i]}));
  }
  RETURN_IF_ERROR(reverse.Run());
  Gradients gradients;
  for (const NodeEntry& x : xs) {
    const NodeEntry sum = reverse.Sum(x);
    gradients.push_back(sum ? sum : MakeNode("zeros_like", absl::StrCat(x.node->name(), "_zero_grad"), {x}));
  }
  return gradients;
}

}  // namespace gluond
