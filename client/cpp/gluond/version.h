// The library's version, by semver.org: programs for one major version compile and link with each later minor one. While the major
// version is 0, that holds for patches alone.

#ifndef GLUOND_VERSION_H_
#define GLUOND_VERSION_H_

#define GLUOND_VERSION_MAJOR 0
#define GLUOND_VERSION_MINOR 1
#define GLUOND_VERSION_PATCH 0
#define GLUOND_VERSION "0.1.0"

namespace gluond::client {

inline constexpr char kRelease[] = GLUOND_VERSION;

}  // namespace gluond::client

#endif  // GLUOND_VERSION_H_
