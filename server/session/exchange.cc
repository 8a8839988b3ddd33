#include "server/session/exchange.h"

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"

namespace gluond::server {
namespace {

// The memory of a name, beside its text, while an array of it is opened.
constexpr int64_t kBytesPerName = 128;

}  // namespace

SessionExchange::~SessionExchange() {
  if (opening_.empty()) return;
  Scheduler& scheduler = session_.imperative.scheduler();
  const FailurePtr failure = scheduler.Failed(absl::CancelledError("the session has ended"), 0)->failure();
  for (const auto& [number, opening] : opening_) {
    for (const auto& [name, value] : opening.arrays) value->Fail(failure, scheduler.queue());
  }
}

std::function<void(SessionExchange::OnLane)> SessionExchange::Return() {
  ++pending_;
  return [weak = weak_from_this(), lane = &lane()](OnLane work) {
    lane->Post([weak, lane, work = std::move(work)] {
      lane->ContinueAside([weak, work] {
        const auto self = weak.lock();
        if (self == nullptr || self->session_.answers.ended()) return;
        --self->pending_;
        work(*self);
      });
    });
  };
}

std::function<void(absl::StatusCode)> SessionExchange::Teller(absl::string_view command, const std::string& target,
                                                              Audit audit) const {
  return [changed = session_.shared.changed, command, audit, target](absl::StatusCode code) {
    if (changed != nullptr) changed(command, audit, target, code);
  };
}

void SessionExchange::RefuseChange(absl::string_view command, const std::string& target, uint64_t number,
                                   const absl::Status& status) const {
  Teller(command, target)(status.code());
  session_.answers.Fail(status, number);
}

absl::Status SessionExchange::Want(uint64_t array, Device device, uint64_t number, Wanted* wanted) {
  ASSIGN_OR_RETURN(const Array* found, session_.arrays.Find(array));
  wanted->Add(array, session_.imperative.CopyTo({found->value, {}, nullptr}, device, {.command = number}).value);
  return absl::OkStatus();
}

absl::Status SessionExchange::NameArrays(const Members& arrays, uint64_t number) {
  Opening& opening = opening_[number];
  opening.kept = Reservation(session_.memory);
  int64_t bytes = 0;
  for (const auto& [name, array] : arrays) bytes += 2 * static_cast<int64_t>(name.size()) + kBytesPerName;
  absl::Status status = opening.kept.Grow(bytes);
  absl::flat_hash_set<uint64_t> seen = {0};
  for (const auto& [name, array] : arrays) {
    if (!seen.insert(array).second) {
      status =
          absl::InvalidArgumentError(absl::StrCat("`arrays` gives '", Excerpt(name), "' the name ", array,
                                                  array == 0 ? "" : ", as another one", "; name each array by another number"));
      continue;
    }
    auto value = std::make_shared<Value>();
    Array there = session_.imperative.CopyTo({value, {}, nullptr}, session_.home.device, {.command = number});
    session_.answers.Watch(there.value);
    session_.arrays.Set(array, std::move(there), number);
    opening.arrays.emplace_back(name, std::move(value));
  }
  return status;
}

std::vector<std::string> SessionExchange::NamesOfOpened(uint64_t number) const {
  std::vector<std::string> names;
  for (const auto& [name, value] : opening_.at(number).arrays) names.push_back(name);
  return names;
}

void SessionExchange::Fill(uint64_t number, std::vector<Tensor> values) {
  const Opening opening = std::move(opening_.extract(number).mapped());
  ReadyQueue& queue = session_.imperative.scheduler().queue();
  for (size_t i = 0; i < opening.arrays.size(); ++i) opening.arrays[i].second->Set(std::move(values[i]), queue);
}

void SessionExchange::Refuse(uint64_t number, const absl::Status& status) {
  Scheduler& scheduler = session_.imperative.scheduler();
  const FailurePtr failure = scheduler.Failed(status, number)->failure();
  session_.answers.Fail(failure, number);
  const Opening opening = std::move(opening_.extract(number).mapped());
  for (const auto& [name, value] : opening.arrays) value->Fail(failure, scheduler.queue());
}

}  // namespace gluond::server
