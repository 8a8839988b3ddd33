// HostBlobs: the blobs of an asynchronous operator in the host's memory, for an operator that a client computes. On a
// CPU they are the blobs themselves. On a GPU they are copies: inputs are copied when the call begins, and outputs go
// to the device when it completes. OpContext::host_memory pays for the copies until the last copy of the completion is gone.

#ifndef OPS_KERNEL_HOST_BLOBS_H_
#define OPS_KERNEL_HOST_BLOBS_H_

#include <atomic>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/core/device.h"
#include "engine/core/op_attr_types.h"
#include "engine/core/op_context.h"
#include "engine/core/status_macros.h"
#include "engine/core/tensor.h"

namespace gluond::ops {

// A completion that first copies results to the device. The last copy of it deletes it.
class CopyBack final : public Completion::Receiver {
 public:
  struct Copy {
    TBlob to, from;
  };
  CopyBack(DeviceDriver& driver, void* stream) : driver_(driver), stream_(stream) {}

  void SetDone(const Completion& done) { done_ = done; }

  // The buffer lives as long as this.
  void* Keep(std::shared_ptr<Buffer> buffer) {
    kept_.push_back(std::move(buffer));
    return kept_.back()->data();
  }
  void Add(Copy copy) { copies_.push_back(copy); }

  // Only the first answer is passed on: after it, the device's memory may be another's.
  void Complete(absl::Status status) override {
    if (!answered_.exchange(true)) done_(status.ok() ? CopyAll() : std::move(status));
  }
  void AddRef() override { references_.fetch_add(1, std::memory_order_relaxed); }
  void Release() override {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }

 private:
  absl::Status CopyAll() {
    for (const Copy& copy : copies_) {
      RETURN_IF_ERROR(driver_.CopyFromHost(copy.to.data, copy.from.data, copy.to.bytes(), stream_));
    }
    return absl::OkStatus();
  }

  DeviceDriver& driver_;
  void* const stream_;
  Completion done_;
  std::atomic<int> references_ = 0;
  std::atomic<bool> answered_ = false;
  std::vector<std::shared_ptr<Buffer>> kept_;
  std::vector<Copy> copies_;
};

template <class D>
class HostBlobs {
 public:
  explicit HostBlobs(const OpContext& ctx) : ctx_(ctx) {}
  ~HostBlobs() { delete copy_back_; }
  HostBlobs(const HostBlobs&) = delete;
  HostBlobs& operator=(const HostBlobs&) = delete;

  // RESOURCE_EXHAUSTED, here and below: the host has no memory for the copy.
  absl::StatusOr<TBlob> Input(const TBlob& blob) {
    if constexpr (kOnHost) {
      return blob;
    } else {
      ASSIGN_OR_RETURN(const TBlob copy, Like(blob));
      RETURN_IF_ERROR(driver_->CopyToHost(copy.data, blob.data, blob.bytes(), ctx_.stream));
      return copy;
    }
  }
  // The copy has the blob's contents where `req` adds to them.
  absl::StatusOr<TBlob> Output(const TBlob& blob, OpReqType req) {
    if (req == kNullOp) return TBlob{nullptr, blob.shape, blob.dtype, Device()};
    if constexpr (kOnHost) {
      return blob;
    } else {
      ASSIGN_OR_RETURN(const TBlob copy, Like(blob));
      if (req == kAddTo) RETURN_IF_ERROR(driver_->CopyToHost(copy.data, blob.data, blob.bytes(), ctx_.stream));
      WriteBack(blob, copy);
      return copy;
    }
  }
  void WriteBack(const TBlob& blob, const TBlob& copy) {
    if constexpr (!kOnHost) copy_back_->Add({blob, copy});
  }
  // Writes a number to a blob of one int64.
  absl::Status Set(const TBlob& blob, int64_t value) {
    if constexpr (kOnHost) {
      *blob.dptr<int64_t>() = value;
      return absl::OkStatus();
    } else {
      ASSIGN_OR_RETURN(const TBlob copy, Like(blob));
      *copy.dptr<int64_t>() = value;
      WriteBack(blob, copy);
      return absl::OkStatus();
    }
  }
  // The returned completion writes results back before it ends `done`.
  absl::StatusOr<Completion> Finish(const Completion& done) && {
    if constexpr (kOnHost) {
      return done;
    } else {
      RETURN_IF_ERROR(Open());
      copy_back_->SetDone(done);
      return Completion(std::exchange(copy_back_, nullptr));
    }
  }

 private:
  static constexpr bool kOnHost = std::is_same_v<D, cpu>;

  absl::Status Open() {
    if (copy_back_ != nullptr) return absl::OkStatus();
    ASSIGN_OR_RETURN(driver_, FindDriver(ctx_.device));
    copy_back_ = new CopyBack(*driver_, ctx_.stream);
    return absl::OkStatus();
  }
  // A blob of the host with the shape and type of `blob`, and contents unspecified.
  absl::StatusOr<TBlob> Like(const TBlob& blob) {
    RETURN_IF_ERROR(Open());
    if (ctx_.host_memory == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("the lanes of ", ctx_.device.ToString(), " have no memory of the host for arrays that a client computes"));
    }
    absl::StatusOr<std::shared_ptr<Buffer>> buffer = ctx_.host_memory->Allocate(blob.bytes());
    if (!buffer.ok()) {
      return Annotate(buffer.status(),
                      absl::StrCat("the client that computes the operator works on copies in the host's memory; no copy of "
                                   "an array of shape ",
                                   blob.shape.ToString(), " on ", ctx_.device.ToString()));
    }
    return TBlob{copy_back_->Keep(*std::move(buffer)), blob.shape, blob.dtype, Device()};
  }

  const OpContext& ctx_;
  DeviceDriver* driver_ = nullptr;
  CopyBack* copy_back_ = nullptr;
};

}  // namespace gluond::ops

#endif  // OPS_KERNEL_HOST_BLOBS_H_
