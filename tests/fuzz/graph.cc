// Models defined as graphs of operators.

#include "tests/fuzz/definition.h"
#include "tests/fuzz/fuzz.h"

STRUCTURED_FUZZ_TARGET(v1::DefineModelRequest, CheckDefinition, OperatorWords())
