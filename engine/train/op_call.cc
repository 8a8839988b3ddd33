#include "engine/train/op_call.h"

#include <utility>

#include "engine/core/status_macros.h"

namespace gluond {

absl::StatusOr<std::unique_ptr<OpCall>> OpCall::Make(absl::string_view name, AttrDict attrs, std::vector<Tensor> in,
                                                     Tensor out, Lane& lane) {
  std::unique_ptr<OpCall> call(new OpCall(lane));
  ASSIGN_OR_RETURN(const Op* op, Op::Get(name));
  if (const auto* key = op->GetAttr<key_var_num_args>("key_var_num_args")) {
    attrs.try_emplace(*key, absl::StrCat(in.size()));
  }
  call->attrs_.name = op->name();
  call->attrs_.dict = std::move(attrs);
  RETURN_IF_ERROR(op->ParseAttrs(&call->attrs_));
  const bool cpu = lane.device().type == DeviceType::kCpu;
  call->compute_ = op->GetAttr<FCompute>(cpu ? "FCompute<cpu>" : "FCompute<gpu>");
  if (call->compute_ == nullptr) {
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
  lane_.ResetScratch();
  OpContext context;
  context.is_train = true;
  context.device = lane_.device();
  context.stream = lane_.stream();
  context.threads = lane_.threads();
  context.scratch = &lane_.scratch();
  return Annotate((*compute_)(attrs_, context, in_blobs_, absl::MakeConstSpan(&req_, 1),
                              absl::MakeConstSpan(&out_blob_, 1)),
                  attrs_.name);
}

}  // namespace gluond
