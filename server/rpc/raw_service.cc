#include "server/rpc/raw_service.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "server/identity/access.h"

namespace gluond::server {

RawService::Row& RawService::AddRow(const char* method, absl::string_view request_type, Weight weight) {
  const std::string path = absl::StrCat("/", name_, "/", method);
  const std::optional<MethodAccess> access = AccessOf(path);
  const bool is_open = access.has_value() && access->access == Access::kOpen;
  Row row{{path, method, weight}, std::string(request_type)};
  row.method.audit = access.value_or(MethodAccess{}).audit;
  row.method.is_short = is_open || weight == Weight::kAlways;
  rows_.push_back(std::make_unique<Row>(std::move(row)));
  return *rows_.back();
}

absl::Status RawService::CheckComplete() const {
  const auto* service = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name_);
  if (service == nullptr) return absl::InternalError(absl::StrCat("no .proto has the service ", name_));
  for (int i = 0; i < service->method_count(); ++i) {
    const auto* method = service->method(i);
    bool found = false;
    for (const auto& row : rows_) {
      found = found || (row->method.name == method->name() && row->request_type == method->input_type()->full_name() &&
                        row->streams == method->server_streaming());
    }
    if (!AccessOf(absl::StrCat("/", name_, "/", method->name())).has_value()) {
      return absl::InternalError(absl::StrCat("identity/access.cc has no row for ", name_, "/", method->name()));
    }
    if (!found) return absl::InternalError(absl::StrCat(name_, " has no row for ", method->name()));
  }
  return absl::OkStatus();
}

}  // namespace gluond::server
