// Options of a connection, and Access: how a client reaches a server that wants encryption, or to know who calls.

#ifndef GLUOND_OPTIONS_H_
#define GLUOND_OPTIONS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"
#include "gluond/export.h"

namespace gluond::client {

// Paths of files; those of certificates and keys in PEM.
struct GLUOND_EXPORT Access {
  std::string tls_ca = {};      // The authorities whose servers are trusted. Empty: no encryption.
  std::string tls_cert = {};    // The client's own certificate, where the server asks for one, ...
  std::string tls_key = {};     // ... and its key.
  std::string token_file = {};  // A bearer token, which each call carries.

  // GLUOND_TLS_CA, GLUOND_TLS_CERT, GLUOND_TLS_KEY and GLUOND_TOKEN_FILE, which the Python client reads as well.
  static Access FromEnvironment();
};

struct Options {
  // The client's name for the server. Empty: a random name. A client that goes on where another run
  // stopped, for example with an upload, gives the same name.
  std::string client_id = "";
  // Deadline of a call, retries included.
  absl::Duration timeout = absl::Minutes(5);
  // A call that finds no server, one that stops, or one that has no room now, is tried again for so long.
  absl::Duration retry_for = absl::Seconds(10);
  // TrainOnBatches keeps the batches that a crash of the server could take back, up to so many bytes.
  // Older ones go: a crash that takes one of them back ends the training.
  uint64_t keep_bytes = uint64_t{1} << 30;
  // Calls of the program's custom operators that are computed at once; others wait. The program's first session with a server says so.
  int callback_threads = 128;
  // How the server is reached.
  Access access = Access::FromEnvironment();
};

}  // namespace gluond::client

#endif  // GLUOND_OPTIONS_H_
