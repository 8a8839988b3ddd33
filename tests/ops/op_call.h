// A row of a table (op_case.h) as a graph of one node, for tests that run the row in ways of their own.

#ifndef TESTS_OPS_OP_CALL_H_
#define TESTS_OPS_OP_CALL_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/ops/op_case.h"

namespace gluond::testing {

struct Call {
  NodePtr node;
  std::vector<NodeEntry> xs;  // The inputs: variables with the names InputName(0), InputName(1), ...
};

std::string InputName(size_t i);
absl::StatusOr<Call> MakeCall(const OpCase& c);

// The visible outputs of the call, and the inputs by which FGradient differentiates it.
std::vector<NodeEntry> VisibleOutputs(const Call& call);
absl::StatusOr<std::vector<NodeEntry>> Differentiated(const OpCase& c, const Call& call);

std::vector<HostTensor> InputsOf(const OpCase& c, DType type);

// The error that a number of this type may have, relative to its size.
double ToleranceOf(DType type);

}  // namespace gluond::testing

#endif  // TESTS_OPS_OP_CALL_H_
