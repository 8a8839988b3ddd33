// What operators have in common that a client computes.

#ifndef OPS_CUSTOM_ATTRIBUTES_H_
#define OPS_CUSTOM_ATTRIBUTES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/core/custom_host.h"
#include "engine/core/op_attr_types.h"

namespace gluond::ops {

// An attribute.
inline std::string AttributeText(const AttrDict& dict, absl::string_view key, absl::string_view otherwise) {
  const auto it = dict.find(std::string_view(key.data(), key.size()));
  return it == dict.end() ? std::string(otherwise) : it->second;
}

// Whose it is: the attributes that are not the server's own are the client's.
inline CustomOperator OperatorOf(const AttrDict& dict) {
  CustomOperator op{AttributeText(dict, "__scope__", ""), AttributeText(dict, "op_type", ""), {}};
  for (const auto& [name, text] : dict) {
    if (name != "op_type" && name.rfind("__", 0) != 0) op.attrs.emplace(name, text);
  }
  return op;
}

// UNAVAILABLE: this process has no clients.
inline absl::StatusOr<CustomHost*> HostOf(const CustomOperator& op) {
  CustomHost* const host = GetCustomHost();
  if (host != nullptr) return host;
  return absl::UnavailableError(absl::StrCat("nobody computes the custom operator '", op.op_type, "' here"));
}

// They end when the client has answered.
inline ExecType Async(const NodeAttrs&) { return ExecType::kAsync; }

}  // namespace gluond::ops

#endif  // OPS_CUSTOM_ATTRIBUTES_H_
