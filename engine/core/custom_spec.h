// CustomSpec: the words of a client about an operator that it computes (CustomOperatorSpec in proto/gluond/v1/graph.proto). In a
// node's attributes they are one text, beside `op_type` and the client's own attributes:
//
//   attrs[kCustomAttribute] = CustomSpec{.arguments = {"data", "label"}, .shared = true}.ToText();
//   ASSIGN_OR_RETURN(const CustomSpec spec, CustomSpec::Of(attrs));
//
// A spec does not say whose operator it is (ScopedCustomHost in custom_host.h does).

#ifndef ENGINE_CORE_CUSTOM_SPEC_H_
#define ENGINE_CORE_CUSTOM_SPEC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/core/node_attrs.h"

namespace gluond {

// The attribute that holds a spec's text. No client can set it.
inline constexpr char kCustomAttribute[] = "__custom__";

// A custom operator has at most so many arguments, outputs and auxiliary states of each kind.
inline constexpr size_t kMostCustomArrays = 1000;

struct CustomSpec {
  // Results that the client has computed already.
  struct Function {
    uint64_t number = 0;
    uint32_t inputs = 0;
    uint32_t outputs = 0;
  };

  std::vector<std::string> arguments = {}, outputs = {"output"}, auxiliary = {};  // Names, without `,` and `;`.
  // The values that the backward pass reads, by number: gradients of outputs, then arguments, then outputs. Absent: all.
  std::optional<std::vector<uint32_t>> dependencies = {};
  bool same_shape = false;
  bool same_dtype = false;
  bool shared = false;
  uint64_t version = 0;
  std::optional<Function> function = {};

  // INVALID_ARGUMENT: a name that is empty or has `,` or `;`, no output, too many arrays, a dependency that is none.
  absl::Status Check() const;

  // The one text of a spec that Check has passed. Parse reads it back; INVALID_ARGUMENT: another text.
  std::string ToText() const;
  static absl::StatusOr<CustomSpec> Parse(absl::string_view text);

  // The spec of a node. Without one, as MXNet writes `Custom`: a shared operator of `data`, with one `output`.
  static absl::StatusOr<CustomSpec> Of(const AttrDict& attrs);
};

}  // namespace gluond

#endif  // ENGINE_CORE_CUSTOM_SPEC_H_
