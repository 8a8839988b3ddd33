#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gluond/data.h"
#include "gluond/files.h"
#include "gluond/status_macros.h"

namespace gluond::client::data {

Dataset::~Dataset() = default;

absl::StatusOr<std::shared_ptr<const ArrayDataset>> ArrayDataset::Of(std::vector<Tensor> columns) {
  if (columns.empty()) return absl::InvalidArgumentError("ArrayDataset: there are no tensors; give at least one");
  for (size_t i = 0; i < columns.size(); ++i) {
    const Shape& shape = columns[i].shape();
    if (shape.empty() || shape[0] != columns[0].shape()[0]) {
      return absl::InvalidArgumentError(absl::StrCat("ArrayDataset: tensor ", i, " has the shape ", ToString(shape),
                                                     ", expected a first axis of samples, as many as in tensor 0 of shape ",
                                                     ToString(columns[0].shape())));
    }
  }
  return std::shared_ptr<const ArrayDataset>(new ArrayDataset(std::move(columns)));
}

absl::StatusOr<std::shared_ptr<const ArrayDataset>> ArrayDataset::Of(absl::Span<const NDArray> columns, Place place) {
  std::vector<Tensor> tensors;
  for (const NDArray& column : columns) {
    GLUOND_ASSIGN_OR_RETURN(tensors.emplace_back(), column.ToTensor(place));
  }
  return Of(std::move(tensors));
}

int64_t ArrayDataset::size() const { return columns_[0].shape()[0]; }

absl::StatusOr<std::vector<Tensor>> ArrayDataset::Take(absl::Span<const int64_t> rows) const {
  std::vector<Tensor> batch;
  for (const Tensor& column : columns_) {
    const size_t row = size() == 0 ? 0 : column.bytes().size() / static_cast<size_t>(size());
    std::string bytes;
    bytes.reserve(rows.size() * row);
    for (const int64_t each : rows) {
      if (each < 0 || each >= size()) {
        return absl::OutOfRangeError(absl::StrCat("ArrayDataset: row ", each, " is none of 0 to ", size() - 1));
      }
      bytes.append(column.bytes().data() + static_cast<size_t>(each) * row, row);
    }
    Shape shape = column.shape();
    shape[0] = static_cast<int64_t>(rows.size());
    GLUOND_ASSIGN_OR_RETURN(batch.emplace_back(), Tensor::FromBytes(column.dtype(), std::move(shape), std::move(bytes)));
  }
  return batch;
}

absl::StatusOr<std::shared_ptr<const ArrayDataset>> FromIdxFiles(const std::string& images, const std::string& labels) {
  GLUOND_ASSIGN_OR_RETURN(const Tensor pixels, ReadIdx(images));
  GLUOND_ASSIGN_OR_RETURN(const Tensor classes, ReadIdx(labels));
  if (pixels.shape().size() != 3 || classes.shape().size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("FromIdxFiles: '", images, "' has the shape ", ToString(pixels.shape()),
                                                   " and '", labels, "' ", ToString(classes.shape()),
                                                   ", expected images of 3 dimensions and labels of one"));
  }
  Shape shape = pixels.shape();
  shape.push_back(1);
  GLUOND_ASSIGN_OR_RETURN(Tensor data, Tensor::FromBytes(DType::kUint8, std::move(shape), std::string(pixels.bytes())));
  std::vector<int32_t> numbers;
  for (const char each : classes.bytes()) numbers.push_back(static_cast<unsigned char>(each));
  Tensor label = Tensor::Of<int32_t>(classes.shape(), numbers);
  return ArrayDataset::Of({std::move(data), std::move(label)});
}

absl::StatusOr<std::shared_ptr<const ArrayDataset>> FromFile(const std::string& path, const std::vector<std::string>& names) {
  GLUOND_ASSIGN_OR_RETURN(const NamedTensors tensors, LoadTensors(path));
  std::vector<Tensor> columns;
  for (const std::string& name : names) {
    const auto found = std::find_if(tensors.begin(), tensors.end(), [&](const auto& each) { return each.first == name; });
    if (found == tensors.end()) {
      std::set<std::string> known;
      for (const auto& each : tensors) known.insert(each.first);
      return absl::NotFoundError(
          absl::StrCat("FromFile: '", path, "' has no array '", name, "'; it has: ", absl::StrJoin(known, ", ")));
    }
    columns.push_back(found->second);
  }
  return ArrayDataset::Of(std::move(columns));
}

}  // namespace gluond::client::data
