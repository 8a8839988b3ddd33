#include "server/rpc/raw_service.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"

namespace gluond::server {
namespace {

using google::protobuf::MethodDescriptor;
using google::protobuf::ServiceDescriptor;

// Null: no .proto has it.
const ServiceDescriptor* FindService(const std::string& name) {
  return google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
}

// Whether the row has the types of the .proto's method, and looks at all of its tensors.
bool Fits(const RawService::Row& row, const MethodDescriptor& method) {
  if (row.unary.request->GetDescriptor() != method.input_type()) return false;
  if (row.unary.reply == nullptr) return method.client_streaming() || method.server_streaming();
  return !method.client_streaming() && row.unary.reply->GetDescriptor() == method.output_type() &&
         (row.unary.has_large_fill == nullptr ? 0 : 1) == row.method.num_tensor_fields;
}

}  // namespace

RawService::Row& RawService::AddRow(const char* method) {
  const ServiceDescriptor* const service = FindService(name_);
  const MethodDescriptor* const found = service == nullptr ? nullptr : service->FindMethodByName(method);
  absl::StatusOr<Method> made =
      found == nullptr ? absl::InternalError(absl::StrCat("no .proto has ", name_, "/", method)) : Method::Of(*found);
  if (added_.ok()) added_ = made.status();
  rows_.push_back(std::make_unique<Row>(Row{made.ok() ? *std::move(made) : Method()}));
  return *rows_.back();
}

absl::Status RawService::CheckComplete() const {
  if (!added_.ok()) return added_;
  const ServiceDescriptor* const service = FindService(name_);
  if (service == nullptr) return absl::InternalError(absl::StrCat("no .proto has the service ", name_));
  for (int i = 0; i < service->method_count(); ++i) {
    const MethodDescriptor& method = *service->method(i);
    const bool found =
        absl::c_any_of(rows_, [&](const auto& row) { return row->method.name == method.name() && Fits(*row, method); });
    if (!found) return absl::InternalError(absl::StrCat(name_, " has no row that fits ", method.name()));
  }
  return absl::OkStatus();
}

}  // namespace gluond::server
