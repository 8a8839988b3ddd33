// The second file that registers the operators of wrong_registrations_test.cc.

#include "engine/core/elementwise.h"
#include "engine/core/op.h"

namespace gluond {
namespace {

GLUOND_DECLARE_OP_ATTR(int, "wrong_type_of_key");

GLUOND_REGISTER_OP(set_twice).set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>);

}  // namespace
}  // namespace gluond
