// OneByOne runs a graph the slow, obvious way: each node alone, with fresh memory, in topological order. It is the
// oracle of the operators' tests, and shares no code with the executor.
//
// Outputs are filled with rubbish before a kernel runs, and guarded by bytes that it must not touch.

#ifndef TESTS_OPS_ONE_BY_ONE_H_
#define TESTS_OPS_ONE_BY_ONE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/core/op.h"
#include "engine/core/tensor.h"

namespace gluond::testing {

// A tensor as its numbers, whatever type it is computed in.
struct Numbers {
  Shape shape;
  std::vector<double> values;
};

// The bytes of a tensor on the host.
struct HostTensor {
  Shape shape;
  DType dtype = DType::kFloat32;
  std::vector<char> bytes;

  static HostTensor Of(const Numbers& numbers, DType dtype);
  std::vector<double> values() const;
};

// The device that tests run on: a CPU, or the one that the environment variable GLUOND_TEST_DEVICE names.
Device TestDevice();

// How one node is called. The tests of OpReqType vary it.
struct CallOptions {
  OpReqType req = kWriteTo;
  double fill = 0;         // For kNullOp and kAddTo: the number that the outputs hold before.
  int inplace_input = -1;  // For kWriteInplace: the input in whose memory output `inplace_output` lies.
  int inplace_output = -1;
  bool hidden = true;  // False: nobody reads the hidden outputs, which get kNullOp.
};

class OneByOne {
 public:
  explicit OneByOne(bool is_train = true, Device device = TestDevice()) : is_train_(is_train), device_(device) {}

  // Every output, hidden ones included, of one call. `inputs` are changed where the operator mutates them.
  absl::StatusOr<std::vector<HostTensor>> Call(const Node& node, std::vector<HostTensor>* inputs, const CallOptions& options = {});

  // The values of `outputs`, by the values of the variables. Mutations are not seen by other nodes.
  absl::StatusOr<std::vector<HostTensor>> Evaluate(const std::vector<NodeEntry>& outputs,
                                                   const std::map<std::string, HostTensor>& variables);

 private:
  const bool is_train_;
  const Device device_;
};

}  // namespace gluond::testing

#endif  // TESTS_OPS_ONE_BY_ONE_H_
