#include "server/serving/names.h"

#include "absl/strings/numbers.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/store/checkpoint.h"
#include "server/hosted/registry.h"
#include "server/serving/stored_versions.h"

namespace gluond::server {

absl::Status CheckServedName(const std::string& name, const Tenants* tenants) {
  RETURN_IF_ERROR(CheckOwnedName(tenants, "served model", name));
  if (name.size() - TenantPrefix(name).size() <= StoredVersions::kLongestName) return absl::OkStatus();
  return InField("served", Invalid("the name has ", name.size(), " characters, the limit is ", StoredVersions::kLongestName));
}

absl::Status CheckLabel(const std::string& label) {
  RETURN_IF_ERROR(CheckName("label", label));
  int64_t number = 0;
  if (!absl::SimpleAtoi(label, &number)) return absl::OkStatus();
  return InField("labels", Invalid("the label '", label, "' is a number, as versions are; choose a word"));
}

}  // namespace gluond::server
