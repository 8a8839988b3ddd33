// An operator of a library against the server's own, kernel by kernel.
//
//   library_bench LIBRARY ELEMENTS CALLS
//
// Reads names of elementwise operators from standard input, one a line, and answers each with the microseconds of a call, the
// median of CALLS calls.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "server/start/operator_libraries.h"
#include "tests/bench/op_call.h"

namespace gluond::bench {
namespace {

double Microseconds(OpCall& call, int calls) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> times;
  for (int i = 0; i < calls; ++i) {
    const Clock::time_point begin = Clock::now();
    call.Run();
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + calls / 2, times.end());
  return times[calls / 2];
}

void Run(const std::string& library, int64_t elements, int calls) {
  Check(server::LoadOperatorLibraries({library}).status());
  for (std::string op; std::getline(std::cin, op);) {
    OpCall call(op, {}, {{elements}});
    Microseconds(call, calls);  // Warms up.
    std::printf("%.4f\n", Microseconds(call, calls));
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace gluond::bench

int main(int argc, char** argv) {
  if (argc != 4) return std::fprintf(stderr, "usage: library_bench LIBRARY ELEMENTS CALLS\n"), 2;
  gluond::bench::Run(argv[1], std::atoll(argv[2]), std::atoi(argv[3]));
}
