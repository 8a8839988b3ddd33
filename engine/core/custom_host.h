// A CustomHost has clients compute the operator Custom. The operator (ops/custom.cc) knows graphs; the host
// (server/custom/hosts.h) knows clients. A server has one. Code that makes a graph for a server names the host while
// attributes are parsed, and with the host the client whose operators the graph's private ones are. The nodes, and
// the nodes of their gradients, keep both:
//
//   const ScopedCustomHost host(devices.custom_host(), request.host());
//   ASSIGN_OR_RETURN(const NodePtr node, TryMakeNode("Custom", ...));

#ifndef ENGINE_CORE_CUSTOM_HOST_H_
#define ENGINE_CORE_CUSTOM_HOST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/dtype.h"
#include "engine/core/node_attrs.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/op_context.h"
#include "engine/core/shape.h"
#include "engine/core/tensor.h"

namespace gluond {

class CustomHost;
using CustomHostPtr = std::shared_ptr<CustomHost>;

// One operator of one client.
struct CustomOperator {
  std::string scope;  // The client's credential. Empty: a shared one. No attribute has it, and so no graph does.
  std::string op_type;
  AttrDict attrs;                   // The client's own.
  bool is_unknown_clients = false;  // No credential came with the graph.
  CustomHostPtr host = nullptr;     // Null: nobody computes it.
  std::string owner = {};           // The identity that alone computes a shared one, as its host says. Empty: whoever shares it.
};

// One forward or backward pass. Blobs are on the CPU. They stay valid, and nobody else uses them, until the call
// succeeds: the host completes it when it is through with them. Where the call fails, or its run ends before, they stay
// until `completion` is gone. A blob without data is absent: the pass does not depend on it, or nobody wants it.
struct CustomCall {
  enum Kind { kForward, kBackward, kFunction } kind = kForward;
  CustomOperator op;
  uint64_t instance = 0;  // The function's number, for kFunction.
  bool keep = false;
  bool training = false;
  Device device;  // Where the graph runs.
  std::vector<TBlob> out_grads, arguments, outputs, auxiliary;
  std::vector<TBlob> results;        // Outputs of the forward pass, gradients of the backward one.
  std::vector<OpReqType> requests;   // One for each result; the host honours them.
  std::shared_ptr<ClientTime> time;  // The run's, which makes one call at a time. The host adds to it first.
  Completion completion;
};

class CustomHost {
 public:
  virtual ~CustomHost() = default;

  // Begins the call; it ends by its completion. UNAVAILABLE: nobody computes the operator.
  virtual void Begin(CustomCall call) = 0;
  // Tells that a run, known by its CustomCall::time, has ended without waiting for its call: it was cancelled, or its
  // deadline has passed. The client that computes the call, if there is one, hears of it. Called on the run's lane;
  // must not block.
  virtual void Abandon(const ClientTime* run) = 0;

  // The client's answer about shapes and types, from the arguments' as far as they are known. An earlier answer is
  // remembered; otherwise it is asked, and the status is a pending fact (pending_fact.h). UNKNOWN: the client's own
  // rule has failed, as it may where it needs to know more. UNAVAILABLE: nobody computes the operator.
  struct Inference {
    ShapeVector arguments, outputs, auxiliary;
  };
  struct TypeInference {
    TypeVector arguments, outputs, auxiliary;
  };
  virtual absl::StatusOr<Inference> InferShape(const CustomOperator& op, const ShapeVector& arguments) = 0;
  virtual absl::StatusOr<TypeInference> InferType(const CustomOperator& op, const TypeVector& arguments) = 0;

  // A number by which a backward pass names its forward pass. Both go to the client that computes the operator now, even
  // if another one has taken over a shared name by then.
  virtual uint64_t NextInstance(const CustomOperator& op) = 0;

  // Everything that may call a function of kFunction holds this pointer. When the last copy goes, the client may forget
  // the function.
  virtual std::shared_ptr<const void> HoldFunction(const std::string& scope, uint64_t function) = 0;
};

// The host of an operator. UNAVAILABLE: no server made the graph. FAILED_PRECONDITION: the graph does not say which one it is.
absl::StatusOr<CustomHost*> HostOf(const CustomOperator& op);

// While it lives, the host computes the operators whose attributes the calling thread parses.
// `scope` is the credential of the client that computes those of them that nobody shares; empty: no client is known.
class ScopedCustomHost {
 public:
  explicit ScopedCustomHost(CustomHostPtr host, std::string scope = {});
  ~ScopedCustomHost();
  ScopedCustomHost(const ScopedCustomHost&) = delete;
  ScopedCustomHost& operator=(const ScopedCustomHost&) = delete;

  // The calling thread's innermost one; null: none.
  static const ScopedCustomHost* Current();
  const CustomHostPtr& host() const { return host_; }
  const std::string& scope() const { return scope_; }

 private:
  const CustomHostPtr host_;
  const std::string scope_;
  const ScopedCustomHost* const before_;
};

// An operator's CustomHost::Abandon, for a run that waits for this node.
using FAbandon = std::function<void(const NodeAttrs& attrs, const ClientTime* run)>;
// The client's operator of a node that begins a forward pass, or of a recorded function.
using FCustomOperator = std::function<CustomOperator(const NodeAttrs& attrs)>;

}  // namespace gluond

#endif  // ENGINE_CORE_CUSTOM_HOST_H_
