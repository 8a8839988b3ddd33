// gluond: the command. Each subcommand stands in its own file.

#include <algorithm>
#include <iostream>

#include "absl/synchronization/mutex.h"
#include "bazel/commit.h"
#include "client/cli/commands.h"
#include "client/cli/nearest.h"
#include "client/cli/output.h"
#include "client/cli/table.h"
#include "gluond/error.h"

namespace gluond::cli {
namespace {

struct Command {
  const char* name;
  const char* summary;
  absl::Status (*run)(const Arguments&);
};

constexpr Command kCommands[] = {
    {"serve", "Starts a server.", Serve},
    {"train", "Trains a network on images, with a progress bar.", Train},
    {"predict", "Shows images with what a trained network takes them for.", Predict},
    {"operators", "Lists a server's operators, or describes one.", Operators},
    {"models", "Lists a server's models, describes or deletes one.", Models},
    {"explain", "Shows the program that a model is compiled to, step by step.", Explain},
    {"checkpoints", "Lists the checkpoints in a server's store, or deletes one.", Checkpoints},
    {"datasets", "Lists the datasets on a server, or deletes one.", Datasets},
    {"sessions", "Lists what Python's sessions have saved on a server.", Sessions},
    {"publish", "Serves a version of a model as it is now.", Publish},
    {"versions", "Lists published versions, routes requests to them or retires one.", Versions},
    {"load", "Puts load on a server and measures its answers.", Load},
    {"group", "Shows the servers that train models together, or lets one leave.", Group},
    {"health", "Asks a server whether it is well.", Health},
    {"token", "Makes a bearer token, and the server's line on whom it stands for.", Token},
    {"certificates", "Makes an authority's, a server's and a client's certificate, for tests.", Certificates},
};

// The exit status where the command line is wrong; that of other errors is 1.
constexpr int kUsageError = 2;

void PrintUsage(std::ostream& out) {
  out << "gluond trains and serves neural networks on another machine.\n\n"
         "Usage: gluond COMMAND [OPTION]...\n\nCommands:\n";
  Table rows;
  for (const Command& command : kCommands) {
    rows.push_back({std::string("  ") + command.name, command.summary});
  }
  out << Aligned(rows) << "\n`gluond COMMAND --help` explains a command.\n";
}

int Run(const Arguments& arguments) {
  // Debian builds Abseil so that each lock of gRPC is looked up in a graph, under one lock of the whole process.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  if (arguments.empty() || arguments[0] == "--help" || arguments[0] == "-h" || arguments[0] == "help") {
    PrintUsage(arguments.empty() ? std::cerr : std::cout);
    return arguments.empty() ? kUsageError : 0;
  }
  if (arguments[0] == "--version" || arguments[0] == "version") {
    std::cout << "gluond " << client::kRelease << " (" << Commit() << ")\n";
    return 0;
  }
  const auto* command =
      std::find_if(std::begin(kCommands), std::end(kCommands), [&](const Command& c) { return arguments[0] == c.name; });
  if (command == std::end(kCommands)) {
    std::vector<std::string> names;
    for (const Command& each : kCommands) names.push_back(each.name);
    std::cerr << "gluond: there is no command '" << arguments[0] << "'" << DidYouMean(arguments[0], names) << ".\n\n";
    PrintUsage(std::cerr);
    return kUsageError;
  }
  const absl::Status status = command->run(Arguments(arguments.begin() + 1, arguments.end()));
  if (status.ok()) return 0;
  (void)FlushOutput();  // The output so far comes before the error.
  std::cerr << "gluond " << command->name << ": " << status.message() << "\n" << client::TracebackOf(status);
  return IsWrongCommandLine(status) ? kUsageError : 1;
}

int Main(const Arguments& arguments) {
  const int exit_status = Run(arguments);
  const absl::Status written = FlushOutput();
  if (written.ok()) return exit_status;
  std::cerr << "gluond: " << written.message() << "\n";
  return exit_status == 0 ? 1 : exit_status;
}

}  // namespace
}  // namespace gluond::cli

int main(int argc, char** argv) { return gluond::cli::Main(gluond::cli::Arguments(argv + 1, argv + argc)); }
