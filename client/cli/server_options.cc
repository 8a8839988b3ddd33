#include <cstdlib>

#include "client/cli/commands.h"

namespace gluond::cli {

std::string DefaultAddress() {
  const char* address = std::getenv("GLUOND_ADDRESS");
  return address == nullptr || *address == '\0' ? "127.0.0.1:50051" : address;
}

void ServerOptions::AddTo(Options* options) {
  options->Add("address", &address, "HOST:PORT, or unix:PATH, of the server. The environment's GLUOND_ADDRESS is the default.");
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
