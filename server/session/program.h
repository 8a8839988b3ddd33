// SessionProgram: what the commands of one session do: its arrays, prepared calls and graphs, by the names that the
// client gave them. Knows nothing of streams and resumptions (session.h).
//
// Commands come in order, on the session's lane (but long ones, see TakesLong), and are taken up at once: a command that
// reads arrays which are not there yet waits for them, and those after it go on. Answers come in the order in which they
// are ready.

#ifndef SERVER_SESSION_PROGRAM_H_
#define SERVER_SESSION_PROGRAM_H_

#include <cstdint>
#include <memory>

#include "proto/session.pb.h"
#include "server/hosted/devices.h"
#include "server/session/answers.h"
#include "server/start/limits.h"
#include "server/wire/attachments.h"

namespace gluond::server {

class SessionProgram {
 public:
  using Answer = SessionAnswers::Send;  // Called where Execute is, or on the lane.

  // `lane` is one of `home`, and the session's. `devices` outlives the program and all that it has begun.
  static std::unique_ptr<SessionProgram> Create(Devices& devices, Place& home, Lane& lane, const Limits& limits,
                                                Answer answer);

  // Whether it takes long to take the command up: that is to be done beside the lane. On `lane`.
  virtual bool TakesLong(const v1::Command& command) const = 0;
  // Takes up the command. On `lane`, or beside it while no work of it begins. `attachments` belong to the request that
  // the command came in.
  virtual void Execute(uint64_t number, const v1::Command& command, const Attachments& attachments) = 0;
  // Commands taken up that have not come to an end: those that wait for a client or for another device.
  virtual int64_t pending() const = 0;

  // Cancels what is under way and lets go of all arrays; nothing is answered any more. Where Execute is called.
  virtual ~SessionProgram() = default;
};

}  // namespace gluond::server

#endif  // SERVER_SESSION_PROGRAM_H_
