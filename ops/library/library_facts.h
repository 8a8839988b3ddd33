// LibraryFacts: what a library tells of one of its operators, checked and copied.

#ifndef OPS_LIBRARY_LIBRARY_FACTS_H_
#define OPS_LIBRARY_LIBRARY_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/param.h"
#include "ops/library/gluond_op.h"

namespace gluond::ops {

class LibraryFacts : public SchemaBase {
 public:
  // INVALID_ARGUMENT tells the first mistake.
  static absl::StatusOr<LibraryFacts> Read(const gluond_op_facts* facts);

  // The attribute parser. INVALID_ARGUMENT: a value, or `check` refuses them together, or they count inputs or outputs that
  // the operator does not have.
  absl::Status Parse(NodeAttrs* attrs) const;

  // Whether attributes decide which inputs or outputs a call has.
  bool counts() const { return functions.count_inputs != nullptr || functions.count_outputs != nullptr || variable_inputs; }

  std::string name, description;
  std::vector<ArgumentDoc> inputs;
  std::vector<uint32_t> shape_only, states;  // Inputs.
  std::vector<std::string> output_names;     // Empty: as the registry names them.
  std::vector<std::pair<int, int>> inplace;
  std::optional<uint32_t> variable_inputs;  // The place of the attribute that holds their number.
  // Its functions and numbers. Its pointers to names and lists are null.
  gluond_op_facts functions;

 private:
  absl::Status ReadInputs(const gluond_op_facts& facts);
  absl::Status ReadAttributes(const gluond_op_facts& facts);
  absl::Status ReadAttribute(const gluond_attribute& attribute);
  absl::Status ReadOutputs(const gluond_op_facts& facts);
  absl::Status ReadInplace(const gluond_op_facts& facts);
  absl::Status CheckName(const std::string& argument) const;
};

}  // namespace gluond::ops

#endif  // OPS_LIBRARY_LIBRARY_FACTS_H_
