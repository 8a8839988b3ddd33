#include <cstdlib>

#include "client/cli/commands.h"

namespace gluond::cli {

std::string DefaultAddress() {
  const char* address = std::getenv("GLUOND_ADDRESS");
  return address == nullptr || *address == '\0' ? "127.0.0.1:50051" : address;
}

void ServerOptions::AddTo(Options* options) {
  options->Add("address", &address,
               "HOST:PORT, unix:PATH or unix-abstract:NAME of the server. The environment's GLUOND_ADDRESS is the default.");
  options->Add("timeout", &timeout, "Longest time for one call to the server.");
  options->Add("tls_ca", &access.tls_ca,
               "File of the authorities whose server is trusted (PEM): encrypts. GLUOND_TLS_CA and so on are the defaults.");
  options->Add("tls_cert", &access.tls_cert, "The client's certificate (PEM), where the server asks for one.");
  options->Add("tls_key", &access.tls_key, "The key of that (PEM).");
  options->Add("token_file", &access.token_file, "File with a bearer token, which each call carries.");
  options->Add("wait", &wait, "How long to try again where no server answers.");
}

absl::StatusOr<client::Client> ServerOptions::Connect() const {
  client::Options options;
  options.timeout = timeout;
  options.retry_for = wait;
  options.access = access;
  return client::Client::Connect(address, options);
}

}  // namespace gluond::cli
