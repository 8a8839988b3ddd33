// Input declares a model's input.

#ifndef GLUOND_NETWORK_H_
#define GLUOND_NETWORK_H_

#include <string>

#include "gluond/export.h"
#include "gluond/tensor.h"
#include "gluond/types.h"

namespace gluond::client {

// -1 is a dimension that varies.
GLUOND_EXPORT Variable Input(std::string name, const Shape& shape, DType dtype = DType::kFloat32);

}  // namespace gluond::client

#endif  // GLUOND_NETWORK_H_
