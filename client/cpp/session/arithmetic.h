// Attributes of the operators behind the methods that NDArray and Symbol have in common.

#ifndef GLUOND_CLIENT_CPP_SESSION_ARITHMETIC_H_
#define GLUOND_CLIENT_CPP_SESSION_ARITHMETIC_H_

#include <initializer_list>
#include <string>

#include "gluond/dtype.h"
#include "gluond/ndarray.h"
#include "gluond/tensor.h"
#include "gluond/value.h"

namespace gluond::client {

// "float32", as attributes name it.
const char* NameOf(DType dtype);
Value TupleOf(const Shape& shape);

// A part of an array: the attributes of `slice`, and the axes that the result has not.
struct Cut {
  Attributes ranges;
  Value::Tuple dropped;
};
Cut CutOf(std::initializer_list<Index> indices);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_SESSION_ARITHMETIC_H_
