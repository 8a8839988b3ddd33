// NamedTensor: a value with the name of the input, output or parameter that it belongs to.

#ifndef ENGINE_NN_NAMED_TENSOR_H_
#define ENGINE_NN_NAMED_TENSOR_H_

#include <string>
#include <vector>

#include "engine/core/tensor.h"

namespace gluond {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};
using NamedTensors = std::vector<NamedTensor>;

}  // namespace gluond

#endif  // ENGINE_NN_NAMED_TENSOR_H_
