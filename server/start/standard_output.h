// The descriptors 0 to 2 of a program that may be started without them, and what it has printed when it ends.

#ifndef SERVER_START_STANDARD_OUTPUT_H_
#define SERVER_START_STANDARD_OUTPUT_H_

#include <string>

namespace gluond::server {

// Opens what the caller has closed of stdin, stdout and stderr, so that no file and no connection gets their numbers, and with
// it the lines of a log. Reads and writes fail there, as they did. Runs by itself, before
// the constructors of globals, of which gRPC's open descriptors.
[[gnu::constructor(101)]] void OpenStandardDescriptors();

// Writes all that is in std::cout. A sentence: that could not be done. A reader that went away, as `head -1` does, has seen
// what it wanted.
std::string WhyNotPrinted();

}  // namespace gluond::server

#endif  // SERVER_START_STANDARD_OUTPUT_H_
