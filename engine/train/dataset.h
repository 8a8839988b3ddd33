// Dataset: rows on the server, as named columns of equal length; immutable once committed. A batch is drawn by
// explicit indices, or as a range of an epoch's order. That order depends on (seed, epoch) and the number of rows
// alone: a resumed run draws the same rows.
//
//   ASSIGN_OR_RETURN(auto dataset, Dataset::Create({{"data", {1, 28, 28}, DType::kUint8, 1 / 255.0},
//                                                   {"label", Shape::Scalar(), DType::kUint8}}, 60000, memory));
//   RETURN_IF_ERROR(dataset->Append("data", bytes)); ...
//   RETURN_IF_ERROR(dataset->Commit());

#ifndef ENGINE_TRAIN_DATASET_H_
#define ENGINE_TRAIN_DATASET_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/core/mutex.h"
#include "engine/core/tensor.h"

namespace gluond {

struct Column {
  std::string name;
  Shape row_shape;  // One row's; Shape::Scalar() for a label.
  DType dtype = DType::kFloat32;
  // A batch holds scale * value + shift, in the type that the model wants. A scale of 1/255 suits bytes of images.
  double scale = 1;
  double shift = 0;
};

// A range of an epoch's order.
struct RowRange {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  int64_t first = 0;
  int64_t count = 0;
  bool shuffle = true;  // Otherwise rows come in their own order.
};

// Thread-safe.
class Dataset {
 public:
  // INVALID_ARGUMENT: no columns or rows, a name twice, an unknown shape. RESOURCE_EXHAUSTED: as Allocator::Allocate.
  // `host_allocator` outlives the dataset.
  static absl::StatusOr<std::shared_ptr<Dataset>> Create(std::vector<Column> columns, int64_t rows, Allocator& host_allocator);
  // A committed dataset of whole columns, which it shares: tensors on the CPU whose first axis has one place per row.
  // Row shapes and dtypes are the tensors'. INVALID_ARGUMENT as Create, and for tensors that do not fit together.
  static absl::StatusOr<std::shared_ptr<Dataset>> FromTensors(std::vector<Column> columns, std::vector<Tensor> tensors,
                                                              Allocator& host_allocator);

  // The next bytes of a column, row-major and little-endian. OUT_OF_RANGE: more than the column holds.
  // FAILED_PRECONDITION: the dataset is committed.
  absl::Status Append(absl::string_view column, absl::string_view bytes);
  // The number of bytes that the column has so far; an interrupted upload goes on from there.
  absl::StatusOr<int64_t> bytes_appended(absl::string_view column) const;
  // FAILED_PRECONDITION: a column is not full; says how many bytes it lacks.
  absl::Status CheckFull() const;
  // As CheckFull.
  absl::Status Commit();
  bool committed() const;

  const std::vector<Column>& columns() const { return columns_; }
  int64_t rows() const { return rows_; }
  int64_t bytes() const;
  // The rows of a column, one after the other. Requires: the column is full.
  const Tensor& tensor(size_t column) const { return tensors_[column]; }
  // NOT_FOUND lists the closest names.
  absl::StatusOr<size_t> FindColumn(absl::string_view name) const;

  // All row numbers, int64 [rows()], in the order of an epoch. The last few orders are kept while there is memory for
  // them: they may be larger than the rows. RESOURCE_EXHAUSTED: as Allocator::Allocate.
  absl::StatusOr<Tensor> Order(uint64_t seed, uint64_t epoch) const;
  // The row numbers of a range, int64 [range.count]. INVALID_ARGUMENT: outside [0, rows()]. RESOURCE_EXHAUSTED: as
  // Order.
  absl::StatusOr<Tensor> Rows(const RowRange& range) const;

  // Copies rows of a column into `batch`, whose first axis has one place per row; scales, shifts and converts them to
  // the batch's dtype. Requires: committed; a batch on the CPU, of the column's row shape. OUT_OF_RANGE: no such row.
  absl::Status Gather(size_t column, absl::Span<const int64_t> rows, const Tensor& batch) const;

 private:
  Dataset(std::vector<Column> columns, int64_t rows, Allocator& host_allocator, std::vector<Tensor> tensors)
      : columns_(std::move(columns)),
        rows_(rows),
        host_allocator_(host_allocator),
        tensors_(std::move(tensors)),
        appended_(columns_.size()) {}
  absl::Status CheckFullLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::StatusOr<Tensor> Numbers(int64_t count) const;

  struct KeptOrder {
    uint64_t seed;
    uint64_t epoch;
    Tensor rows;
  };

  const std::vector<Column> columns_;
  const int64_t rows_;
  Allocator& host_allocator_;
  const std::vector<Tensor> tensors_;  // By column. Written before the commit under mu_, read after it without.

  mutable Mutex mu_;
  std::vector<int64_t> appended_ ABSL_GUARDED_BY(mu_);
  bool committed_ ABSL_GUARDED_BY(mu_) = false;
  mutable std::vector<KeptOrder> orders_ ABSL_GUARDED_BY(mu_);  // The most recent last.
};

}  // namespace gluond

#endif  // ENGINE_TRAIN_DATASET_H_
