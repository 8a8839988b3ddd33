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
#include "engine/core/custom_spec.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/status_macros.h"
#include "ops/kernel/host_blobs.h"
#include "ops/operator.h"

namespace gluond::ops {

// The client's operator of a node with these attributes. Those that are not the server's own are the client's.
inline CustomOperator OperatorOf(const AttrDict& dict, const CustomSpec& spec) {
  CustomOperator op;
  for (const auto& [name, text] : dict) {
    if (name == "op_type") {
      op.op_type = text;
    } else if (name.rfind("__", 0) != 0) {
      op.attrs.emplace(name, text);
    }
  }
  const ScopedCustomHost* const current = ScopedCustomHost::Current();
  if (current != nullptr) {
    op.host = current->host();
    if (!spec.shared) op.scope = current->scope();
  }
  op.is_unknown_clients = !spec.shared && op.scope.empty();
  return op;
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
