#include "engine/train/op_call.h"

#include <utility>

#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"

namespace gluond {

absl::StatusOr<std::unique_ptr<OpCall>> OpCall::Make(absl::string_view name, AttrDict attrs, std::vector<Tensor> in,
                                                     Tensor out, Lane& lane) {
  std::unique_ptr<OpCall> call(new OpCall(lane));
  ASSIGN_OR_RETURN(const Op* op, Op::Get(name));
  call->attrs_.name = op->name();
  call->attrs_.dict = std::move(attrs);
  RETURN_IF_ERROR(op->ParseAttrs(&call->attrs_, in.size()));
  if (op->kernel(lane.device().type) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("operator '", op->name(), "' has no kernel on ", lane.device().ToString()));
  }
  for (const Tensor& tensor : in) {
    call->in_blobs_.push_back(tensor.blob());
    if (tensor.defined() && tensor.data() == out.data()) call->req_ = kWriteInplace;
  }
  call->in_ = std::move(in);
  call->out_blob_ = out.blob();
  call->out_ = std::move(out);
  return call;
}

absl::Status OpCall::Run() {
  OpContext context = lane_.NewContext(/*training=*/true);
  lane_.LendScratch(&context);
  return Annotate(RunKernel(attrs_, context, in_blobs_, {&req_, 1}, {&out_blob_, 1}), attrs_.name);
}

}  // namespace gluond
