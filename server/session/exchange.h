// SessionExchange: the way between a session's arrays and what other clients see of the server: its models, and what
// sessions have saved.
//
// A command is taken up on the session's lane. The command waits for the values of its arrays as Fetch does, for a model on
// the model's strand, and for the disk on the disk's threads. A model is made beside the lanes. The other commands of the
// session go on meanwhile. The session shares tensors with models and with saves, never memory for writing: each moves what
// it would write while another holds the tensor (ParameterMemory::Own, and Own in engine/imperative/direct.cc).

#ifndef SERVER_SESSION_EXCHANGE_H_
#define SERVER_SESSION_EXCHANGE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/imperative/imperative.h"
#include "engine/runtime/budget.h"
#include "gluond/v1/session.pb.h"
#include "server/session/answers.h"
#include "server/session/arrays.h"
#include "server/session/calls.h"
#include "server/session/new_model.h"
#include "server/session/program.h"

namespace gluond::server {

// Used on the session's lane, as the things that it refers to, which outlive it.
class SessionExchange : public std::enable_shared_from_this<SessionExchange> {
 public:
  // `memory` pays for the work of making models' graphs and their descriptions.
  struct Session {
    const SessionProgram::Shared& shared;
    Place& home;
    Limits limits;
    std::shared_ptr<Budget> memory;
    std::shared_ptr<Allocator> host_memory;  // The session's on the host, for other threads: without the scheduler.
    Imperative& imperative;
    SessionArrays& arrays;
    const SessionCalls& calls;
    SessionAnswers& answers;
  };
  explicit SessionExchange(Session session) : session_(std::move(session)) {}
  // Arrays that are still to be opened fail.
  ~SessionExchange();

  // `number`: the number of the command, which is answered.
  void SaveAsModel(const v1::Command::SaveAsModel& command, uint64_t number);
  void OpenModel(const v1::Command::OpenModel& command, uint64_t number);
  void StoreToModel(const v1::Command::StoreToModel& command, uint64_t number);
  void SaveSession(const v1::Command::SaveSession& command, uint64_t number);
  void OpenSaved(const v1::Command::OpenSaved& command, uint64_t number);

  // Commands that wait for a model or the disk.
  int64_t pending() const { return pending_; }

 private:
  using Members = google::protobuf::Map<std::string, uint64_t>;
  using Wanted = SessionAnswers::Wanted;
  // Arrays that will have values of a model or a save, by their names there.
  struct Opening {
    std::vector<std::pair<std::string, ValuePtr>> arrays;
    Reservation kept;  // For the names.
  };
  // On the lane, or beside it while none of its work begins.
  using OnLane = std::function<void(SessionExchange&)>;

  Lane& lane() const { return *session_.imperative.scheduler().home().lane; }
  // A function for any thread, to be called once: does its argument later, beside the lane, if the session is still there. Until
  // then a command is pending.
  std::function<void(OnLane)> Return();

  // Whether the caller may do what the command does to things of a name.
  absl::StatusOr<Owners::ClaimPtr> May(const google::protobuf::Message& command) const {
    return session_.shared.may == nullptr ? Owners::ClaimPtr() : session_.shared.may(command);
  }
  // Adds the array's value, as it is now and on `device`.
  absl::Status Want(uint64_t array, Device device, uint64_t number, Wanted* wanted);
  // Arrays that will have values, on the session's device.
  absl::Status NameArrays(const Members& arrays, uint64_t number);
  std::vector<std::string> NamesOfOpened(uint64_t number) const;
  // Gives them their values, in the order of NamesOfOpened.
  void Fill(uint64_t number, std::vector<Tensor> values);
  // They fail, and the answer tells it.
  void Refuse(uint64_t number, const absl::Status& status);

  // A function for any thread, also after the session's end: calls Shared::changed. `command` is a constant.
  std::function<void(absl::StatusCode)> Teller(absl::string_view command, const std::string& target,
                                               Audit audit = Audit::kEach) const;
  // Answers that the command has changed nothing, and tells it.
  void RefuseChange(absl::string_view command, const std::string& target, uint64_t number, const absl::Status& status) const;

  absl::StatusOr<std::shared_ptr<NewModel>> Plan(const v1::Command::SaveAsModel& command, uint64_t number, Wanted* wanted);
  void MadeModel(uint64_t number, const NewModel& plan, absl::StatusOr<HostedModelPtr> made);
  void OpenedModel(uint64_t number, const HostedModelPtr& hosted, absl::StatusOr<NamedTensors> values, uint64_t version);
  // The answer about a model. `version`: that of the values.
  absl::StatusOr<v1::Model> Describe(const HostedModel& hosted, bool graph, uint64_t version) const;

  // The answer about a save. `names`: the session is named from here on (session.h).
  void Tell(uint64_t number, absl::StatusOr<v1::SavedSession> saved, bool names);
  void OpenedSaved(uint64_t number, absl::StatusOr<SavedSessions::Opened>& opened);

  const Session session_;
  int64_t pending_ = 0;
  absl::flat_hash_map<uint64_t, Opening> opening_;  // By the command's number.
};

}  // namespace gluond::server

#endif  // SERVER_SESSION_EXCHANGE_H_
