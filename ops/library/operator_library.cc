#include "ops/library/operator_library.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "ops/library/library_call.h"
#include "ops/library/library_facts.h"
#include "ops/library/library_graph.h"
#include "ops/library/library_rules.h"

struct gluond_registration {
  std::string path;
  std::vector<std::string> names;
  absl::Status status;  // The first mistake.
};

namespace gluond::ops {
namespace {

using FactsPtr = std::shared_ptr<const LibraryFacts>;

void SetCounts(OpRegistration& op, const FactsPtr& facts) {
  const gluond_op_facts& functions = facts->functions;
  if (facts->counts()) {
    op.set_num_inputs([](const NodeAttrs& attrs) { return CallOf(attrs).num_inputs; });
    op.set_num_outputs([](const NodeAttrs& attrs) { return CallOf(attrs).num_outputs; });
  } else {
    op.set_num_inputs(functions.num_inputs).set_num_outputs(functions.num_outputs);
  }
  if (facts->variable_inputs) op.set_attr<key_var_num_args>("key_var_num_args", facts->fields()[*facts->variable_inputs].doc.name);
  if (const uint32_t visible = functions.num_visible_outputs; visible != 0) {
    op.set_attr<FNumVisibleOutputs>("FNumVisibleOutputs",
                                    [visible](const NodeAttrs& attrs) { return std::min(visible, CallOf(attrs).num_outputs); });
  }
  if (facts->output_names.empty()) return;
  op.set_attr<FListOutputNames>("FListOutputNames", [facts](const NodeAttrs& attrs) {
    const auto begin = facts->output_names.begin();
    return std::vector<std::string>(begin, begin + CallOf(attrs).num_outputs);
  });
}

// A list of inputs, as far as a call has them.
auto FirstOf(std::vector<uint32_t> inputs) {
  return [inputs = std::move(inputs)](const NodeAttrs& attrs) {
    std::vector<uint32_t> result = inputs;
    std::erase_if(result, [n = CallOf(attrs).num_inputs](uint32_t input) { return input >= n; });
    return result;
  };
}

void SetMemory(OpRegistration& op, const FactsPtr& facts) {
  if (!facts->shape_only.empty()) op.set_attr<FIgnoreInputs>("FIgnoreInputs", FirstOf(facts->shape_only));
  if (!facts->states.empty()) op.set_attr<FMutateInputs>("FMutateInputs", FirstOf(facts->states));
  if (facts->inplace.empty()) return;
  op.set_attr<FInplaceOption>("FInplaceOption", [facts](const NodeAttrs& attrs) {
    const gluond_call& call = CallOf(attrs);
    auto pairs = facts->inplace;
    std::erase_if(pairs, [&](const auto& pair) {
      return pair.first >= static_cast<int>(call.num_inputs) || pair.second >= static_cast<int>(call.num_outputs);
    });
    return pairs;
  });
}

void SetFunctions(OpRegistration& op, const FactsPtr& facts) {
  const gluond_op_facts& functions = facts->functions;
  op.infer(LibraryShapes(*facts), LibraryTypes(*facts));
  if (functions.gradient != nullptr) op.set_attr<FGradient>("FGradient", LibraryGradient(*facts));
  if (functions.compute_cpu != nullptr) op.set_attr<FCompute>("FCompute<cpu>", LibraryKernel(functions.compute_cpu));
  if (functions.compute_gpu != nullptr) op.set_attr<FCompute>("FCompute<gpu>", LibraryKernel(functions.compute_gpu));
}

// An operator's own defaults make a call, where none of its attributes is required.
absl::Status TryDefaults(const LibraryFacts& facts) {
  for (const FieldSpec& field : facts.fields()) {
    if (field.doc.required) return absl::OkStatus();
  }
  NodeAttrs attrs;
  return Annotate(Op::Find(facts.name)->ParseAttrs(&attrs), "its defaults are refused");
}

absl::Status Register(const gluond_op_facts* given, gluond_registration* registration) {
  ASSIGN_OR_RETURN(LibraryFacts read, LibraryFacts::Read(given));
  const auto facts = std::make_shared<const LibraryFacts>(std::move(read));
  OpRegistration op(facts->name.c_str(), registration->path.c_str(), 0);
  op.describe(facts->description).add_arguments(facts->inputs).add_arguments(facts->Docs());
  op.set_attr_parser([facts](NodeAttrs* attrs) { return facts->Parse(attrs); });
  SetCounts(op, facts);
  SetMemory(op, facts);
  SetFunctions(op, facts);
  registration->names.push_back(facts->name);
  return TryDefaults(*facts);
}

int32_t RegisterOp(gluond_registration* registration, const gluond_op_facts* facts) {
  if (!registration->status.ok()) return GLUOND_INVALID_ARGUMENT;
  registration->status = Register(facts, registration);
  return registration->status.ok() ? GLUOND_OK : GLUOND_INVALID_ARGUMENT;
}

int32_t Fail(gluond_error* error, int32_t code, const char* text) {
  if (error != nullptr && text != nullptr) error->text = text;
  return code;
}

const gluond_op_api& Api() {
  static const gluond_op_api& api = *new gluond_op_api([] {
    gluond_op_api made{};
    made.size = sizeof(made);
    made.version = GLUOND_OP_VERSION;
    made.register_op = RegisterOp;
    made.fail = Fail;
    AddRunFunctions(&made);
    AddGraphFunctions(&made);
    return made;
  }());
  return api;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> RegisterOperators(const gluond_op_library& library, const std::string& path) {
  if (library.version == 0 || library.version > GLUOND_OP_VERSION) {
    return FailedPrecondition("it is of version ", library.version, " of gluond_op.h, and this server takes version ",
                              GLUOND_OP_VERSION, "; build it with this server's header");
  }
  constexpr size_t kLeast = offsetof(gluond_op_library, register_operators) + sizeof(void*);
  if (library.size < kLeast || library.register_operators == nullptr) {
    return Invalid("its gluond_operator_library has ", library.size,
                   " bytes, or no function; define it by GLUOND_OPERATOR_LIBRARY");
  }
  // They stay: a library may keep its registration, and use it later.
  static auto& registrations = *new std::vector<std::unique_ptr<gluond_registration>>;
  gluond_registration& registration =
      *registrations.emplace_back(std::make_unique<gluond_registration>(gluond_registration{path, {}, absl::OkStatus()}));
  const int32_t code = library.register_operators(&Api(), &registration);
  RETURN_IF_ERROR(registration.status);
  registration.status = FailedPrecondition("operators are registered before the server starts alone");
  if (code != GLUOND_OK) return FailedPrecondition("its register_operators returned the status ", code);
  if (registration.names.empty()) return Invalid("it registers no operators");
  return registration.names;
}

}  // namespace gluond::ops
