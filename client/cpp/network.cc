#include "gluond/network.h"

#include <utility>

namespace gluond::client {

Variable Input(std::string name, const Shape& shape, DType dtype) {
  Variable variable;
  variable.name = std::move(name);
  variable.kind = Variable::Kind::kInput;
  variable.shape = shape;
  variable.dtype = dtype;
  return variable;
}

}  // namespace gluond::client
