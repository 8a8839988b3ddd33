// DirectRun: the tensors that an operator runs on, once its values are known. Private to engine/imperative.

#ifndef ENGINE_IMPERATIVE_DIRECT_H_
#define ENGINE_IMPERATIVE_DIRECT_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/kernel_cache.h"
#include "engine/core/philox.h"
#include "engine/core/tensor.h"
#include "engine/imperative/prepared_op.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/lane.h"

namespace gluond {

class ConstantTensors;
struct GraphCall;

struct DirectRun {
  std::vector<Tensor> inputs;  // The call may overwrite an input whose memory nobody else holds.
  std::vector<bool> wanted;    // By output.
  bool training = false;
  Philox random;
  std::vector<Tensor> again;  // The inputs of a graph whose run may have to be made again, without constants.
  // Results.
  std::vector<Tensor> outputs;
  std::vector<Tensor> written;  // By OpFacts::mutated. A call that has failed leaves the inputs here as they were.

  // RunDirectly's own, kept here so that a run allocates nothing for them.
  ShapeVector in_shapes, out_shapes;
  TypeVector in_types, out_types;
  std::vector<TBlob> in, out;
  std::vector<OpReqType> req;
};

// Single calls on a lane find here again what kernels have prepared, and the shapes of the calls before. `payer`: as of
// KernelCache.
struct DirectCaches {
  explicit DirectCaches(Allocator* payer) : kernels(512, payer), shapes(1024, payer) {}
  KernelCache kernels, shapes;
};

// Infers, allocates and runs the kernel, on the lane's thread. Errors name the operator. Releases the inputs. `constants` hears
// of the inputs that the call writes.
absl::Status RunDirectly(const PreparedOp& op, Lane& lane, Allocator& allocator, ConstantTensors& constants, DirectCaches& caches,
                         DirectRun* run);

// A Run of the graph on the inputs. Takes run->written from the inputs, as copies: operators may fail behind those that
// write. `before` are the tensors themselves. A prediction finds the values of the graph's constants in
// `constants`, and leaves them there.
absl::StatusOr<Run> BindGraph(const GraphCall& graph, Executor& executor, Lane& lane, Allocator& allocator,
                              const std::shared_ptr<ConstantTensors>& constants, DirectRun* run, std::vector<Tensor>* before);
// The run that a backward call goes on with. The call is given a copy where somebody may call it again, as with retain_graph.
absl::StatusOr<PausedRun> TakePaused(Tensor paused_call, Executor& executor);

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_DIRECT_H_
