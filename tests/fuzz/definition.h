// What holds of every definition of a model, whether it came as a graph or as a tree of blocks.

#ifndef TESTS_FUZZ_DEFINITION_H_
#define TESTS_FUZZ_DEFINITION_H_

#include "gluond/v1/model.pb.h"

namespace gluond::fuzz {

// It is refused; or it is told, and kept in a checkpoint, so that it defines the same model again, and its shapes can be
// inferred.
void CheckDefinition(const v1::DefineModelRequest& request);

}  // namespace gluond::fuzz

#endif  // TESTS_FUZZ_DEFINITION_H_
