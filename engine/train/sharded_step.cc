#include "engine/train/sharded_step.h"

#include <algorithm>
#include <bit>

#include "absl/strings/str_cat.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/train/gradient_reducer.h"
#include "engine/train/trainer_parts.h"

namespace gluond {
namespace {

bool IsPowerOfTwo(int64_t n) { return n > 0 && std::has_single_bit(static_cast<uint64_t>(n)); }

absl::Status CheckSpec(const Spec& loss) {
  const auto refuse = [&loss](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("a step in shards needs a loss with one value for each row, but ", loss.type, " ", why));
  };
  if (loss.type == "PoissonNLLLoss") return refuse("is one number for the batch; take another loss");
  for (const auto& [name, value] : loss.attrs) {
    if (name == "batch_axis" && value != "0") return refuse(absl::StrCat("has batch_axis ", Excerpt(value), "; make it 0"));
    if (name == "layout" && value == "TNC") return refuse("has layout TNC; let the batch be axis 0: NTC");
    if (name == "label_layout" && value == "TN") return refuse("has label_layout TN; let the batch be axis 0: NT");
  }
  return absl::OkStatus();
}

// Whether axis 0 may have any size.
bool HasOpenBatch(const Shape& shape) { return !shape.rank_known() || (shape.ndim() > 0 && shape[0] == Shape::kUnknown); }

// The bytes that steps of so many shards keep.
struct ShardBytes {
  int64_t sums = 0;         // The sums of all levels.
  int64_t auxiliaries = 0;  // A shard's own auxiliary states.
  int64_t largest = 0;      // The largest gradient's sum.
  int64_t level = 0;        // The sums of one level.
};

// INVALID_ARGUMENT: the count, or a parameter whose shape is not known yet.
absl::StatusOr<ShardBytes> BytesOfShards(const std::vector<Parameter>& parameters, size_t metrics, int64_t count) {
  if (!IsPowerOfTwo(count)) return absl::InvalidArgumentError(absl::StrCat("count is ", count, "; want a power of two"));
  ShardBytes shards;
  std::vector<Signature> items;
  int64_t numbers = 0;
  for (const Parameter& p : parameters) {
    ASSIGN_OR_RETURN(const int64_t bytes,
                     Annotate(CheckedBytes(p.shape, SizeOf(p.dtype)), absl::StrCat("parameter '", Excerpt(p.name), "'")));
    if (p.grad_req != GradReq::kNull) {
      items.push_back({p.shape, ShardSums::SumType(p.dtype)});
      shards.largest = std::max(shards.largest, p.shape.Size() * SizeOf(items.back().dtype));
    }
    if (!p.auxiliary) continue;
    numbers += p.shape.Size();
    shards.auxiliaries += bytes;
  }
  items.push_back({{MessageSize(numbers, metrics)}, DType::kFloat64});
  ASSIGN_OR_RETURN(shards.sums, ShardSums::Bytes(items, count));
  ASSIGN_OR_RETURN(shards.level, ShardSums::Bytes(items, 1));
  return shards;
}

}  // namespace

absl::Status ShardedStep::Check() const {
  if (rows < 1 || rows > kMostRows) {
    return absl::InvalidArgumentError(absl::StrCat("a step in shards has ", rows, " rows; want 1 to ", kMostRows));
  }
  if (!IsPowerOfTwo(shards) || shards > kMostShards) {
    return absl::InvalidArgumentError(absl::StrCat("a step has ", shards, " shards; want a power of two, at most ", kMostShards));
  }
  const bool fits = count == 0 || (IsPowerOfTwo(count) && first % count == 0);
  if (!fits || first < 0 || first > shards - count) {
    return absl::InvalidArgumentError(absl::StrCat("a process has the ", count, " shards from ", first, " of ", shards,
                                                   "; want a power of two of them, which divides the first one's number"));
  }
  return absl::OkStatus();
}

absl::Status Trainer::CheckSharded() const {
  for (const ModelInput& input : model_->inputs()) {
    if (HasOpenBatch(input.shape)) continue;
    return absl::InvalidArgumentError(absl::StrCat("input '", Excerpt(input.name), "' has shape ", input.shape.ToString(),
                                                   ", but a step in shards needs batches of any size in axis 0; make it -1"));
  }
  RETURN_IF_ERROR(CheckSpec(options_.loss));
  const ModelOutput& prediction = model_->outputs()[prediction_];
  if (const Shape& shape = prediction.signature.shape; options_.loss.type.empty() && !HasOpenBatch(shape)) {
    return absl::InvalidArgumentError(absl::StrCat("output '", Excerpt(prediction.name), "', which is the loss, has shape ",
                                                   shape.ToString(),
                                                   ", but a step in shards needs values for each row, in axis 0"));
  }
  absl::Status status;
  PostOrderVisit(model_->definition().outputs, [&status](const NodePtr& node) {
    if (node->is_variable() || !status.ok()) return;
    const auto found = node->attrs.dict.find("normalization");
    if (found == node->attrs.dict.end() || found->second == "null") return;
    status = absl::InvalidArgumentError(
        absl::StrCat("operator '", Excerpt(node->name()), "' (", node->op()->name(), ") has normalization ", Excerpt(found->second),
                     ", which divides by numbers of one shard; make it null: a step divides by the batch's rows"));
  });
  return status;
}

absl::StatusOr<int64_t> Trainer::ShardedBytes(int64_t count) const {
  ASSIGN_OR_RETURN(const ShardBytes bytes, BytesOfShards(model_->parameters().List(), parts_->metrics.size(), count));
  return bytes.sums + bytes.auxiliaries;
}

absl::Status Trainer::ReserveShards(int64_t count) {
  const std::vector<Parameter> parameters = model_->parameters().List();
  if (std::any_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return !p.shape.known(); })) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ShardBytes bytes, BytesOfShards(parameters, parts_->metrics.size(), count));
  // A bucket has less than kBucketBytes before its last gradient.
  const int64_t reducers = GradientReducer::ScratchBytes(static_cast<int64_t>(ShardSums::kBucketBytes) + bytes.largest);
  const ShardSums::Needs needs = {.sums = bytes.sums, .at_first = bytes.auxiliaries, .level = bytes.level, .reducer = reducers};
  return Annotate(parts_->sums.Reserve(needs), absl::StrCat("a group's steps in ", count, " shards"));
}

}  // namespace gluond
