#include "server/invoker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "engine/nn/node_spec.h"
#include "server/device_copy.h"

namespace gluond::server {
namespace {

absl::Status CopyAll(std::vector<Tensor>* tensors, Place& place) {
  for (Tensor& tensor : *tensors) {
    ASSIGN_OR_RETURN(tensor, CopyToDevice(tensor, place));
  }
  return absl::OkStatus();
}

}  // namespace

Invoker::Invoker(Devices& devices) : devices_(devices) {
  for (Place* place : devices.offered()) {
    invokers_[place] = std::make_unique<OpInvoker>(*place->lane, *place->allocator);
  }
}

void Invoker::Invoke(Place& place, Invocation invocation, OpInvoker::Done done) {
  const absl::StatusOr<const Op*> op = OfferedOp(invocation.op);
  if (!op.ok()) return done(op.status());
  if (!(*op)->RunsOn(place.device.type)) {
    return done(absl::FailedPreconditionError(absl::StrCat("operator '", invocation.op, "' has no kernel for ",
                                                           place.device.ToString(), "; choose another device")));
  }
  OpInvoker& invoker = *invokers_.at(&place);
  const bool on_host = place.device.type == DeviceType::kCpu;
  if (on_host && !(*op)->HasAttr("FMutateInputs")) {
    return invoker.Invoke(invocation.op, std::move(invocation.attrs), std::move(invocation.inputs),
                          std::move(invocation.options), std::move(done));
  }
  // The request's memory is not to be written; and a GPU has its own.
  place.lane->Post([this, &place, &invoker, invocation = std::move(invocation), done = std::move(done)]() mutable {
    if (absl::Status status = CopyAll(&invocation.inputs, place); !status.ok()) return done(std::move(status));
    invoker.Invoke(invocation.op, std::move(invocation.attrs), std::move(invocation.inputs),
                   std::move(invocation.options),
                   [this, &place, done = std::move(done)](absl::StatusOr<std::vector<Tensor>> outputs) {
      if (!outputs.ok()) return done(std::move(outputs));
      for (Tensor& output : *outputs) {
        absl::StatusOr<Tensor> copy = CopyToHost(output, place, *devices_.host().allocator);
        if (!copy.ok()) return done(copy.status());
        output = *std::move(copy);
      }
      done(std::move(outputs));
    });
  });
}

}  // namespace gluond::server
