#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "server/codec/duration.h"
#include "server/rpc/audit_log.h"
#include "server/session/exchange.h"

namespace gluond::server {
namespace {

constexpr size_t kLongestKey = 128;
constexpr char kSaveSession[] = "SaveSession";

// The saved values of these names, in their order.
absl::StatusOr<std::vector<Tensor>> Pick(const SessionSave& save, const std::vector<std::string>& names) {
  absl::flat_hash_map<absl::string_view, const Tensor*> by_name;
  for (const NamedTensor& array : save.arrays) by_name.emplace(array.name, &array.tensor);
  std::vector<Tensor> tensors;
  for (const std::string& name : names) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) {
      std::vector<std::string> all;
      for (const NamedTensor& array : save.arrays) all.push_back(array.name);
      return WithInfo(absl::NotFoundError(absl::StrCat("no array '", Excerpt(name), "' was saved", DidYouMean(name, all))),
                      reason::kNotFound, {{"kind", "array"}, {"name", Excerpt(name)}});
    }
    tensors.push_back(*found->second);
  }
  return tensors;
}

}  // namespace

void SessionExchange::SaveSession(const v1::Command::SaveSession& command, uint64_t number) {
  Wanted wanted;
  auto save = std::make_shared<SessionSave>();
  auto kept = std::make_shared<Reservation>(session_.memory);
  absl::Status status = CheckStoredName("saved session", command.name());
  absl::StatusOr<Owners::ClaimPtr> claim = May(command);
  if (status.ok()) status = claim.status();
  if (status.ok()) status = kept->Grow(static_cast<int64_t>(command.SpaceUsedLong()));
  for (const auto& [name, array] : command.arrays()) {
    if (status.ok()) status = Annotate(Want(array, Device(), number, &wanted), absl::StrCat("array '", Excerpt(name), "'"));
    save->arrays.push_back({name, {}});
  }
  if (!status.ok()) return RefuseChange(kSaveSession, command.name(), number, status);
  save->summary.client = session_.shared.client;
  save->summary.manifest = command.manifest();
  save->random = session_.imperative.random();
  const auto tell = Teller(kSaveSession, command.name());
  const auto write = [this, save, kept, name = command.name(), key = command.key(), claim = *std::move(claim), tell,
                      number](std::vector<Tensor> tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) save->arrays[i].tensor = std::move(tensors[i]);
    const auto done = [to_lane = Return(), kept, claim, tell, number](const absl::StatusOr<v1::SavedSession>& saved) {
      if (claim != nullptr) claim->End(saved.ok());
      tell(saved.status().code());
      to_lane([kept, number, saved](SessionExchange& self) { self.Tell(number, saved, /*names=*/true); });
    };
    session_.shared.saved.Save(name, key, std::move(*save), done);
  };
  session_.answers.Await(std::move(wanted), number, write, tell);
}

void SessionExchange::OpenSaved(const v1::Command::OpenSaved& command, uint64_t number) {
  absl::Status status = NameArrays(command.arrays(), number);
  if (status.ok()) status = CheckStoredName("saved session", command.name());
  if (status.ok()) status = May(command).status();
  if (status.ok() && command.key().size() > kLongestKey) {
    status = absl::InvalidArgumentError(
        absl::StrCat("the key has ", command.key().size(), " bytes, and no key has more than ", kLongestKey));
  }
  const auto tell = Teller("OpenSaved", command.name(), Audit::kMany);
  if (!status.ok()) tell(status.code());
  if (!status.ok()) return Refuse(number, status);
  SavedSessions::Opening opening = {command.name(), command.key(), std::nullopt, nullptr, session_.memory};
  if (command.has_expected_version()) opening.version = command.expected_version();
  if (!command.arrays().empty()) opening.memory = session_.host_memory;
  session_.shared.saved.Open(std::move(opening), [to_lane = Return(), tell, number](absl::StatusOr<SavedSessions::Opened> opened) {
    tell(opened.status().code());
    const auto kept = std::make_shared<absl::StatusOr<SavedSessions::Opened>>(std::move(opened));
    to_lane([number, kept](SessionExchange& self) { self.OpenedSaved(number, *kept); });
  });
}

void SessionExchange::OpenedSaved(uint64_t number, absl::StatusOr<SavedSessions::Opened>& opened) {
  if (!opened.ok()) return Refuse(number, opened.status());
  const bool names = opened->save != nullptr;
  std::vector<Tensor> values;
  if (opened->save != nullptr) {
    absl::StatusOr<std::vector<Tensor>> picked = Pick(*opened->save, NamesOfOpened(number));
    if (!picked.ok()) return Refuse(number, picked.status());
    values = *std::move(picked);
    session_.imperative.SetRandom(opened->save->random);
  }
  Fill(number, std::move(values));
  Tell(number, std::move(opened->saved), names);
}

void SessionExchange::Tell(uint64_t number, absl::StatusOr<v1::SavedSession> saved, bool names) {
  if (names && saved.ok()) ToProto(std::chrono::seconds(session_.limits.GraceSeconds()), saved->mutable_grace());
  session_.answers.Result(std::move(saved), &v1::Reply::mutable_saved, number);
}

}  // namespace gluond::server
