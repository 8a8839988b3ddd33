// StepGraph: the graph of a training step, of an evaluation, or of an update alone; and the graphs of one trainer. Only the
// model's strand uses them.
//
// Outputs before the pause are a report, the prediction if there are metrics, and gradients. The report is float64: the losses of
// the batch and, if the norm is wanted, the sum of squares of each gradient. An update alone has only the squares. After the
// pause come the parameters and their states, whose numbers are in memory of the graph's own.
//
// A step in shards (sharded_step.h) has two graphs: one computes a shard, and leaves its gradients as parts of ShardSums; the other
// updates from the sums.

#ifndef ENGINE_TRAIN_STEP_GRAPH_H_
#define ENGINE_TRAIN_STEP_GRAPH_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/nn/bound_graph.h"
#include "engine/nn/model.h"
#include "engine/runtime/task.h"
#include "engine/train/trainer.h"
#include "engine/train/updater.h"

namespace gluond {

template <class Made>
class GraphTable;
class ShardSums;

inline constexpr char kLabel[] = "label", kSampleWeight[] = "sample_weight";

// Whether the gradients' norm decides what a step does.
inline bool NormDecides(const TrainerOptions& options) { return options.skip_nonfinite || options.clip_global_norm > 0; }
// Whether a step computes the norm, for that or to report it.
inline bool WantsNorm(const TrainerOptions& options) { return NormDecides(options) || options.report_norm; }

struct StepGraph {
  std::unique_ptr<BoundGraph> graph;
  Updater::Numbers numbers;
  std::vector<size_t> parameters;  // A shard's: whose gradients the last outputs are, as backward makes them.
};
using StepGraphPtr = std::shared_ptr<StepGraph>;

class StepGraphs {
 public:
  // `inputs`: the trainer's. References must outlive the graphs.
  StepGraphs(Model& model, const TrainerOptions& options, const std::vector<ModelInput>& inputs, size_t prediction,
             Updater& updater);
  ~StepGraphs();

  // Makes the graph of a step on batches without weights. INVALID_ARGUMENT: see Trainer::Create.
  absl::Status MakeFirst();
  // The graph of a step, or of an evaluation, for batches with or without sample weights.
  Task<absl::StatusOr<StepGraphPtr>> OfStep(bool train, bool weighted, std::shared_ptr<Cancellation> cancellation);
  // The graph that updates these parameters from the gradients that they have.
  Task<absl::StatusOr<StepGraphPtr>> OfUpdate(std::vector<size_t> parameters, std::shared_ptr<Cancellation> cancellation);
  // The graph of a shard. `sums`, which outlive the graphs, have the gradient of `parameters[i]` as item i.
  Task<absl::StatusOr<StepGraphPtr>> OfShard(bool weighted, const ShardSums& sums, std::shared_ptr<Cancellation> cancellation);
  // The graph that updates these parameters from those sums.
  Task<absl::StatusOr<StepGraphPtr>> OfSums(std::vector<size_t> parameters, const ShardSums& sums,
                                            std::shared_ptr<Cancellation> cancellation);
  // See Trainer::ReportStep. Any thread.
  absl::StatusOr<ProgramReport> Report(const absl::flat_hash_map<std::string, Shape>& given) const;

 private:
  // The outputs before the pause, and what the rest is made of.
  struct Nodes {
    std::vector<GraphOutput> first;
    BoundGraphOptions options;
    std::vector<size_t> parameters;
    std::vector<NodeEntry> gradients;  // By parameter.
  };
  // Adds the inputs, and what tells of the loss, which it returns.
  absl::StatusOr<NodeEntry> AddLoss(bool train, bool weighted, Nodes* nodes) const;
  // Adds what tells of the gradients of an update alone.
  void AddSquares(Nodes* nodes) const;
  absl::StatusOr<Nodes> StepNodes(bool train, bool weighted, const ParameterStore& parameters) const;
  absl::StatusOr<GraphRest> Rest(const Nodes& nodes, const ParameterStore& parameters, JointUpdate* joint) const;
  absl::StatusOr<StepGraphPtr> MakeStep(bool train, bool weighted) const;
  absl::StatusOr<StepGraphPtr> MakeUpdate(std::vector<size_t> parameters) const;
  absl::StatusOr<StepGraphPtr> MakeShard(bool weighted, const ShardSums& sums) const;
  absl::StatusOr<StepGraphPtr> MakeUpdateOfSums(std::vector<size_t> parameters, const ShardSums& sums) const;
  absl::StatusOr<StepGraphPtr> Bind(Nodes nodes) const;
  // The inputs without "sample_weight" where batches have none.
  std::vector<ModelInput> Inputs(bool weighted) const;

  Model& model_;
  const TrainerOptions& trainer_;
  const std::vector<ModelInput>& inputs_;
  const size_t prediction_;
  Updater& updater_;
  std::string prefix_ = "__";  // No input and no parameter has a name that begins so.
  const std::unique_ptr<GraphTable<StepGraph>> graphs_;
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_STEP_GRAPH_H_
