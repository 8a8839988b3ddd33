// Checks that this processor runs our code, which is compiled for x86-64-v3 (AVX2, FMA: every server CPU since 2013).

#ifndef SERVER_START_CPU_CHECK_H_
#define SERVER_START_CPU_CHECK_H_

#include "absl/status/status.h"

namespace gluond::server {

// FAILED_PRECONDITION names the missing features.
absl::Status CheckCpu();

}  // namespace gluond::server

#endif  // SERVER_START_CPU_CHECK_H_
