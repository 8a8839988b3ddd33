// Checks that this processor runs our code, which is compiled for x86-64-v3 (AVX2, FMA: every server CPU since 2013), and
// tells what its further instructions are good for.

#ifndef SERVER_START_CPU_CHECK_H_
#define SERVER_START_CPU_CHECK_H_

#include <string>

#include "absl/status/status.h"

namespace gluond::server {

// FAILED_PRECONDITION names the missing features.
absl::Status CheckCpu();

// Whether equal rows of float32 have results of equal bits (ops/kernel/equal_rows.h).
bool HasEqualRows();

// The further instructions of this processor that decide about bits, and what oneDNN is told to do without: "avx512f amx-tile".
std::string Instructions();

}  // namespace gluond::server

#endif  // SERVER_START_CPU_CHECK_H_
