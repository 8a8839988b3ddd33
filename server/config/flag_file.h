// The file of the flag --config: a map of YAML from flags' names to their values. A list stands for words with commas.
//
//   address: 0.0.0.0:50051
//   max_models: 7
//   unix_users: [1000, 1001]

#ifndef SERVER_CONFIG_FLAG_FILE_H_
#define SERVER_CONFIG_FLAG_FILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"

namespace gluond::server {

// The path that the arguments of a program name as --config; empty: they name none.
std::string FindConfig(const std::vector<std::string>& arguments);

// Sets flags of the program as the file says, before the command line does, which may set them otherwise. `flags`: the names of
// those that a file may set. INVALID_ARGUMENT tells file, line and column. NOT_FOUND: there is no such file.
absl::Status SetFlags(const std::string& path, const std::vector<std::string>& flags);

}  // namespace gluond::server

#endif  // SERVER_CONFIG_FLAG_FILE_H_
