// The commit that the program was built from: 12 digits, with `-dirty` where files differed from it, or `unknown`.

#ifndef BAZEL_COMMIT_H_
#define BAZEL_COMMIT_H_

#include <string>

namespace gluond {

std::string Commit();

}  // namespace gluond

#endif  // BAZEL_COMMIT_H_
