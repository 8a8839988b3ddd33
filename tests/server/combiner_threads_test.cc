// gRPC's question whether its default executor has threads is answered by this program (server/net/grpc_1_51/combiner_threads.cc),
// and by no: so gRPC hands no connection's work to it because its owner is busy, to wait there behind others' floods.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include "grpc/grpc.h"

namespace gluond::server {
namespace {

void OfThisProgram() {}

// The library or program that has the function.
const void* HomeOf(const void* function) {
  Dl_info info = {};
  return dladdr(function, &info) == 0 ? nullptr : info.dli_fbase;
}

TEST(CombinerThreadsTest, TheExecutorIsSaidToHaveNoThreads) {
  const void* const program = HomeOf(reinterpret_cast<const void*>(&OfThisProgram));
  ASSERT_NE(program, nullptr);
  EXPECT_STRNE(grpc_version_string(), "");  // gRPC is linked.
  void* const other = dlsym(RTLD_DEFAULT, "grpc_init");
  ASSERT_NE(HomeOf(other), nullptr);
  EXPECT_NE(HomeOf(other), program) << "gRPC is linked statically: then this test tells nothing";

  void* const question = dlsym(RTLD_DEFAULT, "_ZN9grpc_core8Executor17IsThreadedDefaultEv");
  ASSERT_NE(question, nullptr) << "gRPC has no such function any more";
  EXPECT_EQ(HomeOf(question), program) << "gRPC's own function answers";
  EXPECT_FALSE(reinterpret_cast<bool (*)()>(question)());
}

}  // namespace
}  // namespace gluond::server
