// The release of this server, and the protocol that it speaks: its version, and the optional parts by name. Clients learn these
// from SessionOpened and GetServerInfo.

#ifndef SERVER_START_PROTOCOL_H_
#define SERVER_START_PROTOCOL_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace gluond::server {

// The release.
inline constexpr char kVersion[] = "0.1.0";
// "gluond-server 0.1.0 (COMMIT)", a line.
std::string Release();

// Version of the protocol. It grows where a client or a server that does not know of a change would go wrong.
inline constexpr uint32_t kProtocol = 3;
// The oldest that clients may speak. Those that tell none speak 1, which had other names and forms of calls.
inline constexpr uint32_t kLowestProtocol = 2;

// Optional parts of the protocol, sorted. A name never changes its meaning.
inline constexpr const char* kFeatures[] = {
    "models-of-sessions",  // SaveAsModel, OpenModel, StoreToModel.
    "optimizers",          // DefineOptimizer, StepOptimizer.
    "pages",               // `page_size` and `page_token` of lists.
    "registry-hash",       // SessionOpened.registry_hash.
    "saved-sessions",      // SaveSession, OpenSaved and their calls.
    "serving",             // ServingService, and the open inference protocol.
    "stored-datasets",     // Dataset.stored.
    "train",               // Train and CancelTraining.
    "unknown-commands",    // Commands that the server does not know are answered.
};

// FAILED_PRECONDITION, reason CLIENT_TOO_OLD: this server does not speak the client's protocol any more. 0: the client
// tells none.
absl::Status CheckProtocol(uint32_t protocol, uint32_t lowest = kLowestProtocol);

}  // namespace gluond::server

#endif  // SERVER_START_PROTOCOL_H_
