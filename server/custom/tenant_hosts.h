// TenantHosts is a server's CustomHosts as the graphs of one tenant, or of one published version, see it. The scopes in
// these graphs are the tenant's. An operator without a scope is one that the tenant's clients share; where its owner is
// known, only the owner computes it.

#ifndef SERVER_CUSTOM_TENANT_HOSTS_H_
#define SERVER_CUSTOM_TENANT_HOSTS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/custom_host.h"
#include "server/custom/hosts.h"
#include "server/custom/operator_owners.h"

namespace gluond::server {

class TenantHosts final : public CustomHost {
 public:
  // `tenant` is "acme/".
  TenantHosts(std::shared_ptr<CustomHosts> hosts, std::string tenant, OperatorOwners owners = {})
      : hosts_(std::move(hosts)), tenant_(std::move(tenant)), owners_(std::move(owners)) {}

  void Begin(CustomCall call) override {
    const std::string& owner = OwnerOf(call.op);
    call.op.scope.insert(0, tenant_);
    hosts_->Begin(std::move(call), owner);
  }
  void Abandon(const ClientTime* run) override { hosts_->Abandon(run); }
  absl::StatusOr<Inference> InferShape(const CustomOperator& op, const ShapeVector& arguments) override {
    return hosts_->InferShape(Inside(op), arguments, OwnerOf(op));
  }
  absl::StatusOr<TypeInference> InferType(const CustomOperator& op, const TypeVector& arguments) override {
    return hosts_->InferType(Inside(op), arguments, OwnerOf(op));
  }
  uint64_t NextInstance(const CustomOperator& op) override { return hosts_->NextInstance(Inside(op), OwnerOf(op)); }
  std::shared_ptr<const void> HoldFunction(const std::string& scope, uint64_t function) override {
    return hosts_->HoldFunction(absl::StrCat(tenant_, scope), function);
  }

 private:
  CustomOperator Inside(CustomOperator op) const {
    op.scope.insert(0, tenant_);
    return op;
  }
  // Empty: whoever shares it.
  const std::string& OwnerOf(const CustomOperator& op) const {
    static const std::string& nobody = *new std::string;
    const auto found = owners_.find(op.op_type);
    return found == owners_.end() ? nobody : found->second;
  }

  const std::shared_ptr<CustomHosts> hosts_;
  const std::string tenant_;
  const OperatorOwners owners_;
};

}  // namespace gluond::server

#endif  // SERVER_CUSTOM_TENANT_HOSTS_H_
