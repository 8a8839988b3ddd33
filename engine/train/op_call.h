// OpCall: one operator on fixed memory, prepared once and run again and again without allocating, apart from any graph.
// For work on a lane.

#ifndef ENGINE_TRAIN_OP_CALL_H_
#define ENGINE_TRAIN_OP_CALL_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/op.h"
#include "engine/core/tensor.h"
#include "engine/runtime/lane.h"

namespace gluond {

class OpCall {
 public:
  // Writes output 0 to `out`, which may be an input that the operator updates in place.
  // NOT_FOUND: no such operator. INVALID_ARGUMENT: wrong attributes, or no stateless kernel on the lane's device.
  static absl::StatusOr<std::unique_ptr<OpCall>> Make(absl::string_view op, AttrDict attrs, std::vector<Tensor> in,
                                                      Tensor out, Lane& lane);

  // As SetParam.
  absl::Status Set(absl::string_view parameter, double value) { return SetParam(&attrs_, parameter, value); }
  // On the lane.
  absl::Status Run();

 private:
  explicit OpCall(Lane& lane) : lane_(lane) {}

  Lane& lane_;
  NodeAttrs attrs_;
  std::vector<Tensor> in_;
  Tensor out_;
  std::vector<TBlob> in_blobs_;
  TBlob out_blob_;
  OpReqType req_ = kWriteTo;
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_OP_CALL_H_
