// The attributes and calls of operators that a client computes.

#ifndef OPS_CUSTOM_ATTRIBUTES_H_
#define OPS_CUSTOM_ATTRIBUTES_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/core/custom_host.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/status_macros.h"
#include "ops/kernel/host_blobs.h"
#include "ops/operator.h"

namespace gluond::ops {

// The attribute `key`, or `otherwise` where there is none.
inline std::string AttributeText(const AttrDict& dict, absl::string_view key, absl::string_view otherwise) {
  const auto it = dict.find(std::string_view(key.data(), key.size()));
  return it == dict.end() ? std::string(otherwise) : it->second;
}

// The client's operator that the attributes name. Attributes that are not the server's own are the client's.
inline CustomOperator OperatorOf(const AttrDict& dict) {
  CustomOperator op{AttributeText(dict, kScopeAttribute, ""), AttributeText(dict, "op_type", ""), {}};
  op.is_unknown_clients = op.scope.empty() && dict.contains(kScopeAttribute);
  op.host = CurrentCustomHost();
  for (const auto& [name, text] : dict) {
    if (name != "op_type" && name.rfind("__", 0) != 0) op.attrs.emplace(name, text);
  }
  return op;
}

// UNAVAILABLE: no server made the graph. FAILED_PRECONDITION: the graph does not say which one it is.
inline absl::StatusOr<CustomHost*> HostOf(const CustomOperator& op) {
  if (op.is_unknown_clients) {
    return absl::FailedPreconditionError(absl::StrCat(
        "custom operator '", op.op_type, "' is one client's own, and this graph does not say whose, as it comes from a "
        "checkpoint or a description; define the model with that client's operators and load the checkpoint into it, "
        "or share the operator before it is saved"));
  }
  if (op.host != nullptr) return op.host.get();
  return absl::UnavailableError(absl::StrCat("nobody computes the custom operator '", op.op_type, "' here"));
}

// FExecType: such calls end when the client has answered.
inline ExecType Async(const NodeAttrs&) { return ExecType::kAsync; }

// FAbandon of an operator whose parameters have `op`.
template <class Param>
void AbandonCall(const NodeAttrs& attrs, const ClientTime* run) {
  if (CustomHost* const host = attrs.param<Param>().op.host.get(); host != nullptr) host->Abandon(run);
}

// A gradient's node. It has the parameters of its forward pass, as no attribute tells the host.
template <class Param>
NodeEntry CallBackward(const char* op, std::vector<NodeEntry> inputs, const NodeAttrs& forward) {
  NodeEntry backward = Call(op, std::move(inputs), forward.dict);
  backward.node->attrs.Store(forward.param<Param>());
  return backward;
}

inline CustomCall NewCall(const CustomOperator& op, const OpContext& ctx) {
  CustomCall call;
  call.op = op;
  call.training = ctx.is_train;
  call.device = ctx.device;
  call.time = ctx.client_time;
  return call;
}

// Adds the outputs to `call`, as the results that the client is to compute.
template <class D>
absl::Status AddResults(Blobs out, Requests req, HostBlobs<D>* blobs, CustomCall* call) {
  for (size_t i = 0; i < out.size(); ++i) {
    ASSIGN_OR_RETURN(const TBlob blob, blobs->Output(out[i], req[i]));
    call->results.push_back(blob);
    call->requests.push_back(req[i]);
  }
  return absl::OkStatus();
}

}  // namespace gluond::ops

#endif  // OPS_CUSTOM_ATTRIBUTES_H_
