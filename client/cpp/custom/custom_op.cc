#include "gluond/custom_op.h"

#include <charconv>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/custom/host.h"
#include "client/cpp/custom/registry.h"
#include "client/cpp/gluon/symbol_node.h"
#include "client/cpp/session/core.h"
#include "client/cpp/value_message.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace {

// The text that MXNet gives a prop for an attribute.
std::string TextOf(const Value& value) {
  if (const bool* truth = std::get_if<bool>(&value.is)) return *truth ? "True" : "False";
  if (const double* number = std::get_if<double>(&value.is)) {
    char text[32];  // The shortest that reads back as the number.
    return std::string(text, std::to_chars(text, text + sizeof(text), *number).ptr);
  }
  if (const std::string* text = std::get_if<std::string>(&value.is)) return *text;
  if (const Value::Tuple* tuple = std::get_if<Value::Tuple>(&value.is)) {
    std::string text = "(";
    for (const Value& each : *tuple) absl::StrAppend(&text, text.size() > 1 ? ", " : "", TextOf(each));
    return text + (tuple->size() == 1 ? ",)" : ")");
  }
  return "None";
}

struct CustomCall {
  v1::CustomOperatorSpec spec;
  Attributes attributes;
  int outputs = 1;
};

// A call of this program's operator, or of another client's, as the server is told it.
absl::StatusOr<CustomCall> CallOfCustom(const std::shared_ptr<SessionCore>& session, const std::string& op_type,
                                        const Attributes& attributes) {
  CustomCall call;
  KeywordArguments texts;
  for (const auto& [name, value] : attributes) texts[name] = TextOf(value);
  for (const auto& [name, text] : texts) call.attributes.emplace_back(name, text);
  const RegisteredOpPtr registered = FindRegistered(op_type);
  if (registered == nullptr) {
    call.spec.set_op_type(op_type);
    call.spec.set_shared(true);
    call.spec.add_arguments("data");
    call.spec.add_outputs("output");
    return call;
  }
  GLUOND_ASSIGN_OR_RETURN(const std::unique_ptr<CustomOpProp> prop, MakeProp(*registered, texts));
  GLUOND_ASSIGN_OR_RETURN(call.spec, SpecOf(*registered, *prop));
  call.outputs = call.spec.outputs_size();
  GLUOND_RETURN_IF_ERROR(session->host().Offer(op_type, registered->shared));
  return call;
}

}  // namespace

CustomOp::~CustomOp() = default;

absl::Status CustomOp::Backward(const BackwardCall&) { return absl::OkStatus(); }

void CustomOp::Assign(NDArray& to, Req req, const NDArray& value, Place place) {
  if (req == Req::kNull) return;
  to.Assign(req == Req::kAdd ? to + Operand(value, place) : value, place);
}

CustomOpProp::~CustomOpProp() = default;

absl::StatusOr<CustomOpProp::Shapes> CustomOpProp::InferShape(const std::vector<MaybeShape>& arguments) const {
  if (arguments.empty()) return absl::InvalidArgumentError("an operator without arguments must have an InferShape of its own");
  return Shapes{arguments, std::vector<MaybeShape>(ListOutputs().size(), arguments[0]), {}};
}

absl::StatusOr<CustomOpProp::Types> CustomOpProp::InferType(const std::vector<MaybeType>& arguments) const {
  if (arguments.empty()) return absl::InvalidArgumentError("an operator without arguments must have an InferType of its own");
  return Types{arguments, std::vector<MaybeType>(ListOutputs().size(), arguments[0]),
               std::vector<MaybeType>(ListAuxiliaryStates().size(), arguments[0])};
}

std::vector<int> CustomOpProp::DeclareBackwardDependency(const std::vector<int>& out_grad, const std::vector<int>& in_data,
                                                         const std::vector<int>& out_data) const {
  std::vector<int> read;
  if (need_top_grad_) read = out_grad;
  read.insert(read.end(), in_data.begin(), in_data.end());
  read.insert(read.end(), out_data.begin(), out_data.end());
  return read;
}

absl::Status RegisterClass(const std::string& name, CustomOpClass registered, bool shared) {
  const Registration registration = AddRegistered(name, std::move(registered), shared);
  if (!shared) return absl::OkStatus();
  const auto session = SessionCore::Current();
  const absl::Status status = session.ok() ? (*session)->host().Offer(name, true) : session.status();
  if (!status.ok()) TakeBack(registration);
  return status;
}

absl::Status Share(const std::string& name) {
  const RegisteredOpPtr registered = FindRegistered(name);
  if (registered == nullptr) return absl::NotFoundError(absl::StrCat("this program has no custom operator '", name, "'"));
  return RegisterClass(name, registered->kind, /*shared=*/true);
}

void SetOperatorKey(std::string key) { SessionCore::SetKey(std::move(key)); }

std::vector<NDArray> CustomAll(absl::Span<const NDArray> inputs, const std::string& op_type, const Attributes& attributes,
                               Place place) {
  const auto session = inputs.empty() ? SessionCore::Current() : SessionOf(op_type, inputs);
  if (!session.ok()) return {NDArray::Failed(session.status(), place)};
  const auto call = CallOfCustom(*session, op_type, attributes);
  if (!call.ok()) return {NDArray::Failed(call.status(), place)};
  return InvokeCustom("Custom", inputs, call->attributes, call->outputs, &call->spec, place);
}

std::vector<Symbol> CustomAll(absl::Span<const Symbol> inputs, const std::string& op_type, const Attributes& attributes,
                              Place place) {
  const auto session = SessionCore::Current();
  if (!session.ok()) return {Symbol::Failed(session.status(), place)};
  const auto call = CallOfCustom(*session, op_type, attributes);
  if (!call.ok()) return {Symbol::Failed(call.status(), place)};
  return InvokeCustom("Custom", inputs, call->attributes, call->outputs, std::make_shared<v1::CustomOperatorSpec>(call->spec),
                      place);
}

NDArray Custom(absl::Span<const NDArray> inputs, const std::string& op_type, const Attributes& attributes, Place place) {
  return CustomAll(inputs, op_type, attributes, place)[0];
}

Symbol Custom(absl::Span<const Symbol> inputs, const std::string& op_type, const Attributes& attributes, Place place) {
  return CustomAll(inputs, op_type, attributes, place)[0];
}

}  // namespace gluond::client
