#include "engine/core/elementwise.h"

#include "engine/core/op_facts.h"

namespace gluond {
namespace {

absl::string_view Side(absl::string_view list) { return list == "in" ? "input" : list == "out" ? "output" : list; }

}  // namespace

absl::Status AssignShape(absl::string_view list, ShapeVector* shapes, size_t i, const Shape& shape) {
  const Shape provided = (*shapes)[i];
  if (ShapeAssign(&(*shapes)[i], shape)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(Side(list), " ", i, ": Shape inconsistent, Provided = ", provided.ToString(),
                                                 ", inferred shape=", shape.ToString()));
}

absl::Status AssignType(absl::string_view list, TypeVector* types, size_t i, DType type) {
  const DType provided = (*types)[i];
  if (TypeAssign(&(*types)[i], type)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(Side(list), " ", i, ": Type inconsistent, Provided = ", Name(provided), ", inferred type=", Name(type)));
}

bool AllKnown(const ShapeVector& shapes) {
  for (const Shape& s : shapes)
    if (!s.known()) return false;
  return true;
}
bool AllKnown(const TypeVector& types) {
  for (DType t : types)
    if (t == DType::kUnknown) return false;
  return true;
}

absl::StatusOr<bool> SameShape(const NodeAttrs&, ShapeVector* in, ShapeVector* out) {
  Shape shape;
  for (size_t i = 0; i < in->size(); ++i) {
    if (ShapeAssign(&shape, (*in)[i])) continue;
    return absl::InvalidArgumentError(absl::StrCat("input ", i, " has shape ", (*in)[i].ToString(), ", expected ", shape.ToString(),
                                                   "; insert a broadcast or a reshape"));
  }
  for (size_t i = 0; i < out->size(); ++i) {
    if (ShapeAssign(&shape, (*out)[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("output ", i, " has shape ", (*out)[i].ToString(), ", expected ", shape.ToString()));
  }
  for (size_t i = 0; i < in->size(); ++i) SHAPE_ASSIGN_CHECK(in, i, shape);
  for (size_t i = 0; i < out->size(); ++i) SHAPE_ASSIGN_CHECK(out, i, shape);
  return shape.known();
}

absl::StatusOr<bool> SameType(const NodeAttrs&, TypeVector* in, TypeVector* out) {
  DType type = DType::kUnknown;
  for (size_t i = 0; i < in->size(); ++i) {
    if (TypeAssign(&type, (*in)[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("input ", i, " is ", Name((*in)[i]), ", expected ", Name(type), "; insert a Cast"));
  }
  for (DType t : *out) {
    if (!TypeAssign(&type, t)) {
      return absl::InvalidArgumentError(absl::StrCat("an output is ", Name(t), ", expected ", Name(type)));
    }
  }
  for (DType& t : *in) t = type;
  for (DType& t : *out) t = type;
  return type != DType::kUnknown;
}

Gradients OutputsOf(const NodeEntry& first) {
  Gradients outputs;
  for (uint32_t i = 0; i < first.node->num_outputs(); ++i) outputs.push_back(Output(first.node, i));
  return outputs;
}

Gradients MakeGradNode(absl::string_view op, const NodePtr& node, std::vector<NodeEntry> inputs, AttrDict dict) {
  return OutputsOf(MakeNode(op, absl::StrCat(node->name(), "_backward"), std::move(inputs), std::move(dict)));
}

template <bool use_in, bool use_out>
Gradients ElemwiseGradUse<use_in, use_out>::operator()(const NodePtr& node, const Gradients& out_grads) const {
  std::vector<NodeEntry> inputs(out_grads.begin(), out_grads.begin() + node->facts().num_visible);
  if (use_in) inputs.insert(inputs.end(), node->inputs.begin(), node->inputs.end());
  if (use_out) {
    for (uint32_t i = 0; i < node->num_outputs(); ++i) inputs.push_back(Output(node, i));
  }
  return MakeGradNode(op, node, std::move(inputs), node->attrs.dict);
}
template struct ElemwiseGradUse<true, false>;
template struct ElemwiseGradUse<false, true>;
template struct ElemwiseGradUse<true, true>;
template struct ElemwiseGradUse<false, false>;

Gradients NoGradient(const NodePtr& node, const Gradients&) { return Gradients(node->num_inputs()); }

std::vector<std::pair<int, int>> InplaceFirst(const NodeAttrs&) { return {{0, 0}}; }
std::vector<std::pair<int, int>> InplaceEither(const NodeAttrs&) { return {{0, 0}, {1, 0}}; }

}  // namespace gluond
