// TenantHosts is a server's CustomHosts as one tenant's graphs see it: the scopes that these have are the tenant's, and the
// operators that nobody's scope goes with are those that the tenant's clients share.

#ifndef SERVER_CUSTOM_TENANT_HOSTS_H_
#define SERVER_CUSTOM_TENANT_HOSTS_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/custom_host.h"

namespace gluond::server {

class TenantHosts final : public CustomHost {
 public:
  // `tenant` is "acme/".
  TenantHosts(CustomHostPtr hosts, std::string tenant) : hosts_(std::move(hosts)), tenant_(std::move(tenant)) {}

  void Begin(CustomCall call) override {
    call.op.scope.insert(0, tenant_);
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
    return op;
  }

  const CustomHostPtr hosts_;
  const std::string tenant_;
};

}  // namespace gluond::server

#endif  // SERVER_CUSTOM_TENANT_HOSTS_H_
