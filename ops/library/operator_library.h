// Registers the operators of a library that speaks gluond_op.h. The server finds and loads it (server/start).

#ifndef OPS_LIBRARY_OPERATOR_LIBRARY_H_
#define OPS_LIBRARY_OPERATOR_LIBRARY_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "ops/library/gluond_op.h"

namespace gluond::ops {

// The names of the operators that the library has registered, which stay until exit; so must the library. To be called before
// threads look at the registry. An error tells the first mistake; operators before it are registered then, and the process had
// better end. FAILED_PRECONDITION: the library is of a version that this program does not know. INVALID_ARGUMENT: a fact.
absl::StatusOr<std::vector<std::string>> RegisterOperators(const gluond_op_library& library, const std::string& path);

}  // namespace gluond::ops

#endif  // OPS_LIBRARY_OPERATOR_LIBRARY_H_
