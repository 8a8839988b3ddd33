// Session is a server's arrays, calls and graphs for one program: NDArrays live in it, operators run in it, in order. Copies are
// the same session. It ends with its last handle and its last array.
//
//   gluond::Session::Connect("127.0.0.1:50051").value();  // Arrays made from now on are this session's.
//
// A program that connects nowhere has a session with the server at GLUOND_ADDRESS or, where that is not set, with a server of its
// own, which ends with the program.
//
// Threads: all of the library may be used from any thread; commands of one thread keep their order, and arrays may be shared,
// where no two threads write to one. Fork: a child shares no session of its parent's; what it made is FAILED_PRECONDITION there, and
// the child may connect itself.

#ifndef GLUOND_SESSION_H_
#define GLUOND_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gluond/client.h"
#include "gluond/export.h"
#include "gluond/options.h"
#include "gluond/place.h"

namespace gluond::client {

class SessionCore;

class GLUOND_EXPORT Session {
 public:
  // Opens a session, in which arrays are made from now on. device: of arrays that name none, `cpu` or `gpu:0`; empty: the
  // server's first. UNAVAILABLE: nobody answers at host:port.
  static absl::StatusOr<Session> Connect(const std::string& address, Options options = {}, const std::string& device = "");

  // Starts a server for this program alone, on a Unix socket, and opens a session with it. The program gluond-server is the
  // one that GLUOND_SERVER names, or is found on PATH. The server ends with the last handle, or with the program, however
  // that ends. NOT_FOUND: there is no gluond-server.
  static absl::StatusOr<Session> StartServer(Options options = {});

  // The session in which this thread makes arrays.
  static absl::StatusOr<Session> Current();
  // Arrays are made in this session from now on, unless a thread says otherwise (SessionScope).
  static void SetDefault(const Session& session);

  // Waits for everything that was given so far. An error that nobody was told of.
  absl::Status WaitAll(Place place = Place::Here()) const;

  // Sets the seed of the random operators that come after it.
  void Seed(uint64_t seed, Place place = Place::Here()) const;

  // The server's devices, its default first: `cpu`, `gpu:0`.
  std::vector<std::string> devices() const;
  const std::string& address() const;
  // A client of the same server, for models, datasets and versions.
  absl::StatusOr<Client> client() const;

  friend bool operator==(const Session& a, const Session& b) { return a.core_ == b.core_; }
  friend bool operator!=(const Session& a, const Session& b) { return a.core_ != b.core_; }

  // For the library itself.
  explicit Session(std::shared_ptr<SessionCore> core) : core_(std::move(core)) {}
  const std::shared_ptr<SessionCore>& core() const { return core_; }

 private:
  std::shared_ptr<SessionCore> core_;
};

// This thread makes arrays in a session as long as the object lives.
class GLUOND_EXPORT SessionScope {
 public:
  explicit SessionScope(const Session& session);
  ~SessionScope();
  SessionScope(const SessionScope&) = delete;

 private:
  std::shared_ptr<SessionCore> before_;
};

}  // namespace gluond::client

#endif  // GLUOND_SESSION_H_
