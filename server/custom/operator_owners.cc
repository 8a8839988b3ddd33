#include "server/custom/operator_owners.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/custom_spec.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "engine/passes/rewrite.h"
#include "server/custom/hosts.h"

namespace gluond::server {
namespace {

// The name that a node's operator is shared under; empty: it is none that is shared.
absl::StatusOr<std::string> SharedName(const Node& node) {
  if (node.is_variable() || node.op()->name() != "Custom") return "";
  ASSIGN_OR_RETURN(const CustomSpec spec, CustomSpec::Of(node.attrs.dict));
  const auto op_type = node.attrs.dict.find("op_type");
  return spec.shared && op_type != node.attrs.dict.end() ? op_type->second : "";
}

class TenantHosts final : public CustomHost {
 public:
  TenantHosts(std::shared_ptr<CustomHosts> hosts, std::string tenant, OperatorOwners owners)
      : hosts_(std::move(hosts)), tenant_(std::move(tenant)), owners_(std::move(owners)) {}

  void Begin(CustomCall call) override {
    call.op = Inside(std::move(call.op));
    hosts_->Begin(std::move(call));
  }
  void Abandon(const ClientTime* run) override { hosts_->Abandon(run); }
  absl::StatusOr<Inference> InferShape(const CustomOperator& op, const ShapeVector& arguments) override {
    return hosts_->InferShape(Inside(op), arguments);
  }
  absl::StatusOr<TypeInference> InferType(const CustomOperator& op, const TypeVector& arguments) override {
    return hosts_->InferType(Inside(op), arguments);
  }
  uint64_t NextInstance(const CustomOperator& op) override { return hosts_->NextInstance(Inside(op)); }
  std::shared_ptr<const void> HoldFunction(const std::string& scope, uint64_t function) override {
    return hosts_->HoldFunction(absl::StrCat(tenant_, scope), function);
  }

 private:
  CustomOperator Inside(CustomOperator op) const {
    op.scope.insert(0, tenant_);
    if (const auto owner = owners_.find(op.op_type); owner != owners_.end()) op.owner = owner->second;
    return op;
  }

  const std::shared_ptr<CustomHosts> hosts_;
  const std::string tenant_;
  const OperatorOwners owners_;
};

}  // namespace

absl::StatusOr<OperatorOwners> OwnersOf(const std::vector<NodeEntry>& outputs, const std::string& tenant,
                                        const CustomHostPtr& hosts) {
  OperatorOwners owners;
  const auto all = std::dynamic_pointer_cast<CustomHosts>(hosts);
  if (all == nullptr) return owners;
  for (const NodePtr& node : PostOrder(outputs)) {
    ASSIGN_OR_RETURN(const std::string op_type, SharedName(*node));
    if (op_type.empty() || owners.contains(op_type)) continue;
    ASSIGN_OR_RETURN(std::string owner, all->OwnerOf(tenant, op_type));
    if (!owner.empty()) owners[op_type] = std::move(owner);
  }
  return owners;
}

void Keep(const OperatorOwners& owners, const std::string& tenant, const CustomHostPtr& hosts) {
  const auto all = std::dynamic_pointer_cast<CustomHosts>(hosts);
  if (all == nullptr) return;
  for (const auto& [op_type, owner] : owners) all->Keep(tenant, op_type, owner);
}

CustomHostPtr HostsOf(const CustomHostPtr& hosts, const std::string& tenant, OperatorOwners owners) {
  const auto all = std::dynamic_pointer_cast<CustomHosts>(hosts);
  if (all == nullptr) return hosts;
  return std::make_shared<TenantHosts>(all, tenant, std::move(owners));
}

absl::StatusOr<std::vector<NodeEntry>> ComputedBy(const CustomHostPtr& host, const std::vector<NodeEntry>& outputs) {
  const ScopedCustomHost scoped(host);
  absl::Status status;
  ASSIGN_OR_RETURN(Graph moved, Rewrite(Graph{outputs}, [&status](const NodePtr& old, NodePtr node) {
                     const absl::StatusOr<std::string> op_type = SharedName(*old);
                     status.Update(op_type.status());
                     if (!op_type.ok() || op_type->empty()) return node;
                     auto copy = std::make_shared<Node>();
                     copy->attrs = node->attrs;
                     copy->inputs = node->inputs;
                     status.Update(copy->op()->ParseAttrs(&copy->attrs));
                     return copy;
                   }));
  RETURN_IF_ERROR(status);
  return std::move(moved.outputs);
}

}  // namespace gluond::server
