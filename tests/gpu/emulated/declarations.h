// The declarations of a set of CUDA headers: names, and their values or types.

#ifndef TESTS_GPU_EMULATED_DECLARATIONS_H_
#define TESTS_GPU_EMULATED_DECLARATIONS_H_

#include <string>
#include <utility>
#include <vector>

namespace gluond::emulated {

using Declarations = std::vector<std::pair<std::string, std::string>>;
Declarations DeclaredHere();
Declarations DeclaredByNvidia();

}  // namespace gluond::emulated

#endif  // TESTS_GPU_EMULATED_DECLARATIONS_H_
