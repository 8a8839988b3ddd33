#include "server/follow/follower.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "engine/core/custom_host.h"
#include "engine/core/start_thread.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/account.h"
#include "server/follow/leader_files.h"
#include "server/hosted/wait_for.h"
#include "server/serving/options_codec.h"

namespace gluond::server {
namespace {

using std::chrono::seconds;

constexpr std::chrono::milliseconds kFirstPause{100};
constexpr seconds kLastPause{2};
// A stream that has lasted so long was none that ends at once, again and again.
constexpr seconds kSteady{10};
// The worker looks so often whether the leader is silent, and whether a step is to be tried again.
constexpr seconds kLook{1};

absl::StatusOr<VersionTable::Indices> IndicesOf(const v1::FollowVersionsResponse& list) {
  VersionTable::Indices names;
  for (const v1::FollowedName& named : list.names()) {
    VersionIndex& index = names[named.served()];
    index.next = named.next();
    index.routes.labels.insert(named.labels().begin(), named.labels().end());
    index.routes.weights.insert(named.weights().begin(), named.weights().end());
    for (const v1::FollowedVersion& version : named.versions()) {
      if (version.version() < 1 || version.version() >= named.next()) {
        return absl::DataLossError(absl::StrCat("the leader's list has a version ", version.version(), " of '", named.served(),
                                                "', and its next one is ", named.next()));
      }
      VersionFacts& facts = index.versions[version.version()];
      facts.source = version.source();
      facts.source_version = version.source_version();
      facts.created = std::chrono::system_clock::time_point(seconds(version.created().seconds()) +
                                                            std::chrono::nanoseconds(version.created().nanos()));
      ASSIGN_OR_RETURN(facts.options, FromProto(version.options()));
      facts.checksum = version.checksum();
    }
  }
  return names;
}

std::string What(const FollowStep& step) {
  switch (step.kind) {
    case FollowStep::kFetch: return absl::StrCat("version ", step.number, " of '", step.name, "' of the leader's is not served");
    case FollowStep::kRoute: return absl::StrCat("the leader's labels and weights of '", step.name, "' are not taken over");
    default: return absl::StrCat("version ", step.number, " of '", step.name, "', which the leader has retired, goes on");
  }
}

// Its details are for clients.
std::string TextOf(const absl::Status& status) {
  return absl::StrCat(absl::StatusCodeToString(status.code()), ": ", status.message());
}

}  // namespace

Follower::Follower(FollowOptions options, Runner& runner, Devices& devices, Publisher& publisher, LogSink log)
    : options_(std::move(options)), runner_(runner), devices_(devices), publisher_(publisher), log_(std::move(log)) {}

Follower::~Follower() { End(); }

void Follower::End() {
  Leave();
  for (std::thread* const thread : {&listener_, &worker_}) {
    if (thread->joinable()) thread->join();
  }
}

void Follower::Begin(std::function<void()> on_ready) {
  {
    MutexLock lock(mu_);
    on_ready_ = std::move(on_ready);
  }
  const VersionTable::Indices own = publisher_.table().Published();
  if (absl::c_any_of(own, [](const auto& each) { return !each.second.versions.empty(); })) SayReady();
  StartOrExit(&listener_, "the follower's listener", [this] { Listen(); });
  StartOrExit(&worker_, "the follower", [this] { Work(); });
}

void Follower::Leave() {
  {
    MutexLock lock(mu_);
    leaving_ = true;
    if (listening_ != nullptr) listening_->TryCancel();
    for (const auto& files : {files_, fetching_}) {
      if (files != nullptr) files->End();
    }
  }
  cancellation_->Cancel();
  changed_.NotifyAll();
}

bool Follower::Rest(Clock::time_point until) {
  MutexLock lock(mu_);
  while (!leaving_ && Clock::now() < until) changed_.WaitUntil(mu_, until);
  return !leaving_;
}

// Listening.

void Follower::Listen() {
  std::minstd_rand random(std::random_device{}());
  Clock::duration pause = kFirstPause;
  while (true) {
    const Clock::time_point begun = Clock::now();
    const absl::Status why = ListenOnce();
    if (heard_.load() - begun > kSteady) {
      pause = kFirstPause;
      told_.clear();
    }
    // A leader that stays away, or comes and goes for one reason, has one line.
    const std::string text = absl::StrCat(options_.address, " is not followed: ", TextOf(why), "; what is here is served");
    const auto part = std::uniform_real_distribution<double>(0.5, 1)(random);
    if (!Rest(Clock::now() + std::chrono::duration_cast<Clock::duration>(pause * part))) return;
    if (std::exchange(told_, text) != text) {
      Log("leader_away", LogLevel::kWarning, text);
      tells_back_ = true;
    }
    pause = std::min<Clock::duration>(2 * pause, kLastPause);
  }
}

absl::Status Follower::ListenOnce() {
  ASSIGN_OR_RETURN(const std::shared_ptr<LeaderFiles> files, LeaderFiles::Connect(options_));
  grpc::ClientContext context;
  files->Prepare(&context);
  {
    MutexLock lock(mu_);
    if (leaving_) return absl::CancelledError("this server follows no longer");
    files_ = files;
    listening_ = &context;
    listening_since_ = Clock::now();
  }
  const auto reader = files->stub().FollowVersions(&context, v1::FollowVersionsRequest());
  v1::FollowVersionsResponse message;
  absl::Status status;
  while (status.ok() && reader->Read(&message)) {
    status = publisher_.lineage().SetLeader({message.line().begin(), message.line().end()});
    if (!status.ok()) continue;
    heard_ = Clock::now();
    if (std::exchange(tells_back_, false)) Log("leader_followed", LogLevel::kInfo, absl::StrCat(options_.address, " is followed"));
    if (message.unchanged()) continue;
    absl::StatusOr<VersionTable::Indices> said = IndicesOf(message);
    status = said.status();
    if (!said.ok()) continue;
    {
      MutexLock lock(mu_);
      said_ = *std::move(said);
    }
    changed_.NotifyAll();
  }
  if (!status.ok()) context.TryCancel();
  const absl::Status ended = ToStatus(reader->Finish());
  MutexLock lock(mu_);
  listening_ = nullptr;
  if (!status.ok()) return status;
  return ended.ok() ? absl::UnavailableError("the leader has ended the stream") : ended;
}

// Working.

void Follower::Work() {
  while (true) {
    {
      const Clock::time_point look = Clock::now() + kLook;
      MutexLock lock(mu_);
      while (!leaving_ && !said_.has_value() && Clock::now() < look) changed_.WaitUntil(mu_, look);
      if (leaving_) return;
      const Clock::time_point last = std::max(heard_.load(), listening_since_);
      if (listening_ != nullptr && Clock::now() - last > kSilence) listening_->TryCancel();
    }
    DoSteps();
  }
}

void Follower::DoSteps() {
  while (true) {
    {
      MutexLock lock(mu_);
      if (leaving_) return;
      if (said_.has_value()) plan_.Hear(*std::exchange(said_, std::nullopt));
    }
    const VersionTable::Indices own = publisher_.table().Published();
    behind_ = plan_.Behind(own);
    if (plan_.HasCaughtUp(own)) SayReady();
    const FollowStep step = plan_.Next(own, Clock::now());
    if (step.kind == FollowStep::kNothing) return;
    const absl::Status done = Do(step, own);
    {
      MutexLock lock(mu_);
      if (leaving_) return;
    }
    plan_.Ended(step, done, Clock::now());
    if (done.ok()) continue;
    ++failures_;
    Log("not_followed", LogLevel::kError, absl::StrCat(What(step), ": ", TextOf(done), "; it is tried again"));
  }
}

absl::Status Follower::Do(const FollowStep& step, const VersionTable::Indices& own) {
  const ScopedAccount owner(runner_.tenants.AccountOf(step.name));
  switch (step.kind) {
    case FollowStep::kFetch: {
      RETURN_IF_ERROR(FollowPlan::Conflict(own, step));
      RETURN_IF_ERROR(Fetch(step));
      Log("version_followed", LogLevel::kInfo, absl::StrCat("version ", step.number, " of '", step.name, "' is served"));
      return absl::OkStatus();
    }
    case FollowStep::kRoute:
      return WaitFor([&](auto done) { publisher_.AdoptRoutes(step.name, step.routes, step.next, std::move(done)); });
    default: return WaitFor([&](auto done) { publisher_.Drop(step.name, step.number, std::move(done)); });
  }
}

absl::Status Follower::Fetch(const FollowStep& step) {
  std::shared_ptr<LeaderFiles> files;
  {
    MutexLock lock(mu_);
    files = fetching_ = files_;
    if (leaving_) return absl::CancelledError("this server follows no longer");
  }
  if (files == nullptr) return absl::UnavailableError("the leader is away");
  const ScopedCustomHost host(devices_.custom_host_of(step.name));
  ASSIGN_OR_RETURN(ModelState state, files->Fetch(step.name, step.number, *step.facts.checksum, *devices_.host().allocator,
                                                  Budget::PartOf(runner_.memory)));
  return WaitFor(
      [&](auto done) { publisher_.Adopt(step.name, step.number, std::move(state), step.facts, cancellation_, std::move(done)); });
}

void Follower::SayReady() {
  publisher_.lineage().SetReady();
  MutexLock lock(mu_);
  if (leaving_ || on_ready_ == nullptr) return;
  std::exchange(on_ready_, nullptr)();
}

}  // namespace gluond::server
