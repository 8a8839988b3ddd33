// Data of a program's own, and the batches that a training loop takes from it.
//
//   auto dataset = data::FromIdxFiles("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz").value();
//   data::DataLoader loader(dataset, {.batch_size = 64, .shuffle = true});
//   for (const auto& [image, label] : loader) { ... }  // One epoch. The next batches are already on their way to the server.

#ifndef GLUOND_DATA_H_
#define GLUOND_DATA_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gluond/export.h"
#include "gluond/ndarray.h"
#include "gluond/place.h"
#include "gluond/tensor.h"

namespace gluond::client {
namespace data {

// Samples by their number. A dataset of a program's own derives from it.
class GLUOND_EXPORT Dataset {
 public:
  virtual ~Dataset();
  virtual int64_t size() const = 0;
  // The values of these samples: tensors whose first axis counts the rows, the data first, then the label, if there is one. Each row is
  // in [0, size()). Called by a thread of each epoch that runs.
  virtual absl::StatusOr<std::vector<Tensor>> Take(absl::Span<const int64_t> rows) const = 0;
};

// Tensors in memory, whose first axis counts the samples.
class GLUOND_EXPORT ArrayDataset : public Dataset {
 public:
  // INVALID_ARGUMENT: no tensors, one without axes, or another number of samples in one than in the first.
  static absl::StatusOr<std::shared_ptr<const ArrayDataset>> Of(std::vector<Tensor> columns);
  // Waits for the arrays' values.
  static absl::StatusOr<std::shared_ptr<const ArrayDataset>> Of(absl::Span<const NDArray> columns, Place place = Place::Here());

  int64_t size() const override;
  const std::vector<Tensor>& columns() const { return columns_; }
  absl::StatusOr<std::vector<Tensor>> Take(absl::Span<const int64_t> rows) const override;

 private:
  explicit ArrayDataset(std::vector<Tensor> columns) : columns_(std::move(columns)) {}

  const std::vector<Tensor> columns_;
};

// A file of bytes in the IDX format, packed by gzip or not, as MNIST's. NOT_FOUND: it cannot be read. DATA_LOSS: it is none, or
// damaged.
GLUOND_EXPORT absl::StatusOr<Tensor> ReadIdx(const std::string& path);
// Images of shape (samples, height, width, 1), as Python's gluon.data.vision.MNIST has them, and their labels, as int32.
GLUOND_EXPORT absl::StatusOr<std::shared_ptr<const ArrayDataset>> FromIdxFiles(const std::string& images,
                                                                               const std::string& labels);
// The arrays of these names in a file of safetensors or of MXNet's format.
GLUOND_EXPORT absl::StatusOr<std::shared_ptr<const ArrayDataset>> FromFile(const std::string& path,
                                                                           const std::vector<std::string>& names);

// The fate of the samples at the end that fill no batch.
enum class LastBatch : int {
  kKeep = 0,      // A shorter batch.
  kDiscard = 1,   // None.
  kRollover = 2,  // The beginning of the next epoch.
};

struct LoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  uint64_t seed = 0;
  LastBatch last_batch = LastBatch::kKeep;
  // Batches that are sent before the program takes them; 0: each is made when it is taken.
  int64_t prefetch = 2;
  std::string device = "";  // Where batches go. Default: the session's device.
};

// Arrays on the server, of one batch. `auto [data, label] = batch` takes the first two.
class GLUOND_EXPORT Batch {
 public:
  Batch() = default;
  explicit Batch(std::vector<NDArray> columns) : columns_(std::move(columns)) {}

  // Not defined where the dataset has no such column.
  NDArray data() const { return at(0); }
  NDArray label() const { return at(1); }
  const std::vector<NDArray>& columns() const { return columns_; }

  template <size_t i>
  NDArray get() const {
    return at(i);
  }

 private:
  NDArray at(size_t i) const { return i < columns_.size() ? columns_[i] : NDArray(); }

  std::vector<NDArray> columns_;
};

// The batches of a dataset, in epochs: each begin() starts the next one. Copies are the same loader. One thread at a time.
//
// With `shuffle`, each epoch begins with the rows in order. For i from size - 1 to 1, place i is exchanged with place draw % (i + 1).
// Draws are those of one std::mt19937_64 of `seed`, which goes on from epoch to epoch: the orders are the same on all machines.
//
// An error, as of a dataset's file, comes as the last batch: arrays that are poisoned with it.
class GLUOND_EXPORT DataLoader {
 public:
  class Epoch;
  class GLUOND_EXPORT Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = const Batch*;
    using reference = const Batch&;

    Iterator() = default;
    explicit Iterator(std::shared_ptr<Epoch> epoch);

    const Batch& operator*() const { return batch_; }
    const Batch* operator->() const { return &batch_; }
    Iterator& operator++();
    friend bool operator==(const Iterator& a, const Iterator& b) { return a.epoch_ == b.epoch_; }
    friend bool operator!=(const Iterator& a, const Iterator& b) { return a.epoch_ != b.epoch_; }

   private:
    std::shared_ptr<Epoch> epoch_;  // Null: the end.
    Batch batch_;
  };

  explicit DataLoader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options = {}, Place place = Place::Here());

  // Batches go to the session in which this thread makes arrays. An iterator that ends before the epoch does leaves the rest out.
  Iterator begin() const;
  Iterator end() const { return {}; }
  // Batches of the next epoch.
  int64_t size() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace data

namespace gluon {
namespace data = client::data;
}  // namespace gluon
}  // namespace gluond::client

namespace std {

template <>
struct tuple_size<gluond::client::data::Batch> : integral_constant<size_t, 2> {};
template <size_t i>
struct tuple_element<i, gluond::client::data::Batch> {
  using type = gluond::client::NDArray;
};

}  // namespace std

#endif  // GLUOND_DATA_H_
