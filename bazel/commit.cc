#include "bazel/commit.h"

namespace gluond {
namespace {

// stamp.bzl writes into the finished program here. The compiler is to believe nothing of the value that it sees.
[[gnu::section(".gluond_commit"), gnu::used]] const volatile char kCommit[64] = "unknown";

}  // namespace

std::string Commit() {
  std::string commit;
  for (const volatile char& c : kCommit) {
    if (c == '\0') break;
    commit += c;
  }
  return commit;
}

}  // namespace gluond
