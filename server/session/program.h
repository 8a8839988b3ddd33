// SessionProgram executes the commands of one session: it has its arrays, prepared calls and graphs, by the names that
// the client gave them. It knows nothing of streams and resumptions (session.h).
//
// Commands come in order, on the session's lane (but long ones, see TakesLong), and are taken up at once. A command that
// reads arrays which are not there yet waits for them, and later commands go on. Answers come in the order in which they
// are ready.

#ifndef SERVER_SESSION_PROGRAM_H_
#define SERVER_SESSION_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/cancellation.h"
#include "gluond/v1/session.pb.h"
#include "server/durable/saved_sessions.h"
#include "server/hosted/devices.h"
#include "server/hosted/hosted_model.h"
#include "server/identity/access.h"
#include "server/identity/owners.h"
#include "server/session/answers.h"
#include "server/start/limits.h"
#include "server/wire/attachments.h"

namespace gluond::server {

// A command of a session may touch things that others see. SessionChanged hears of commands that change or read such things, and
// of those that are refused. It is told the command's name, "SaveAsModel", that of the thing, and OK or why it did nothing.
using SessionChanged =
    std::function<void(absl::string_view command, Audit audit, const std::string& target, absl::StatusCode code)>;
// As Owners::May, of a command's own message (Command.SaveAsModel).
using SessionMay = std::function<absl::StatusOr<Owners::ClaimPtr>(const google::protobuf::Message& command)>;

class SessionProgram {
 public:
  using Answer = SessionAnswers::Send;  // Called on Execute's thread, or on the lane.

  // The things that a program has from outside. `devices` outlives a program and all that it has begun; the other references
  // outlive the program.
  struct Shared {
    Devices& devices;
    Models& models;
    SavedSessions& saved;
    CustomHostPtr custom_host = nullptr;                  // The host of the session's tenant; null: that of the devices.
    SessionChanged changed = nullptr;                     // Null: nobody wants to know.
    std::function<absl::Status()> check_audit = nullptr;  // Whether what `changed` hears of may be done; null: it may.
    SessionMay may = nullptr;                             // Null: everybody may.
    std::string client = {};                              // The client's name for itself.
    std::string host = {};  // The credential of the client of the session's own custom operators (OpenSession.host); empty: none.
    std::shared_ptr<Cancellation> cancellation = nullptr;  // The session's end cancels it; null: nobody does.
  };
  // `lane` is a lane of `home` that the session has alone.
  static std::shared_ptr<SessionProgram> Create(const Shared& shared, Place& home, Lane& lane, const Limits& limits, Answer answer);

  // Whether the command's client waits for a Reply with its number.
  static bool IsAnswered(const v1::Command& command);

  // Whether it takes long to take the command up, which is then to be done beside the lane. To be called on `lane`.
  virtual bool TakesLong(const v1::Command& command) const = 0;
  // Takes up the command. To be called on `lane`, or beside it while no work of it begins. `attachments` belong to the
  // request that the command came in.
  virtual void Execute(uint64_t number, const v1::Command& command, const Attachments& attachments) = 0;
  // Commands taken up that have not come to an end: those that wait for a client, a model or another device.
  virtual int64_t pending() const = 0;
  // Count what the session holds: its tensors on each of its devices, and its other memory on the host.
  using Budgets = std::vector<std::pair<Device, std::shared_ptr<const Budget>>>;
  virtual Budgets budgets() const { return {}; }

  // Cancels commands under way and lets go of all arrays; nothing is answered any more. To be called as Execute.
  virtual ~SessionProgram() = default;
};

}  // namespace gluond::server

#endif  // SERVER_SESSION_PROGRAM_H_
