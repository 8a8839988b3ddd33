// The command's standard output: a command that could not write what it was asked for has failed.

#ifndef GLUOND_CLIENT_CLI_OUTPUT_H_
#define GLUOND_CLIENT_CLI_OUTPUT_H_

#include "absl/status/status.h"

namespace gluond::cli {

// Opens what the caller has closed of stdin, stdout and stderr, so that no connection gets their numbers, and with it what is
// printed. Reads and writes fail there, as they did. Runs by itself, before
// the constructors of globals, of which gRPC's open descriptors.
[[gnu::constructor(101)]] void OpenStandardDescriptors();

// Writes all that is printed. DATA_LOSS: some of it could not be written. A reader that went away, as `head -1` does, has seen
// what it wanted.
absl::Status FlushOutput();

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_OUTPUT_H_
