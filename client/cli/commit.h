// The commit that the program was built from: 12 digits, with `-dirty` where files differed from it, or `unknown`.

#ifndef GLUOND_CLIENT_CLI_COMMIT_H_
#define GLUOND_CLIENT_CLI_COMMIT_H_

#include <string>

namespace gluond::cli {

std::string Commit();

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_COMMIT_H_
