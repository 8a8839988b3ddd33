// Function: a function of arrays that this program computes, with a derivative for each argument, for use while autograd records.
//
//   const Function square([](const std::vector<NDArray>& x) { return x[0] * x[0]; });
//   square.DefGrad([](const NDArray& g, const NDArray&, const std::vector<NDArray>& x) { return g * 2 * x[0]; });
//   NDArray y = square({x});
//
// There is no class, and no rule for shapes: the result has the shape that it has. Hybrid blocks use CustomOp.

#ifndef GLUOND_FUNCTION_H_
#define GLUOND_FUNCTION_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gluond/export.h"
#include "gluond/ndarray.h"
#include "gluond/place.h"

namespace gluond::client {

struct FunctionParts;

// Copies are the same function.
class GLUOND_EXPORT Function {
 public:
  using Body = std::function<NDArray(const std::vector<NDArray>& arguments)>;
  // The gradient of one argument from that of the result.
  using Derivative = std::function<NDArray(const NDArray& gradient, const NDArray& result, const std::vector<NDArray>& arguments)>;

  // name: in errors.
  explicit Function(Body body, std::string name = "function");
  const Function& DefGrad(Derivative derivative, int argument = 0) const;

  // Nothing within the body is recorded. An argument whose gradient is wanted, and that has no derivative, is Backward's error.
  NDArray operator()(const std::vector<NDArray>& arguments, Place place = Place::Here()) const;

 private:
  std::shared_ptr<FunctionParts> parts_;
};

}  // namespace gluond::client

#endif  // GLUOND_FUNCTION_H_
