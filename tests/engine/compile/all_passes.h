// While there is one, passes run that GLUOND_PASSES leaves out: for tests of what these passes do.

#ifndef TESTS_ENGINE_COMPILE_ALL_PASSES_H_
#define TESTS_ENGINE_COMPILE_ALL_PASSES_H_

#include "engine/compile/pass_set.h"

namespace gluond {

class AllPasses {
 public:
  AllPasses() { SetLeftOutPasses({}); }
  ~AllPasses() { SetLeftOutPasses(before_); }

 private:
  const PassSet before_ = LeftOutPasses();
};

}  // namespace gluond

#endif  // TESTS_ENGINE_COMPILE_ALL_PASSES_H_
