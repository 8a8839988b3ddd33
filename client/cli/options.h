// Options reads one subcommand's command line and writes its help page. Not thread-safe.
//
//   std::string address = "127.0.0.1:50051";
//   Options options("gluond models", "Lists the models on a server.");
//   options.Add("address", &address, "HOST:PORT of the server.");
//   ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));  // False: help was printed.
//
// A variable's value at Add is its default. `--name=value` and `--name value` mean the same;
// `--name` and `--noname` set booleans; an argument that does not begin with `--`, or that follows
// a bare `--`, is positional.

#ifndef GLUOND_CLIENT_CLI_OPTIONS_H_
#define GLUOND_CLIENT_CLI_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gluond::cli {

class Options {
 public:
  Options(std::string command, std::string description);

  void Add(const std::string& name, std::string* value, const std::string& help);
  void Add(const std::string& name, int64_t* value, const std::string& help);
  void Add(const std::string& name, double* value, const std::string& help);
  void Add(const std::string& name, bool* value, const std::string& help);
  void Add(const std::string& name, absl::Duration* value, const std::string& help);

  // A command line for the help page.
  void AddExample(const std::string& command_line);

  // Lets one positional argument be given; without this there are none.
  void AddPositional(const std::string& name, std::string* value, const std::string& help);

  // True: go on. False: `--help` was asked for and printed.
  // INVALID_ARGUMENT: says which argument, what was expected, and how to get help.
  absl::StatusOr<bool> Parse(const std::vector<std::string>& arguments) const;

  std::string Help() const;

  // INVALID_ARGUMENT: the command line is wrong, as `what` says.
  absl::Status Fail(const std::string& what) const;

 private:
  struct Option {
    std::string name;
    std::string help;
    std::string shown_default;  // Empty: not shown.
    std::string placeholder;    // "NUMBER"
    std::string expected;       // "a whole number"
    bool is_bool;
    std::function<bool(const std::string&)> set;  // False: not such a value.
  };

  const Option* Find(const std::string& name) const;
  absl::Status ParseOption(const std::vector<std::string>& arguments, size_t* at) const;

  std::string command_;
  std::string description_;
  std::vector<Option> options_;
  std::vector<Option> positional_;
  std::vector<std::string> examples_;
};

// Whether Options::Fail made it: an error of the command line, and none of the server's.
bool IsWrongCommandLine(const absl::Status& status);

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_OPTIONS_H_
