#include "engine/train/dataset.h"

#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/convert.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/fair_semaphore.h"
#include "engine/runtime/random_stream.h"
#include "engine/runtime/tuning.h"

namespace gluond {
namespace {

constexpr size_t kKeptOrders = 4;

// Fisher and Yates. Element i changes places with one of [0, i], chosen by 64 random bits of its own.
void Permute(uint64_t seed, uint64_t epoch, absl::Span<int64_t> order) {
  const auto n = static_cast<int64_t>(order.size());
  FairSemaphore::OfLongWork().DoInPieces(
      n, tuning::kLongWorkPiece, [&](int64_t begin, int64_t end) { std::iota(order.data() + begin, order.data() + end, begin); });
  const Philox random = RandomStream(seed, RandomDomain::kOrder, epoch);
  FairSemaphore::OfLongWork().DoInPieces(n, tuning::kLongWorkPiece, [&](int64_t begin, int64_t end) {
    for (int64_t i = n - 1 - begin; i > n - 1 - end; --i) {
      const Philox::Block block = random(static_cast<uint64_t>(i));
      const uint64_t bits = uint64_t{block.word[0]} << 32 | block.word[1];
      const auto j = static_cast<int64_t>(static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(i + 1) >> 64);
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(j)]);
    }
  });
}

std::string Where(const Column& column) { return absl::StrCat("column '", Excerpt(column.name), "'"); }

absl::Status CheckColumns(const std::vector<Column>& columns, int64_t rows) {
  if (columns.empty()) return absl::InvalidArgumentError("a dataset has at least one column");
  if (rows < 1) return absl::InvalidArgumentError(absl::StrCat("a dataset has at least one row, got ", rows));
  for (size_t i = 0; i < columns.size(); ++i) {
    const Column& column = columns[i];
    const std::string where = Where(column);
    for (size_t j = 0; j < i; ++j) {
      if (columns[j].name == column.name) return absl::InvalidArgumentError(absl::StrCat("two are named ", where));
    }
    if (column.name.empty() || !column.row_shape.known() || column.row_shape.ndim() >= Shape::kMaxRank ||
        column.dtype == DType::kUnknown) {
      return absl::InvalidArgumentError(absl::StrCat(where, " of ", Name(column.dtype), " rows of shape ",
                                                     column.row_shape.ToString(),
                                                     ": want a name, a type and a known "
                                                     "shape of at most ",
                                                     Shape::kMaxRank - 1, " dimensions"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<Dataset>> Dataset::Create(std::vector<Column> columns, int64_t rows, Allocator& host_allocator) {
  RETURN_IF_ERROR(CheckColumns(columns, rows));
  std::vector<Tensor> tensors;
  for (const Column& column : columns) {
    Shape shape = {rows};
    for (int64_t dim : column.row_shape.dims()) shape.Append(dim);
    absl::StatusOr<Tensor> tensor = Tensor::Empty(host_allocator, shape, column.dtype);
    if (!tensor.ok()) return Annotate(tensor.status(), Where(column));
    tensors.push_back(*std::move(tensor));
  }
  return std::shared_ptr<Dataset>(new Dataset(std::move(columns), rows, host_allocator, std::move(tensors)));
}

absl::StatusOr<std::shared_ptr<Dataset>> Dataset::FromTensors(std::vector<Column> columns, std::vector<Tensor> tensors,
                                                              Allocator& host_allocator) {
  if (columns.size() != tensors.size()) {
    return absl::InvalidArgumentError(absl::StrCat(columns.size(), " columns have ", tensors.size(), " tensors"));
  }
  std::vector<int64_t> bytes;
  for (size_t i = 0; i < columns.size(); ++i) {
    const Shape& shape = tensors[i].shape();
    if (shape.ndim() < 1 || shape[0] != tensors[0].shape()[0]) {
      return absl::InvalidArgumentError(absl::StrCat(Where(columns[i]), " has the shape ", shape.ToString(), ", the first one ",
                                                     tensors[0].shape().ToString(), "; want as many rows in each"));
    }
    columns[i].row_shape = Shape(shape.begin() + 1, shape.end());
    columns[i].dtype = tensors[i].dtype();
    bytes.push_back(static_cast<int64_t>(tensors[i].bytes()));
  }
  const int64_t rows = columns.empty() ? 0 : tensors[0].shape()[0];
  RETURN_IF_ERROR(CheckColumns(columns, rows));
  std::shared_ptr<Dataset> dataset(new Dataset(std::move(columns), rows, host_allocator, std::move(tensors)));
  MutexLock lock(dataset->mu_);
  dataset->appended_ = std::move(bytes);
  dataset->committed_ = true;
  return dataset;
}

absl::StatusOr<size_t> Dataset::FindColumn(absl::string_view name) const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].name == name) return i;
  }
  std::vector<std::string> names;
  for (const Column& column : columns_) names.push_back(column.name);
  return absl::NotFoundError(absl::StrCat("the dataset has no column '", Excerpt(name), "'", DidYouMean(name, names)));
}

absl::Status Dataset::Append(absl::string_view column, absl::string_view bytes) {
  ASSIGN_OR_RETURN(const size_t i, FindColumn(column));
  MutexLock lock(mu_);
  if (committed_) return absl::FailedPreconditionError("the dataset is committed: its rows stay as they are");
  const auto size = static_cast<int64_t>(tensors_[i].bytes());
  if (static_cast<int64_t>(bytes.size()) > size - appended_[i]) {
    return absl::OutOfRangeError(absl::StrCat("column '", column, "' has ", size, " bytes; ", appended_[i], " are there, ",
                                              bytes.size(), " more are too many"));
  }
  std::memcpy(tensors_[i].data<char>() + appended_[i], bytes.data(), bytes.size());
  appended_[i] += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Dataset::bytes_appended(absl::string_view column) const {
  ASSIGN_OR_RETURN(const size_t i, FindColumn(column));
  MutexLock lock(mu_);
  return appended_[i];
}

absl::Status Dataset::CheckFull() const {
  MutexLock lock(mu_);
  return CheckFullLocked();
}

absl::Status Dataset::Commit() {
  MutexLock lock(mu_);
  RETURN_IF_ERROR(CheckFullLocked());
  committed_ = true;
  return absl::OkStatus();
}

absl::Status Dataset::CheckFullLocked() const {
  for (size_t i = 0; i < columns_.size(); ++i) {
    const int64_t missing = static_cast<int64_t>(tensors_[i].bytes()) - appended_[i];
    if (missing == 0) continue;
    return absl::FailedPreconditionError(absl::StrCat("column '", columns_[i].name, "' lacks ", missing, " of ",
                                                      tensors_[i].bytes(), " bytes; append them, then commit"));
  }
  return absl::OkStatus();
}

bool Dataset::committed() const {
  MutexLock lock(mu_);
  return committed_;
}

int64_t Dataset::bytes() const {
  int64_t sum = 0;
  for (const Tensor& tensor : tensors_) sum += static_cast<int64_t>(tensor.bytes());
  return sum;
}

// Drops kept orders if there is no memory.
absl::StatusOr<Tensor> Dataset::Numbers(int64_t count) const {
  absl::StatusOr<Tensor> numbers = Tensor::Empty(host_allocator_, {count}, DType::kInt64);
  if (numbers.ok() || !absl::IsResourceExhausted(numbers.status())) return numbers;
  {
    MutexLock lock(mu_);
    orders_.clear();
  }
  return Tensor::Empty(host_allocator_, {count}, DType::kInt64);
}

absl::StatusOr<Tensor> Dataset::Order(uint64_t seed, uint64_t epoch) const {
  {
    MutexLock lock(mu_);
    for (const KeptOrder& order : orders_) {
      if (order.seed == seed && order.epoch == epoch) return order.rows;
    }
  }
  // The lock is not held: an order of many rows takes long. Two threads that want the same order both make it.
  ASSIGN_OR_RETURN(Tensor rows, Numbers(rows_));
  Permute(seed, epoch, {rows.data<int64_t>(), static_cast<size_t>(rows_)});
  MutexLock lock(mu_);
  if (orders_.size() == kKeptOrders) orders_.erase(orders_.begin());
  orders_.push_back({seed, epoch, rows});
  return rows;
}

absl::StatusOr<Tensor> Dataset::Rows(const RowRange& range) const {
  if (range.first < 0 || range.count < 0 || range.first > rows_ || range.count > rows_ - range.first) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows [", range.first, ", ", range.first, " + ", range.count, ") are not within the dataset's ", rows_));
  }
  if (range.shuffle) {
    ASSIGN_OR_RETURN(const Tensor order, Order(range.seed, range.epoch));
    const auto offset = static_cast<size_t>(range.first) * sizeof(int64_t);
    return Tensor(order.buffer(), offset, {range.count}, DType::kInt64);
  }
  ASSIGN_OR_RETURN(Tensor rows, Numbers(range.count));
  std::iota(rows.data<int64_t>(), rows.data<int64_t>() + range.count, range.first);
  return rows;
}

absl::Status Dataset::Gather(size_t column, absl::Span<const int64_t> rows, const Tensor& batch) const {
  const Column& from = columns_[column];
  const int64_t elements = from.row_shape.Size();
  const int64_t from_bytes = elements * SizeOf(from.dtype), to_bytes = elements * SizeOf(batch.dtype());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] >= rows_) {
      return absl::OutOfRangeError(absl::StrCat("there is no row ", rows[i], "; the dataset has ", rows_));
    }
    ConvertValues(tensors_[column].data<char>() + rows[i] * from_bytes, from.dtype,
                  batch.data<char>() + static_cast<int64_t>(i) * to_bytes, batch.dtype(), elements, from.scale, from.shift);
  }
  return absl::OkStatus();
}

}  // namespace gluond
