// Loads libraries of operators (ops/library/gluond_op.h), shared objects that people outside of this tree have built.

#ifndef SERVER_START_OPERATOR_LIBRARIES_H_
#define SERVER_START_OPERATOR_LIBRARIES_H_

#include <chrono>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace gluond::server {

struct OperatorLibrary {
  std::string path;
  std::string digest;  // Sixteen hexadecimal digits, of the file's bytes.
  std::vector<std::string> operators;
};

// A library has so long to be loaded by the child process.
constexpr std::chrono::seconds kTimeToLoad{60};

// Each library is first loaded by a child process, so that one that crashes, hangs or ends its process does so there. An error is
// one line, which names the file. It is not there, cannot be loaded, is no library or one of another version, or its operators are
// refused. To be called before this program starts threads that allocate or look at the registry.
absl::StatusOr<std::vector<OperatorLibrary>> LoadOperatorLibraries(const std::vector<std::string>& paths,
                                                                   std::chrono::milliseconds time = kTimeToLoad);

}  // namespace gluond::server

#endif  // SERVER_START_OPERATOR_LIBRARIES_H_
