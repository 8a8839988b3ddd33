// FollowOptions: the server that this one follows (--follow), and how it is reached.

#ifndef SERVER_FOLLOW_FOLLOW_OPTIONS_H_
#define SERVER_FOLLOW_FOLLOW_OPTIONS_H_

#include <string>

#include "absl/status/status.h"

namespace gluond::server {

struct FollowOptions {
  std::string address;     // "models.example.org:50051"; empty: this server follows nobody.
  std::string token_file;  // A file with the bearer token of a caller with the role `follow`; empty: none is sent.
  std::string authority;   // A file with the authority of the leader's certificate, in PEM; empty: no encryption.
};

// INVALID_ARGUMENT names the flag of a file that cannot be read, or says that a token would travel in clear to another machine.
absl::Status CheckFollow(const FollowOptions& options);

}  // namespace gluond::server

#endif  // SERVER_FOLLOW_FOLLOW_OPTIONS_H_
