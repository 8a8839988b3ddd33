// OperatorService: lists operators, and runs one at a time without a model (proto/gluond/v1/operator.proto).

#include "server/services/services.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "engine/core/op.h"
#include "gluond/v1/operator.pb.h"
#include "server/codec/attrs_codec.h"
#include "server/codec/describe_operator.h"
#include "server/codec/tensors_codec.h"
#include "server/custom/host_stream.h"
#include "server/hosted/devices.h"
#include "server/services/gradient_check.h"
#include "server/services/invoker.h"
#include "server/services/pages.h"

namespace gluond::server {
namespace {

class OperatorService final : public RawService {
 public:
  OperatorService(Runner& runner, Devices& devices, HostStreams& hosts)
      : RawService(runner, "gluond.v1.OperatorService"), devices_(devices), hosts_(hosts), invoker_(devices) {
    Add("ListOperators", this, &OperatorService::ListOperators);
    Add("DescribeOperator", this, &OperatorService::DescribeOperator);
    Add("ListComponents", this, &OperatorService::ListComponents);
    Add("Invoke", this, &OperatorService::Invoke, &v1::InvokeRequest::inputs);
    Add("CheckGradient", this, &OperatorService::CheckGradient, &v1::CheckGradientRequest::inputs);
    AddStream<v1::HostRequest>("HostOperators", this, &OperatorService::HostOperators);
  }

  void Sweep() override { invoker_.Sweep(); }

 private:
  void ListOperators(Call<v1::ListOperatorsRequest, v1::ListOperatorsResponse> call) {
    const std::string wanted = absl::AsciiStrToLower(call.request().contains());
    std::vector<std::string> names = Op::ListNames();
    std::erase_if(names, [&](const std::string& name) {
      return (absl::StartsWith(name, "_backward") && !call.request().internal()) ||
             !absl::StrContains(absl::AsciiStrToLower(name), wanted);
    });
    call.response().set_registry_hash(RegistryHash());
    const auto name_of = [](const std::string& name) { return name; };
    FinishWithPage(call, std::move(names), name_of, [&call](const std::string& name) {
      DescribeOp(*Op::Find(name), call.request().full(), call.response().add_operators());
    });
  }

  void DescribeOperator(Call<v1::DescribeOperatorRequest, v1::DescribeOperatorResponse> call) {
    ASSIGN_OR_FINISH(call, const Op* op, Op::Get(call.request().op()));
    DescribeOp(*op, /*full=*/true, call.response().mutable_operator_());
    call.Finish();
  }

  void ListComponents(Call<v1::ListComponentsRequest, v1::ListComponentsResponse> call) {
    call.Finish(DescribeComponents(call.request().family(), &call.response()));
  }

  void Invoke(Call<v1::InvokeRequest, v1::InvokeResponse> call) {
    const v1::InvokeRequest& request = call.request();
    ASSIGN_OR_FINISH(call, Place * place, devices_.Find(request.device()));
    ASSIGN_OR_FINISH(call, AttrDict attrs, CallAttrsFromProto(request));
    ASSIGN_OR_FINISH(call, std::vector<Tensor> inputs,
                     DecodeTensors(request.inputs(), call.attachments(), *devices_.host().allocator));
    OperatorCall invoked{request.op(),
                         std::move(attrs),
                         std::move(inputs),
                         request.training(),
                         request.seed(),
                         call.cancellation(),
                         std::string(call.reach().owner())};
    invoker_.Invoke(*place, std::move(invoked), call.Then([call](std::vector<Tensor> outputs) {
      call.FinishWith(std::move(outputs), ReplyForm(call.request().encoding(), call.request().inputs()),
                      call.response().mutable_outputs());
    }));
  }

  void CheckGradient(Call<v1::CheckGradientRequest, v1::CheckGradientResponse> call) {
    const v1::CheckGradientRequest& request = call.request();
    ASSIGN_OR_FINISH(call, AttrDict attrs, CallAttrsFromProto(request));
    ASSIGN_OR_FINISH(call, std::vector<Tensor> inputs,
                     DecodeTensors(request.inputs(), call.attachments(), *devices_.host().allocator));
    GradientCheckOptions options{.op = request.op(),
                                 .attrs = std::move(attrs),
                                 .inputs = std::move(inputs),
                                 .seed = request.seed(),
                                 .cancellation = call.cancellation()};
    if (request.has_epsilon()) options.epsilon = request.epsilon();
    if (request.has_tolerance()) options.tolerance = request.tolerance();
    const ScopedCustomHost host(devices_.custom_host_of(call.reach().owner()));
    StartGradientCheck(devices_.host(), std::move(options), call.Then([call](v1::CheckGradientResponse response) {
      call.response() = std::move(response);
      call.Finish();
    }));
  }

  std::shared_ptr<Stream> HostOperators(Stream::Opening opening) { return hosts_.Start(hosts_, runner(), opening); }

  Devices& devices_;
  HostStreams& hosts_;
  Invoker invoker_;
};

}  // namespace

std::unique_ptr<RawService> NewOperatorService(Runner& runner, Devices& devices, HostStreams& hosts) {
  return std::make_unique<OperatorService>(runner, devices, hosts);
}

}  // namespace gluond::server
