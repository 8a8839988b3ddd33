#include "server/services/version_watchers.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "server/codec/duration.h"
#include "server/rpc/tenant_names.h"
#include "server/serving/options_codec.h"
#include "server/wire/wire_message.h"

namespace gluond::server {
namespace {

// Another text after each change that a follower is to hear of.
std::string SeenOf(const VersionTable::Indices& names) {
  std::string seen;
  for (const auto& [name, index] : names) {
    absl::StrAppend(&seen, "\n", name, " ", index.next);
    for (const auto& [number, facts] : index.versions) absl::StrAppend(&seen, " ", number);
    for (const auto& [label, number] : index.routes.labels) absl::StrAppend(&seen, " ", label, "=", number);
    for (const auto& [number, weight] : index.routes.weights) absl::StrAppend(&seen, " ", number, ":", weight);
  }
  return seen;
}

v1::FollowVersionsResponse ListOf(const VersionTable::Indices& names) {
  v1::FollowVersionsResponse list;
  for (const auto& [name, index] : names) {
    v1::FollowedName& named = *list.add_names();
    named.set_served(name);
    named.set_next(index.next);
    named.mutable_labels()->insert(index.routes.labels.begin(), index.routes.labels.end());
    named.mutable_weights()->insert(index.routes.weights.begin(), index.routes.weights.end());
    for (const auto& [number, facts] : index.versions) {
      v1::FollowedVersion& version = *named.add_versions();
      version.set_version(number);
      version.set_source(facts.source);
      version.set_source_version(facts.source_version);
      SetTime(facts.created, version.mutable_created());
      ToProto(facts.options, version.mutable_options());
      version.set_checksum(*facts.checksum);
    }
  }
  return list;
}

v1::FollowVersionsResponse Within(const Reach& reach, const v1::FollowVersionsResponse& list) {
  v1::FollowVersionsResponse own;
  for (const v1::FollowedName& named : list.names()) {
    if (reach.Has(named.served())) *own.add_names() = named;
  }
  if (!reach.is_everything()) Unqualify(reach, &own);
  return own;
}

}  // namespace

// A follower.
class VersionWatchers::Watcher final : public Stream {
 public:
  Watcher(std::shared_ptr<VersionWatchers> all, const Opening& opening)
      : Stream(all->runner_, opening), all_(std::move(all)), memory_(TakeMemory()) {}

  // Sends the list if the follower has not got it, or a word that the server is there, after some time and with another line.
  void Tell() ABSL_EXCLUSIVE_LOCKS_REQUIRED(all_->mu_) {
    if (finished_ || writing_ || !knows_ || all_->list_ == nullptr) return;
    const Lineage& lineage = all_->publisher_.lineage();
    const std::vector<uint64_t> line = lineage.Line();
    v1::FollowVersionsResponse message;
    List told = told_;
    // A follower that has nothing yet is no leader that publishes nothing.
    if (told_ != all_->list_ && (lineage.is_ready() || all_->list_->names_size() > 0)) {
      told = all_->list_;
      message = Within(reach(), *told);
    } else if (told_line_ != line || Clock::now() - told_at_ >= kWord) {
      message.set_unchanged(true);
    } else {
      return;
    }
    message.mutable_line()->Assign(line.begin(), line.end());
    const grpc::Slice bytes(message.SerializeAsString());
    Reservation written(Budget::PartOf(runner().memory));
    if (!written.Grow(static_cast<int64_t>(bytes.size())).ok()) return;  // The next sweep tries again.
    written_ = std::move(written);
    told_ = std::move(told);
    told_line_ = line;
    told_at_ = Clock::now();
    writing_ = true;
    MustTakeWithin(TimeToTake(static_cast<int64_t>(bytes.size())));
    StartWrite({bytes});
  }

 private:
  void OnBegin() override { StartRead(); }
  void OnRead(Slices* message) override {
    if (message == nullptr) return End(absl::CancelledError("the call ended before its message came"));
    v1::FollowVersionsRequest request;
    if (absl::Status status = ParseShortMessage(*message, &request, encoding()); !status.ok()) return End(status);
    if (absl::Status status = all_->publisher_.CheckFollowable(); !status.ok()) return End(status);
    {
      MutexLock lock(all_->mu_);
      knows_ = true;
      all_->watchers_.insert(this);
    }
    all_->Sweep();
  }
  void OnWritten(bool ok) override {
    WasTaken();
    if (!ok) return End(absl::CancelledError("the follower is gone"));
    MutexLock lock(all_->mu_);
    writing_ = false;
    written_ = Reservation();
    Tell();
  }
  void OnCancelled() override { End(absl::CancelledError("the follower is gone")); }
  void OnOver() override {
    MutexLock lock(all_->mu_);
    all_->watchers_.erase(this);
    written_ = Reservation();
  }

  void End(const absl::Status& status) {
    MutexLock lock(all_->mu_);
    if (std::exchange(finished_, true)) return;
    Finish(Annotate(status, method().name));
  }

  const std::shared_ptr<VersionWatchers> all_;
  Reservation memory_, written_ ABSL_GUARDED_BY(all_->mu_);
  List told_ ABSL_GUARDED_BY(all_->mu_);  // The last list that was sent.
  std::vector<uint64_t> told_line_ ABSL_GUARDED_BY(all_->mu_);
  Clock::time_point told_at_ ABSL_GUARDED_BY(all_->mu_);
  bool knows_ ABSL_GUARDED_BY(all_->mu_) = false;
  bool writing_ ABSL_GUARDED_BY(all_->mu_) = false;
  bool finished_ ABSL_GUARDED_BY(all_->mu_) = false;
};

std::shared_ptr<Stream> VersionWatchers::Watch(Stream::Opening opening) {
  return Stream::Make<Watcher>(shared_from_this(), opening);
}

void VersionWatchers::TellAll() {
  for (Watcher* watcher : watchers_) watcher->Tell();
}

void VersionWatchers::Sweep() {
  {
    MutexLock lock(mu_);
    TellAll();
    // A server that loads does not know yet what it has.
    if (watchers_.empty() || looking_ || !runner_.calls.is_open()) return;
    looking_ = true;
  }
  runner_.dispatch.Run(Weight::kDisk, [self = shared_from_this()] { self->Look(); });
}

void VersionWatchers::Look() {
  const std::string seen = SeenOf(publisher_.table().Published());
  bool is_new = false;
  {
    MutexLock lock(mu_);
    is_new = list_ == nullptr || seen != seen_;
  }
  List list;
  if (is_new) list = std::make_shared<const v1::FollowVersionsResponse>(ListOf(publisher_.ListWithChecksums()));
  MutexLock lock(mu_);
  looking_ = false;
  if (!is_new) return;
  seen_ = seen;
  list_ = std::move(list);
  TellAll();
}

}  // namespace gluond::server
