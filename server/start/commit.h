// The commit that the program was built from: 12 digits, with `-dirty` where files differed from it, or `unknown`.

#ifndef SERVER_START_COMMIT_H_
#define SERVER_START_COMMIT_H_

#include <string>

namespace gluond::server {

std::string Commit();

}  // namespace gluond::server

#endif  // SERVER_START_COMMIT_H_
