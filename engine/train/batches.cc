#include "engine/train/batches.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/convert.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/transfer.h"

namespace gluond {
namespace {

int64_t SamplesOf(const Tensor& tensor) { return tensor.shape().ndim() > 0 ? tensor.shape()[0] : 1; }

class Sent : public BatchSource {
 public:
  Sent(std::vector<Tensor> tensors, const std::vector<ModelInput>& inputs, Staging* staging)
      : tensors_(std::move(tensors)), inputs_(inputs), staging_(staging) {}

  bool done() const override { return done_; }

  absl::Status Next(Batch* batch) override {
    done_ = true;
    batch->samples = SamplesOf(tensors_[0]);
    batch->host = tensors_;
    batch->device.resize(tensors_.size());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      Tensor& value = batch->host[i];
      if (!value.defined()) continue;
      if (value.dtype() != inputs_[i].dtype) {
        ASSIGN_OR_RETURN(Tensor converted, staging_->Host(i, value.shape(), inputs_[i].dtype));
        ConvertValues(value.data(), value.dtype(), converted.data(), converted.dtype(), value.Size());
        value = std::move(converted);
      }
      ASSIGN_OR_RETURN(batch->device[i], staging_->ToDevice(i, value));
    }
    return absl::OkStatus();
  }

 private:
  const std::vector<Tensor> tensors_;
  const std::vector<ModelInput>& inputs_;
  Staging* const staging_;
  bool done_ = false;
};

class FromDataset : public BatchSource {
 public:
  FromDataset(DatasetBatchesOptions options, const std::vector<ModelInput>& inputs, std::vector<int> columns, Staging* staging)
      : options_(std::move(options)), inputs_(inputs), columns_(std::move(columns)), staging_(staging), position_(options_.from) {}

  bool done() const override {
    if (options_.batches > 0 && drawn_ == options_.batches) return true;
    if (options_.rows.defined()) return given_ == options_.rows.Size();
    return options_.batches == 0 && !EpochHasMore();
  }

  absl::Status Next(Batch* batch) override {
    ASSIGN_OR_RETURN(const absl::Span<const int64_t> rows, options_.rows.defined() ? NextGivenRows() : NextRows());
    ++drawn_;
    batch->samples = static_cast<int64_t>(rows.size());
    batch->host.assign(inputs_.size(), Tensor());
    batch->device.assign(inputs_.size(), Tensor());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (columns_[i] < 0) continue;
      const auto column = static_cast<size_t>(columns_[i]);
      Shape shape = {batch->samples};
      for (int64_t dim : options_.dataset->columns()[column].row_shape.dims()) shape.Append(dim);
      ASSIGN_OR_RETURN(batch->host[i], staging_->Host(i, shape, inputs_[i].dtype));
      RETURN_IF_ERROR(options_.dataset->Gather(column, rows, batch->host[i]));
      ASSIGN_OR_RETURN(batch->device[i], staging_->ToDevice(i, batch->host[i]));
    }
    return absl::OkStatus();
  }

  const DatasetPosition* position() const override { return options_.rows.defined() ? nullptr : &position_; }

 private:
  bool EpochHasMore() const {
    const int64_t rest = options_.end - position_.row;
    return rest >= options_.batch_size || (options_.keep_last && rest > 0);
  }

  absl::StatusOr<absl::Span<const int64_t>> NextGivenRows() {
    const int64_t begin = given_, count = std::min(options_.rows.Size() - begin, options_.batch_size);
    given_ += count;
    return Numbers(options_.rows, begin, count);
  }

  absl::StatusOr<absl::Span<const int64_t>> NextRows() {
    if (!EpochHasMore()) {
      ++position_.epoch;
      position_.row = 0;
    }
    const int64_t begin = position_.row, count = std::min(options_.end - begin, options_.batch_size);
    if (options_.shuffle) {
      if (!order_.defined() || order_epoch_ != position_.epoch) {
        ASSIGN_OR_RETURN(order_, options_.dataset->Order(position_.seed, position_.epoch));
        order_epoch_ = position_.epoch;
      }
    } else {
      ASSIGN_OR_RETURN(plain_, options_.dataset->Rows({.first = begin, .count = count, .shuffle = false}));
    }
    position_.row += count;
    return options_.shuffle ? Numbers(order_, begin, count) : Numbers(plain_, 0, count);
  }

  static absl::Span<const int64_t> Numbers(const Tensor& rows, int64_t begin, int64_t count) {
    return {rows.data<int64_t>() + begin, static_cast<size_t>(count)};
  }

  const DatasetBatchesOptions options_;
  const std::vector<ModelInput>& inputs_;
  const std::vector<int> columns_;  // By input; -1: none.
  Staging* const staging_;
  DatasetPosition position_;
  int64_t drawn_ = 0;  // Batches.
  int64_t given_ = 0;  // Rows of options_.rows drawn so far.
  Tensor order_;
  uint64_t order_epoch_ = 0;
  Tensor plain_;  // Rows in their own order.
};

absl::Status CheckColumn(const Column& column, const ModelInput& input) {
  Shape shape = {Shape::kUnknown};
  for (int64_t dim : column.row_shape.dims()) shape.Append(dim);
  Shape merged = input.shape;
  if (ShapeAssign(&merged, shape)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("column '", column.name, "' has rows of shape ", column.row_shape.ToString(),
                                                 "; the model's input wants batches ", input.shape.ToString()));
}

}  // namespace

absl::StatusOr<Tensor> Staging::Host(size_t input, const Shape& shape, DType dtype) {
  return Reuse(&host_[input], shape, dtype, *options_.host_allocator);
}

absl::StatusOr<Tensor> Staging::ToDevice(size_t input, const Tensor& value) {
  if (options_.lane->device().type == DeviceType::kCpu) return value;
  RETURN_IF_ERROR(CopyInto(&device_[input], value, options_.lane->lanes(), *options_.allocator));
  return device_[input];
}

std::unique_ptr<BatchSource> SentBatch(std::vector<Tensor> tensors, const std::vector<ModelInput>& inputs, Staging* staging) {
  return std::make_unique<Sent>(std::move(tensors), inputs, staging);
}

absl::StatusOr<std::unique_ptr<BatchSource>> DatasetBatches(DatasetBatchesOptions options, const std::vector<ModelInput>& inputs,
                                                            size_t optional, Staging* staging) {
  const Dataset& dataset = *options.dataset;
  if (!dataset.committed()) return absl::FailedPreconditionError("the dataset is not committed yet");
  if (options.batch_size < 1) {
    return absl::InvalidArgumentError(absl::StrCat("batch_size is ", options.batch_size, "; want 1 or more"));
  }
  if (!options.rows.defined() && !options.keep_last && options.batch_size > dataset.rows()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", options.batch_size, " rows is more than the dataset's ", dataset.rows()));
  }
  if (options.end == 0) options.end = dataset.rows();
  if (options.from.row < 0 || options.from.row > options.end || options.end > dataset.rows()) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows [", options.from.row, ", ", options.end, ") are not within the dataset's ", dataset.rows()));
  }
  std::vector<int> columns;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const absl::StatusOr<size_t> column = dataset.FindColumn(inputs[i].name);
    if (!column.ok() && i + optional < inputs.size()) {
      return absl::InvalidArgumentError(absl::StrCat("input '", inputs[i].name, "': ", column.status().message()));
    }
    if (column.ok()) RETURN_IF_ERROR(CheckColumn(dataset.columns()[*column], inputs[i]));
    columns.push_back(column.ok() ? static_cast<int>(*column) : -1);
  }
  return std::make_unique<FromDataset>(std::move(options), inputs, std::move(columns), staging);
}

}  // namespace gluond
