#include "server/follow/leader_files.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/store/checkpoint.h"
#include "engine/store/version_files.h"

namespace gluond::server {
namespace {

using Clock = std::chrono::steady_clock;

// A list of all versions, and a part of a file: the largest messages that a leader sends.
constexpr int kLargestReply = 16 << 20;
constexpr int64_t kLargestPart = int64_t{4} << 20;
constexpr std::chrono::seconds kReadTime{60};
constexpr std::chrono::milliseconds kFirstWait{200};
constexpr std::chrono::seconds kLongestWait{2}, kTryFor{30};

bool MayPass(const absl::Status& status) { return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status); }

}  // namespace

absl::Status ToStatus(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// A file of a version there, read part by part.
class LeaderFiles::RemoteFile final : public ReadableFile {
 public:
  RemoteFile(LeaderFiles& files, v1::ReadVersionRequest request) : files_(files), request_(std::move(request)) {}

  // The first part, which tells the size.
  absl::Status Open() { return NextPart(); }
  int64_t size() const override { return part_.size(); }
  absl::Status Read(void* to, size_t bytes) override {
    char* next = static_cast<char*>(to);
    while (bytes > 0) {
      if (at_ == part_.data().size()) RETURN_IF_ERROR(NextPart());
      const size_t taken = std::min(bytes, part_.data().size() - at_);
      if (taken == 0) return absl::DataLossError("the leader's file ends too early");
      std::memcpy(next, part_.data().data() + at_, taken);
      next += taken;
      at_ += taken;
      bytes -= taken;
    }
    return absl::OkStatus();
  }
  absl::Status Skip(int64_t bytes) override {
    request_.set_offset(request_.offset() - static_cast<int64_t>(part_.data().size() - at_) + bytes);
    part_.clear_data();
    at_ = 0;
    return absl::OkStatus();
  }

 private:
  absl::Status NextPart() {
    const int64_t size = part_.size();
    const bool is_first = !std::exchange(is_open_, true);
    ASSIGN_OR_RETURN(part_, files_.Read(request_));
    at_ = 0;
    if (part_.size() < 0 || (!is_first && part_.size() != size)) {
      return absl::DataLossError(absl::StrCat("the leader says that the file has ", part_.size(), " bytes, and before ", size));
    }
    request_.set_offset(request_.offset() + static_cast<int64_t>(part_.data().size()));
    return absl::OkStatus();
  }

  LeaderFiles& files_;
  v1::ReadVersionRequest request_;  // The next part's.
  v1::ReadVersionResponse part_;
  size_t at_ = 0;  // So many of its bytes are read.
  bool is_open_ = false;
};

absl::StatusOr<std::shared_ptr<LeaderFiles>> LeaderFiles::Connect(const FollowOptions& options) {
  ASSIGN_OR_RETURN(WayToServer way, WayToServer::Open({.flag = "--follow",
                                                       .address = options.address,
                                                       .authority = options.authority,
                                                       .token_file = options.token_file,
                                                       .most_bytes = kLargestReply}));
  return std::shared_ptr<LeaderFiles>(new LeaderFiles(std::move(way)));
}

absl::Status CheckFollow(const FollowOptions& options) { return LeaderFiles::Connect(options).status(); }

absl::StatusOr<v1::ReadVersionResponse> LeaderFiles::ReadOnce(const v1::ReadVersionRequest& request) {
  grpc::ClientContext context;
  way_.Prepare(&context);
  context.set_deadline(std::chrono::system_clock::now() + kReadTime);
  {
    MutexLock lock(mu_);
    if (ended_) return absl::CancelledError("this server follows no longer");
    reading_ = &context;
  }
  v1::ReadVersionResponse response;
  const absl::Status status = ToStatus(stub_->ReadVersion(&context, request, &response));
  MutexLock lock(mu_);
  reading_ = nullptr;
  if (!status.ok()) return status;
  return response;
}

absl::StatusOr<v1::ReadVersionResponse> LeaderFiles::Read(const v1::ReadVersionRequest& request) {
  const Clock::time_point give_up = Clock::now() + kTryFor;
  for (Clock::duration wait = kFirstWait;; wait = std::min<Clock::duration>(2 * wait, kLongestWait)) {
    absl::StatusOr<v1::ReadVersionResponse> read = ReadOnce(request);
    if (read.ok() || !MayPass(read.status()) || Clock::now() + wait >= give_up) return read;
    const Clock::time_point again = Clock::now() + wait;
    MutexLock lock(mu_);
    while (!ended_ && Clock::now() < again) ending_.WaitUntil(mu_, again);
  }
}

absl::StatusOr<ModelState> LeaderFiles::Fetch(const std::string& name, int64_t number, uint32_t checksum, Allocator& allocator,
                                              const std::shared_ptr<Budget>& budget) {
  Reservation part(budget);
  RETURN_IF_ERROR(part.Grow(kLargestPart));
  v1::ReadVersionRequest request;
  request.set_served(name);
  request.set_version(number);
  request.set_checksum(checksum);
  const auto open = [this, &request](const std::string& file) -> absl::StatusOr<std::unique_ptr<ReadableFile>> {
    request.set_file(file);
    auto opened = std::make_unique<RemoteFile>(*this, request);
    RETURN_IF_ERROR(opened->Open());
    return opened;
  };
  return CheckpointStore::LoadModel(VersionReader(open, CheckpointStore::kDefaultMaxBytes), checksum, allocator);
}

void LeaderFiles::End() {
  MutexLock lock(mu_);
  ended_ = true;
  if (reading_ != nullptr) reading_->TryCancel();
  ending_.NotifyAll();
}

}  // namespace gluond::server
