#include "engine/passes/operator_error.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"

namespace gluond {

std::string Describe(const Node& node) {
  if (node.is_variable()) return absl::StrCat("variable '", Excerpt(node.name()), "'");
  return absl::StrCat("node '", Excerpt(node.name()), "' (", node.op()->name(), ")");
}

std::string ArgumentText(const Node& node, bool is_input, uint32_t i) {
  const std::vector<std::string> names =
      is_input ? node.op()->input_names(node.attrs, node.num_inputs()) : node.op()->output_names(node.attrs);
  const std::string name = i < names.size() ? absl::StrCat(" '", names[i], "'") : "";
  return absl::StrCat(is_input ? "input " : "output ", i, name);
}

absl::Status OperatorError(const Node& node, const absl::Status& status) {
  absl::string_view rest = status.message();
  std::string text(rest);
  const bool is_input = absl::ConsumePrefix(&rest, "input ");
  if (is_input || absl::ConsumePrefix(&rest, "output ")) {
    const absl::string_view digits = rest.substr(0, std::min(rest.find_first_not_of("0123456789"), rest.size()));
    uint32_t i;
    rest.remove_prefix(digits.size());
    const bool named = absl::StartsWith(rest, " '");  // The operator has put the name in itself.
    if (!named && absl::SimpleAtoi(digits, &i)) text = absl::StrCat(ArgumentText(node, is_input, i), rest);
  }
  return WithMessage(status, absl::StrCat("Error in operator ", Excerpt(node.name()), " (", node.op()->name(), "): ", text));
}

}  // namespace gluond
