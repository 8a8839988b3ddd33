// CustomHost: who computes the operator Custom. The operator (ops/custom.cc) knows graphs; the host (server/custom/hosts.h)
// knows clients. A server has one. Whoever makes a graph for a server says so while attributes are parsed, and the nodes, and
// those of their gradients, keep the host:
//
//   const ScopedCustomHost host(devices.custom_host());
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

// The attribute that names the client which computes an operator. Who knows it has that client compute, so no graph leaves
// the server with it: it is there and empty then, which says that the operator is some client's own.
inline constexpr char kScopeAttribute[] = "__scope__";

class CustomHost;
using CustomHostPtr = std::shared_ptr<CustomHost>;

// Which operator of which client.
struct CustomOperator {
  std::string scope;  // Empty: a shared one.
  std::string op_type;
  AttrDict attrs;     // The client's own.
  bool is_unknown_clients = false;  // The graph has been outside, and does not say whose.
  CustomHostPtr host = nullptr;     // Null: nobody computes it.
};

// One forward or backward pass. Blobs are on the CPU. They stay valid, and nobody else's, until the call succeeds: it may be
// completed so when nobody uses them any more. Where it fails, or its run ends before, they stay until `completion` is gone.
// A blob without data is absent: not depended on, or not wanted.
struct CustomCall {
  enum Kind { kForward, kBackward, kFunction } kind = kForward;
  CustomOperator op;
  uint64_t instance = 0;  // Of kFunction: its number.
  bool keep = false;
  bool training = false;
  Device device;          // Where the graph runs.
  std::vector<TBlob> out_grads, arguments, outputs, auxiliary;
  std::vector<TBlob> results;        // Outputs of the forward pass, gradients of the backward one.
  std::vector<OpReqType> requests;   // Of the results; the host honours them.
  std::shared_ptr<ClientTime> time;  // Its run's, which makes one call at a time. The host adds to it before it completes.
  Completion completion;
};

// Of a custom operator's arguments, outputs and auxiliary states, each.
inline constexpr size_t kMostCustomArrays = 1000;

class CustomHost {
 public:
  virtual ~CustomHost() = default;

  // Begins the call; it ends by its completion. UNAVAILABLE: nobody computes the operator.
  virtual void Begin(CustomCall call) = 0;
  // A run, known by its CustomCall::time, has ended without waiting for its call: it was cancelled, or its deadline has
  // passed. The client that computes the call, if there is one, hears of it. From the run's lane; must not block.
  virtual void Abandon(const ClientTime* run) = 0;

  // What the client says of shapes and types, from the arguments' as far as they are known. What it said before is
  // remembered; otherwise it is asked, and the status is a pending fact (pending_fact.h). UNKNOWN: the client's own rule
  // has failed, as it may where it needs to know more. UNAVAILABLE: nobody computes the operator.
  struct Inference {
    ShapeVector arguments, outputs, auxiliary;
  };
  struct TypeInference {
    TypeVector arguments, outputs, auxiliary;
  };
  virtual absl::StatusOr<Inference> InferShape(const CustomOperator& op, const ShapeVector& arguments) = 0;
  virtual absl::StatusOr<TypeInference> InferType(const CustomOperator& op, const TypeVector& arguments) = 0;

  // A number for a forward pass that its backward pass names it by. The backward pass goes to the client that computes
  // the operator now, whoever else may have taken over a shared name by then.
  virtual uint64_t NextInstance(const CustomOperator& op) = 0;

  // To be held by whatever may call a function of kFunction. When the last lets go of it, the client may forget the function.
  virtual std::shared_ptr<const void> HoldFunction(const std::string& scope, uint64_t function) = 0;
};

// While it lives, the host, which lives longer, computes the operators whose attributes the calling thread parses.
class ScopedCustomHost {
 public:
  explicit ScopedCustomHost(const CustomHostPtr& host);
  ~ScopedCustomHost();
  ScopedCustomHost(const ScopedCustomHost&) = delete;
  ScopedCustomHost& operator=(const ScopedCustomHost&) = delete;

 private:
  const CustomHostPtr* const before_;
};
// The calling thread's. Null: there is none.
CustomHostPtr CurrentCustomHost();

// An operator's CustomHost::Abandon, for a run that waits for this node.
using FAbandon = std::function<void(const NodeAttrs& attrs, const ClientTime* run)>;

}  // namespace gluond

#endif  // ENGINE_CORE_CUSTOM_HOST_H_
