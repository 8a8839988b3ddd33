#include "server/durable/live_models.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/custom_host.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/posted.h"
#include "server/durable/turns.h"

namespace gluond::server {
namespace {

// A save or deletion that has failed is tried again after so long: a full disk fills no log.
constexpr std::chrono::seconds kAfterFailure{10};

Hosting HostingOf(const HostedModel& hosted, const Sequences::Numbers& numbers) {
  Hosting hosting;
  hosting.device = hosted.place().device.ToString();
  hosting.seed = hosted.model().options().seed;
  if (hosted.ttl().has_value()) hosting.ttl_seconds = std::chrono::duration<double>(*hosted.ttl()).count();
  hosting.version = hosted.version();
  hosting.applied = numbers.applied;
  hosting.in_part = numbers.in_part;
  hosting.silent = numbers.silent;
  return hosting;
}

}  // namespace

LiveModels::Mark LiveModels::MarkOf(const std::string& name, const HostedModelPtr& hosted) const {
  const std::shared_ptr<Trainer> trainer = hosted->trainer();
  Mark mark = {hosted, trainer, hosted->edits(), trainer == nullptr ? 0 : trainer->step()};
  mark.numbers.calls = runner_.sequences.CallsOn(name);
  return mark;
}

bool LiveModels::IsDue(const std::string& name, const Entry& entry, const HostedModelPtr& hosted, Clock::time_point now) const {
  if (!schedule_.any() || entry.busy || now < entry.not_before) return false;
  const Mark mark = MarkOf(name, hosted);
  if (!entry.stored || entry.mark.model.lock() != hosted) return true;
  // A numbered call counts whatever it does: its number is to become durable.
  const int64_t calls = static_cast<int64_t>(mark.numbers.calls) - static_cast<int64_t>(entry.mark.numbers.calls);
  if (mark.edits == entry.mark.edits && calls <= 0) return false;
  if (mark.trainer.lock() != entry.mark.trainer.lock()) return true;
  const auto edits = static_cast<int64_t>(mark.edits - entry.mark.edits);
  const int64_t steps = std::max({edits, calls, mark.step - entry.mark.step});
  return (schedule_.steps > 0 && steps >= schedule_.steps) ||
         (schedule_.period.count() > 0 && now - entry.since >= schedule_.period);
}

void LiveModels::Look() {
  const auto models = models_.List();
  const Clock::time_point now = Clock::now();
  std::vector<std::pair<std::string, HostedModelPtr>> due;
  std::vector<std::string> gone;
  {
    MutexLock lock(mu_);
    size_t known = 0;
    for (const auto& [name, hosted] : models) {
      const auto found = entries_.find(name);
      known += found != entries_.end();
      if (IsDue(name, found == entries_.end() ? Entry() : found->second, hosted, now)) due.emplace_back(name, hosted);
    }
    if (known < entries_.size()) {
      const std::map<std::string, HostedModelPtr> there(models.begin(), models.end());
      for (const auto& [name, entry] : entries_) {
        if (!there.contains(name) && !entry.busy && now >= entry.not_before) gone.push_back(name);
      }
    }
  }
  for (auto& [name, hosted] : due) Save(name, std::move(hosted));
  for (const std::string& name : gone) {
    if (!models_.Find(name).ok()) Forget(name, [](const absl::Status&) {});  // It may have been loaded meanwhile.
  }
}

void LiveModels::SaveAll() {
  for (auto& [name, hosted] : models_.List()) Save(name, std::move(hosted));
}

void LiveModels::Save(const std::string& name, HostedModelPtr hosted) {
  {
    MutexLock lock(mu_);
    Entry& entry = entries_[name];
    if (entry.busy || stopped_) return;
    // A call that deletes a model takes it out of the registry before Forget, which from here on sees this save.
    const absl::StatusOr<HostedModelPtr> now = models_.Find(name);
    if (!now.ok() || *now != hosted) return;
    entry.busy = entry.pausing = true;
    ++under_way_;
  }
  const ScopedAccount owner(runner_.tenants.AccountOf(name));
  runner_.sequences.Pause(name, [this, name, hosted = std::move(hosted)](Sequences::Numbers numbers) {
    const ScopedAccount owner(runner_.tenants.AccountOf(name));  // Whoever's call has ended for it.
    Mark mark = MarkOf(name, hosted);
    mark.numbers = std::move(numbers);
    bool is_stored;
    {
      MutexLock lock(mu_);
      Entry& entry = entries_.at(name);
      entry.pausing = false;
      is_stored = entry.stored && entry.mark.model.lock() == hosted && entry.mark.edits == mark.edits &&
                  entry.mark.numbers.SameCalls(mark.numbers);
    }
    if (is_stored) {
      runner_.sequences.Resume(name);
      return Saved(name, &mark, absl::OkStatus());
    }
    hosted->Snapshot([this, name, hosted, mark](absl::StatusOr<Checkpoint> checkpoint) {
      if (checkpoint.ok()) checkpoint->hosting = HostingOf(*hosted, mark.numbers);
      runner_.sequences.Resume(name);
      if (!checkpoint.ok()) return Saved(name, nullptr, checkpoint.status());
      const auto kept = std::make_shared<Checkpoint>(*std::move(checkpoint));
      runner_.dispatch.Run(Weight::kDisk, [this, name, mark, kept] { Write(name, mark, *kept); });
    });
  });
}

void LiveModels::Write(const std::string& name, const Mark& mark, const Checkpoint& checkpoint) {
  bool wanted, in_time;
  {
    MutexLock lock(mu_);
    Entry& entry = entries_.at(name);
    wanted = entry.forget.empty();
    in_time = !stopped_;
    entry.stored = entry.stored || (wanted && in_time);
  }
  absl::Status status;
  if (wanted) {
    status = in_time ? WriteToStore(name, checkpoint) : absl::DeadlineExceededError("the time of --drain_seconds was over");
  }
  Saved(name, wanted && status.ok() ? &mark : nullptr, status);
}

absl::Status LiveModels::WriteToStore(const std::string& name, const Checkpoint& checkpoint) {
  if (IsUnread(name)) RETURN_IF_ERROR(SetAside(name));
  const absl::Status status = store_->Save(name, checkpoint).status();
  if (!absl::IsDataLoss(status)) return status;
  RETURN_IF_ERROR(SetAside(name));  // It was damaged since.
  return store_->Save(name, checkpoint).status();
}

absl::Status LiveModels::SetAside(const std::string& name) {
  const absl::StatusOr<std::string> path = store_->SetAside(name);
  if (!path.ok() && !absl::IsNotFound(path.status())) return path.status();
  MutexLock lock(mu_);
  unread_.erase(name);
  if (path.ok()) {
    log_(EventLine("model_set_aside", LogLevel::kWarning,
                   absl::StrCat("the live checkpoint of model '", name, "' that was not loaded is now ", *path,
                                ": a model of that name is saved in its place")));
  }
  return absl::OkStatus();
}

bool LiveModels::IsUnread(const std::string& name) const {
  MutexLock lock(mu_);
  return unread_.contains(name);
}

int64_t LiveModels::unsaved() const {
  MutexLock lock(mu_);
  return std::count_if(entries_.begin(), entries_.end(), [](const auto& each) { return each.second.failed; });
}

std::map<std::string, double> LiveModels::Ages() const {
  std::map<std::string, double> ages;
  if (!schedule_.any()) return ages;
  const auto models = models_.List();
  MutexLock lock(mu_);
  for (const auto& [name, hosted] : models) {
    const auto found = entries_.find(name);
    const bool is_stored = found != entries_.end() && found->second.stored && found->second.mark.model.lock() == hosted;
    std::chrono::duration<double> age{0};
    if (!is_stored) {
      age = std::chrono::system_clock::now() - hosted->created();
    } else if (found->second.mark.edits != hosted->edits()) {
      age = Clock::now() - found->second.since;
    }
    ages[name] = age.count();
  }
  return ages;
}

void LiveModels::Saved(const std::string& name, const Mark* mark, const absl::Status& status) {
  failures_ += status.ok() ? 0 : 1;
  std::vector<Done> forget;
  {
    MutexLock lock(mu_);
    Entry& entry = entries_.at(name);
    forget = std::exchange(entry.forget, {});
    if (mark != nullptr) {
      entry.mark = *mark;
      entry.since = Clock::now();
      if (forget.empty()) runner_.sequences.MadeDurable(name, mark->numbers);
    }
    if (!status.ok()) entry.not_before = Clock::now() + kAfterFailure;
    // Many tries that fail alike are one line.
    const std::string told(status.message());
    if (!status.ok() && entry.told != told) Log("model_not_saved", "was not saved", name, status);
    entry.told = told;
    entry.failed = mark == nullptr && forget.empty();
    entry.busy = !forget.empty();
    if (!entry.busy) {
      --under_way_;
      ended_.NotifyAll();
      return;
    }
  }
  runner_.dispatch.Run(Weight::kDisk, [this, name, forget = std::move(forget)] { DeleteNow(name, forget); });
}

void LiveModels::Forget(const std::string& model, Done done) {
  const ScopedAccount owner(runner_.tenants.AccountOf(model));
  {
    MutexLock lock(mu_);
    const auto found = entries_.find(model);
    if (found != entries_.end() && found->second.pausing) {
      // The save waits for the model's numbered calls, one of which may be the call that asks.
      found->second.forget.push_back([](const absl::Status&) {});
      lock.Unlock();
      runner_.dispatch.Run(Weight::kDisk, [this, model, done = std::move(done)] { done(DeleteFromStore(model)); });
      return;
    }
    if (found != entries_.end() && found->second.busy) return found->second.forget.push_back(std::move(done));
    if (found == entries_.end() || !found->second.stored) {
      if (found != entries_.end()) entries_.erase(found);
      lock.Unlock();
      return done(absl::OkStatus());
    }
    found->second.busy = true;
    ++under_way_;
  }
  runner_.dispatch.Run(Weight::kDisk, [this, model, done = std::move(done)] { DeleteNow(model, {done}); });
}

absl::Status LiveModels::DeleteFromStore(const std::string& name) {
  if (IsUnread(name)) return absl::OkStatus();  // It is another model's than the one that is no more.
  runner_.sequences.ForgetDurable(name);
  const absl::Status status = store_->Delete(name);
  if (status.ok() || absl::IsNotFound(status)) return absl::OkStatus();
  Log("model_not_deleted", "was not deleted", name, status);
  return status;
}

void LiveModels::DeleteNow(const std::string& name, std::vector<Done> done) {
  const absl::Status status = DeleteFromStore(name);
  {
    MutexLock lock(mu_);
    Entry& entry = entries_.at(name);
    for (Done& also : entry.forget) done.push_back(std::move(also));
    if (status.ok()) {
      entries_.erase(name);
    } else {  // The checkpoint is there. Its model may be put back, or Look tries again.
      entry.busy = false;
      entry.forget.clear();
      entry.not_before = Clock::now() + kAfterFailure;
    }
    --under_way_;
    ended_.NotifyAll();
  }
  for (const Done& each : done) each(status);
}

void LiveModels::Stop() {
  MutexLock lock(mu_);
  stopped_ = true;
  while (under_way_ > 0) ended_.Wait(mu_);
}

void LiveModels::Load(Loads& loads) {
  const absl::StatusOr<std::vector<std::string>> names = store_->Names();
  if (!names.ok()) {
    return log_(EventLine("models_not_loaded", LogLevel::kError,
                          absl::StrCat("no live checkpoint can be loaded: ", names.status().message())));
  }
  models_.BeginLoading(*names);
  {
    MutexLock lock(mu_);
    for (const std::string& name : *names) entries_[name].busy = true;
  }
  for (const std::string& name : *names) {
    loads.Add(
        name, [this, name] { return LoadOne(name); }, [this, name](const absl::Status& status) { Loaded(name, status); });
  }
}

// The model is in the registry before its entry is free: who finds the entry alone would take the model for deleted.
void LiveModels::Loaded(const std::string& name, const absl::Status& status) {
  if (!status.ok()) {
    Log("model_not_loaded", "was not loaded and stays on the disk", name, status);
    MutexLock lock(mu_);
    entries_.erase(name);
    unread_.insert(name);
  }
  models_.EndLoading(name);
}

absl::StatusOr<Checkpoint> LiveModels::Read(const std::string& name) const {
  const ScopedCustomHost host(devices_.custom_host_of(name));
  ASSIGN_OR_RETURN(Checkpoint checkpoint, store_->Load(name, *devices_.host().allocator));
  if (!checkpoint.hosting.has_value()) return absl::DataLossError("its manifest has no `hosting`");
  return checkpoint;
}

absl::StatusOr<HostedModelPtr> LiveModels::Make(const std::string& name, const Checkpoint& checkpoint) {
  const ScopedCustomHost host(devices_.custom_host_of(name));
  const Hosting& hosting = *checkpoint.hosting;
  ASSIGN_OR_RETURN(Place * place, devices_.Find(hosting.device));
  ASSIGN_OR_RETURN(const HostedModelPtr hosted,
                   HostedModel::Create(name, checkpoint.model.definition, hosting.seed, *place, devices_.host(),
                                       runner_.limits.max_model_bytes, /*clients_are_away=*/true));
  hosted->SetVirtualShards(checkpoint.virtual_shards, models_.least_shards().has_value());
  if (hosting.ttl_seconds.has_value()) {
    hosted->SetTtl(std::chrono::duration_cast<HostedModel::Clock::duration>(std::chrono::duration<double>(*hosting.ttl_seconds)));
  }
  return hosted;
}

Task<absl::Status> LiveModels::LoadOne(std::string name) {
  co_await PostedToDisk(runner_.dispatch);
  CO_ASSIGN_OR_RETURN(Checkpoint checkpoint, Read(name));
  const std::shared_ptr<Lane> lane = devices_.host().lanes->Take();
  co_await PostedAside(*lane);  // Making a model takes long.
  const Hosting hosting = *checkpoint.hosting;
  CO_ASSIGN_OR_RETURN(const HostedModelPtr hosted, Make(name, checkpoint));
  const absl::Status restored = co_await Callback<absl::Status>(
      [&](Callback<absl::Status>::Done done) { hosted->Restore(std::move(checkpoint), std::move(done)); });
  co_await PostedAside(*lane);
  CO_RETURN_IF_ERROR(restored);
  hosted->SetVersion(hosting.version);
  hosted->Touch();
  CO_RETURN_IF_ERROR(models_.AddLoaded(name, hosted));
  Sequences::Numbers numbers = {.applied = hosting.applied, .silent = hosting.silent, .in_part = hosting.in_part};
  runner_.sequences.Restore(name, numbers);
  MutexLock lock(mu_);
  Entry& entry = entries_[name];
  entry.busy = false;
  entry.stored = true;
  entry.mark = MarkOf(name, hosted);
  numbers.calls = entry.mark.numbers.calls;
  entry.mark.numbers = std::move(numbers);
  entry.since = Clock::now();
  co_return absl::OkStatus();
}

void LiveModels::Log(absl::string_view event, absl::string_view what, const std::string& name, const absl::Status& status) {
  log_(
      EventLine(event, LogLevel::kError, absl::StrCat("the live checkpoint of model '", name, "' ", what, ": ", status.message())));
}

}  // namespace gluond::server
