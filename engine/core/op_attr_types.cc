#include "engine/core/op_attr_types.h"

#include "engine/core/op.h"

namespace gluond {

GLUOND_DECLARE_OP_ATTR(FListInputNames, "FListInputNames");
GLUOND_DECLARE_OP_ATTR(FListOutputNames, "FListOutputNames");
GLUOND_DECLARE_OP_ATTR(FNumVisibleOutputs, "FNumVisibleOutputs");
GLUOND_DECLARE_OP_ATTR(FInferShape, "FInferShape");
GLUOND_DECLARE_OP_ATTR(FInferType, "FInferType");
GLUOND_DECLARE_OP_ATTR(FInplaceOption, "FInplaceOption");
GLUOND_DECLARE_OP_ATTR(FInplaceIdentity, "FInplaceIdentity");
GLUOND_DECLARE_OP_ATTR(FIgnoreInputs, "FIgnoreInputs");
GLUOND_DECLARE_OP_ATTR(FMutateInputs, "FMutateInputs");
GLUOND_DECLARE_OP_ATTR(FGradient, "FGradient");
GLUOND_DECLARE_OP_ATTR(FBeginsGradient, "FBeginsGradient");
GLUOND_DECLARE_OP_ATTR(TIsSum, "TIsSum");
GLUOND_DECLARE_OP_ATTR(TIsZeros, "TIsZeros");
GLUOND_DECLARE_OP_ATTR(FResourceRequest, "FResourceRequest");
GLUOND_DECLARE_OP_ATTR(THasDeterministicOutput, "THasDeterministicOutput");
GLUOND_DECLARE_OP_ATTR(FCompute, "FCompute<cpu>");
GLUOND_DECLARE_OP_ATTR(FCompute, "FCompute<gpu>");
GLUOND_DECLARE_OP_ATTR(FPrepare, "FPrepare<cpu>");
GLUOND_DECLARE_OP_ATTR(FExecType, "FExecType");
GLUOND_DECLARE_OP_ATTR(FSetInputVarAttrOnCompose, "FSetInputVarAttrOnCompose");
GLUOND_DECLARE_OP_ATTR(key_var_num_args, "key_var_num_args");

}  // namespace gluond
