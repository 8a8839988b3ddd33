#include "client/cli/commands.h"

namespace gluond::cli {

void ServerOptions::AddTo(Options* options) {
  options->Add("address", &address, "HOST:PORT of the server.");
  options->Add("timeout", &timeout, "Longest time for one call to the server.");
  options->Add("wait", &wait, "How long to try again where no server answers.");
}

absl::StatusOr<client::Client> ServerOptions::Connect() const {
  client::Options options;
  options.timeout = timeout;
  options.retry_for = wait;
  return client::Client::Connect(address, options);
}

}  // namespace gluond::cli
