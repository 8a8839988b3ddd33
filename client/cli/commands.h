// The subcommands of `gluond`, one file each. Every one reads its own command line, without the
// program's and its own name, prints its results to stdout and returns errors in words for a
// person.

#ifndef GLUOND_CLIENT_CLI_COMMANDS_H_
#define GLUOND_CLIENT_CLI_COMMANDS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/options.h"
#include "gluond/client.h"

namespace gluond::cli {

using Arguments = std::vector<std::string>;

absl::Status Serve(const Arguments& arguments);
absl::Status Train(const Arguments& arguments);
absl::Status Predict(const Arguments& arguments);
absl::Status Operators(const Arguments& arguments);
absl::Status Models(const Arguments& arguments);
absl::Status Explain(const Arguments& arguments);
absl::Status Checkpoints(const Arguments& arguments);
absl::Status Datasets(const Arguments& arguments);
absl::Status Sessions(const Arguments& arguments);
absl::Status Publish(const Arguments& arguments);
absl::Status Versions(const Arguments& arguments);
absl::Status Load(const Arguments& arguments);
absl::Status Group(const Arguments& arguments);
absl::Status Health(const Arguments& arguments);
absl::Status Token(const Arguments& arguments);
absl::Status Certificates(const Arguments& arguments);

// GLUOND_ADDRESS, which the Python client reads as well; where that is not set, or empty, this machine's.
std::string DefaultAddress();

// The way in which a subcommand reaches its server.
struct ServerOptions {
  std::string address = DefaultAddress();
  absl::Duration timeout = absl::Minutes(5);
  absl::Duration wait = absl::Seconds(2);  // For a server that is just starting.
  client::Access access = client::Access::FromEnvironment();

  void AddTo(Options* options);
  absl::StatusOr<client::Client> Connect() const;
};

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_COMMANDS_H_
