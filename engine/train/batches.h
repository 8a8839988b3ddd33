// BatchSource: the batches of a trainer's pass: one batch that a client sent, or rows of a dataset.

#ifndef ENGINE_TRAIN_BATCHES_H_
#define ENGINE_TRAIN_BATCHES_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/nn/model.h"
#include "engine/train/dataset.h"

namespace gluond {

// The position in a dataset from which the next step draws its rows.
struct DatasetPosition {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  int64_t row = 0;
};

// Tensors are in the order of the trainer's inputs; a missing optional input is undefined.
struct Batch {
  std::vector<Tensor> host;
  std::vector<Tensor> device;
  int64_t samples = 0;
};

// Memory for batches, reused from step to step while their shapes stay the same. Only the model's strand uses it.
class Staging {
 public:
  Staging(const Model& model, size_t num_inputs) : options_(model.options()), host_(num_inputs), device_(num_inputs) {}

  absl::StatusOr<Tensor> Host(size_t input, const Shape& shape, DType dtype);
  // A copy on the device of `value`, which lies on the host.
  absl::StatusOr<Tensor> ToDevice(size_t input, const Tensor& value);

 private:
  const ModelOptions& options_;
  std::vector<Tensor> host_, device_;
};

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Whether there are no more batches.
  virtual bool done() const = 0;
  // Requires: not done().
  virtual absl::Status Next(Batch* batch) = 0;
  // The position behind the last batch; null if the batches are not from a dataset.
  virtual const DatasetPosition* position() const { return nullptr; }
};

// One batch; its tensors are converted to the inputs' types.
std::unique_ptr<BatchSource> SentBatch(std::vector<Tensor> tensors, const std::vector<ModelInput>& inputs, Staging* staging);

struct DatasetBatchesOptions {
  std::shared_ptr<const Dataset> dataset;
  int64_t batch_size = 0;
  int64_t batches = 0;  // The number of batches. 0: to `end`, in one epoch.
  DatasetPosition from;
  int64_t end = 0;  // One after the last row of an epoch that is used; 0: all.
  bool shuffle = true;
  bool keep_last = false;  // Uses a smaller last batch of an epoch.
  Tensor rows;             // int64 [n], on the CPU. If defined, the batches are these rows.
};

// FAILED_PRECONDITION: the dataset is not committed. INVALID_ARGUMENT: the dataset has no column for one of
// `inputs` but the last `optional`, rows of a shape that does not fit, or fewer rows than a batch. A batch size
// below 1 is INVALID_ARGUMENT, too, and so is a position outside the dataset.
absl::StatusOr<std::unique_ptr<BatchSource>> DatasetBatches(DatasetBatchesOptions options, const std::vector<ModelInput>& inputs,
                                                            size_t optional, Staging* staging);

}  // namespace gluond

#endif  // ENGINE_TRAIN_BATCHES_H_
