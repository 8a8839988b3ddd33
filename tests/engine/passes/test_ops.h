// Operators for the tests of passes, registered in test_ops.cc under the names that gradients use, and two ways to run
// a graph of them on float64: each entry in memory of its own, and as a MemoryPlan says.
//
// elemwise_add, _grad_add, elemwise_sub, elemwise_mul, elemwise_div, negative, _mul_scalar, add_n, ones_like,
// zeros_like and BlockGrad are what their names say. Beside them:
//   cube       x^3.
//   identity   x, in place (FInplaceIdentity), as Reshape is; `shape` reshapes.
//   sum_diff   two outputs, a + b and a - b, and a hidden one, a b.
//   dense      x (n, k), weight (units, k) -> (n, units): inference only.
//   layer      any inputs -> `shape`; _backward_layer reads the head gradient and the inputs: planning only.
//   rectify    its gradient reads its output; planning only.
//   noise      asks for random numbers.
//   bump       adds 1 to its input in memory, and returns it.
//   remote     FExecType kAsync.
//   loss       x, with a gradient of its own: ones (FBeginsGradient).
//   opaque     has no gradient.  wrong_gradient  returns too few.

#ifndef TESTS_ENGINE_PASSES_TEST_OPS_H_
#define TESTS_ENGINE_PASSES_TEST_OPS_H_

#include <map>
#include <string>
#include <vector>

#include "engine/core/graph.h"
#include "engine/passes/infer.h"
#include "engine/passes/plan_memory.h"

namespace gluond::testing {

using Values = std::vector<double>;
using Variables = std::map<std::string, Values>;  // By name; each of shape (size,).

// A call of `op` named `name`.
NodeEntry Call(const std::string& op, const std::string& name, std::vector<NodeEntry> inputs, AttrDict dict = {});

// The signatures of `variables`, as float64.
Signatures SignaturesOf(const Variables& variables);

// The values of all entries of `graph`, each in memory of its own. Fails the test if the graph cannot run.
std::vector<Values> RunUnplanned(const IndexedGraph& graph, const Inferred& inferred, const Variables& variables);

// The values of the graph's outputs.
std::vector<Values> Evaluate(const Graph& graph, const Variables& variables);

// Runs `graph` in an arena as `plan` says, and checks at each read that the value is the one of `expected` (what
// RunUnplanned returned), as well as the outputs at the end.
void CheckPlannedRun(const IndexedGraph& graph, const Inferred& inferred, const MemoryPlan& plan, const Variables& variables,
                     const std::vector<Values>& expected);

}  // namespace gluond::testing

#endif  // TESTS_ENGINE_PASSES_TEST_OPS_H_
