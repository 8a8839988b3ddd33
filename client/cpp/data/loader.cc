#include <condition_variable>
#include <deque>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gluond/data.h"
#include "gluond/session.h"

namespace gluond::client::data {

// An epoch: the numbers of its batches' rows, and a thread that sends batches before they are taken.
class DataLoader::Epoch {
 public:
  using Rows = std::vector<std::vector<int64_t>>;

  Epoch(std::shared_ptr<const Dataset> dataset, absl::StatusOr<Session> session, std::string device, Place place, Rows batches,
        int64_t prefetch)
      : dataset_(std::move(dataset)),
        session_(std::move(session)),
        device_(std::move(device)),
        place_(place),
        batches_(std::move(batches)),
        prefetch_(prefetch) {
    if (prefetch_ > 0 && !batches_.empty()) thread_ = std::thread([this] { SendAhead(); });
  }
  ~Epoch() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_abandoned_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }
  Epoch(const Epoch&) = delete;

  // Nothing: the epoch has ended.
  std::optional<Batch> Next() {
    if (taken_ == batches_.size() || has_failed_) return std::nullopt;
    Batch batch = prefetch_ > 0 ? TakeSent() : Make(batches_[taken_]);
    ++taken_;
    has_failed_ = batch.columns().empty() || !batch.data().local_error().ok();
    return batch;
  }

 private:
  Batch TakeSent() {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return !sent_.empty(); });
    Batch batch = std::move(sent_.front());
    sent_.pop_front();
    lock.unlock();
    changed_.notify_all();
    return batch;
  }

  void SendAhead() {
    for (const std::vector<int64_t>& rows : batches_) {
      {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return is_abandoned_ || sent_.size() < static_cast<size_t>(prefetch_); });
        if (is_abandoned_) return;
      }
      Batch batch = Make(rows);
      const bool is_last = batch.columns().empty() || !batch.data().local_error().ok();
      {
        std::lock_guard<std::mutex> lock(mutex_);
        sent_.push_back(std::move(batch));
      }
      changed_.notify_all();
      if (is_last) return;
    }
  }

  Batch Make(const std::vector<int64_t>& rows) const {
    const auto failed = [&](const absl::Status& error) {
      const NDArray array = NDArray::Failed(error, place_);
      return Batch({array, array});
    };
    if (!session_.ok()) return failed(session_.status());
    const SessionScope scope(*session_);
    const absl::StatusOr<std::vector<Tensor>> tensors = dataset_->Take(rows);
    if (!tensors.ok()) return failed(tensors.status());
    if (tensors->empty())
      return failed(absl::InvalidArgumentError("DataLoader: the dataset gives no tensors; expected at least one"));
    std::vector<NDArray> columns;
    for (const Tensor& tensor : *tensors) columns.emplace_back(tensor, device_, place_);
    return Batch(std::move(columns));
  }

  const std::shared_ptr<const Dataset> dataset_;
  const absl::StatusOr<Session> session_;
  const std::string device_;
  const Place place_;
  const Rows batches_;
  const int64_t prefetch_;
  size_t taken_ = 0;  // The taking thread alone has it, and has_failed_.
  bool has_failed_ = false;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Batch> sent_;     // Guarded by mutex_.
  bool is_abandoned_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

struct DataLoader::State {
  State(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options, Place place)
      : dataset(std::move(dataset)), options(options), place(place), random(options.seed) {}

  // INVALID_ARGUMENT: options that no loader can have.
  absl::Status Check() const {
    if (dataset == nullptr) return absl::InvalidArgumentError("DataLoader: there is no dataset");
    if (options.batch_size < 1 || options.prefetch < 0) {
      return absl::InvalidArgumentError(absl::StrCat("DataLoader: batch_size is ", options.batch_size, " and prefetch ",
                                                     options.prefetch, ", expected 1 and 0 at least"));
    }
    return absl::OkStatus();
  }

  std::vector<int64_t> Order() {
    std::vector<int64_t> order(static_cast<size_t>(dataset->size()));
    std::iota(order.begin(), order.end(), int64_t{0});
    for (size_t i = order.size(); options.shuffle && i-- > 1;) std::swap(order[i], order[random() % (i + 1)]);
    return order;
  }

  Epoch::Rows Batches() {
    Epoch::Rows batches;
    std::vector<int64_t> batch = std::exchange(left, {});
    for (const int64_t row : Order()) {
      batch.push_back(row);
      if (static_cast<int64_t>(batch.size()) == options.batch_size) batches.push_back(std::exchange(batch, {}));
    }
    if (!batch.empty() && options.last_batch == LastBatch::kKeep) batches.push_back(batch);
    if (options.last_batch == LastBatch::kRollover) left = std::move(batch);
    return batches;
  }

  const std::shared_ptr<const Dataset> dataset;
  const LoaderOptions options;
  const Place place;
  std::mt19937_64 random;
  std::vector<int64_t> left;  // Rows that roll over to the next epoch.
};

DataLoader::Iterator::Iterator(std::shared_ptr<Epoch> epoch) : epoch_(std::move(epoch)) { ++*this; }

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  if (epoch_ == nullptr) return *this;
  std::optional<Batch> batch = epoch_->Next();
  batch_ = batch.has_value() ? *std::move(batch) : Batch();
  if (batch_.columns().empty()) epoch_.reset();
  return *this;
}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options, Place place)
    : state_(std::make_shared<State>(std::move(dataset), options, place)) {}

DataLoader::Iterator DataLoader::begin() const {
  const absl::Status wrong = state_->Check();
  absl::StatusOr<Session> session = wrong.ok() ? Session::Current() : wrong;
  Epoch::Rows batches = wrong.ok() ? state_->Batches() : Epoch::Rows(1);
  const int64_t prefetch = wrong.ok() ? state_->options.prefetch : 0;
  return Iterator(std::make_shared<Epoch>(state_->dataset, std::move(session), state_->options.device, state_->place,
                                          std::move(batches), prefetch));
}

int64_t DataLoader::size() const {
  if (!state_->Check().ok()) return 0;
  const int64_t rows = state_->dataset->size() + static_cast<int64_t>(state_->left.size()), batch = state_->options.batch_size;
  return rows / batch + (state_->options.last_batch == LastBatch::kKeep && rows % batch > 0);
}

}  // namespace gluond::client::data
