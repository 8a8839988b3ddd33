#include "server/codec/custom_codec.h"

#include <string>
#include <utility>
#include <vector>

#include "engine/core/custom_spec.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

using Places = google::protobuf::RepeatedField<uint32_t>;
using Names = google::protobuf::RepeatedPtrField<std::string>;

std::vector<std::string> ToVector(const Names& names) { return {names.begin(), names.end()}; }

// Adds the places of one kind to a spec's numbers, which begin at `first` for this kind.
absl::Status AddPlaces(const char* kind, const Places& places, size_t count, size_t first, std::vector<uint32_t>* numbers) {
  for (const uint32_t place : places) {
    if (place >= count) return Invalid("custom.dependencies.", kind, " has ", place, ", expected places below ", count);
    numbers->push_back(static_cast<uint32_t>(first) + place);
  }
  return absl::OkStatus();
}

absl::Status AddDependencies(const v1::CustomOperatorSpec::Dependencies& proto, CustomSpec* spec) {
  const size_t outputs = spec->outputs.size(), arguments = spec->arguments.size();
  std::vector<uint32_t>* const numbers = &spec->dependencies.emplace();
  RETURN_IF_ERROR(AddPlaces("out_grads", proto.out_grads(), outputs, 0, numbers));
  RETURN_IF_ERROR(AddPlaces("arguments", proto.arguments(), arguments, outputs, numbers));
  return AddPlaces("outputs", proto.outputs(), outputs, outputs + arguments, numbers);
}

absl::Status Read(const v1::CustomOperatorSpec& proto, CustomSpec* spec) {
  if (proto.has_function()) {
    spec->function = {proto.function().number(), proto.function().inputs(), proto.function().outputs()};
    return spec->Check();
  }
  spec->arguments = ToVector(proto.arguments());
  if (!proto.outputs().empty()) spec->outputs = ToVector(proto.outputs());
  spec->auxiliary = ToVector(proto.auxiliary());
  if (proto.has_dependencies()) RETURN_IF_ERROR(AddDependencies(proto.dependencies(), spec));
  spec->same_shape = proto.same_shape();
  spec->same_dtype = proto.same_dtype();
  spec->shared = proto.shared();
  spec->version = proto.version();
  return spec->Check();
}

}  // namespace

absl::Status CustomFromProto(const v1::CustomOperatorSpec& proto, AttrDict* attrs) {
  CustomSpec spec;
  RETURN_IF_ERROR(Read(proto, &spec));
  if (!proto.op_type().empty() && !attrs->try_emplace("op_type", proto.op_type()).second) {
    return Invalid("`custom` has the op_type, and so have the attributes; leave it out of these");
  }
  (*attrs)[kCustomAttribute] = spec.ToText();
  return absl::OkStatus();
}

void CustomToProto(AttrDict* attrs, v1::Node* node) {
  if (!attrs->contains(kCustomAttribute)) return;
  const absl::StatusOr<CustomSpec> spec = CustomSpec::Of(*attrs);
  attrs->erase(kCustomAttribute);
  if (!spec.ok()) return;  // The node's operator has read it: this does not happen.
  v1::CustomOperatorSpec& proto = *node->mutable_custom();
  if (auto op_type = attrs->extract("op_type"); !op_type.empty()) proto.set_op_type(std::move(op_type.mapped()));
  if (spec->function.has_value()) {
    proto.mutable_function()->set_number(spec->function->number);
    proto.mutable_function()->set_inputs(spec->function->inputs);
    proto.mutable_function()->set_outputs(spec->function->outputs);
    return;
  }
  proto.mutable_arguments()->Add(spec->arguments.begin(), spec->arguments.end());
  proto.mutable_outputs()->Add(spec->outputs.begin(), spec->outputs.end());
  proto.mutable_auxiliary()->Add(spec->auxiliary.begin(), spec->auxiliary.end());
  if (spec->dependencies.has_value()) {
    const size_t outputs = spec->outputs.size(), arguments = spec->arguments.size();
    v1::CustomOperatorSpec::Dependencies& reads = *proto.mutable_dependencies();
    for (const uint32_t number : *spec->dependencies) {
      if (number < outputs) {
        reads.add_out_grads(number);
      } else if (number < outputs + arguments) {
        reads.add_arguments(number - static_cast<uint32_t>(outputs));
      } else {
        reads.add_outputs(number - static_cast<uint32_t>(outputs + arguments));
      }
    }
  }
  proto.set_same_shape(spec->same_shape);
  proto.set_same_dtype(spec->same_dtype);
  proto.set_shared(spec->shared);
  proto.set_version(spec->version);
}

}  // namespace gluond::server
