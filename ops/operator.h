// The vocabulary of an operator's file: registration, rules, gradients, and facts that many operators share.

#ifndef OPS_OPERATOR_H_
#define OPS_OPERATOR_H_

#include <string>
#include <utility>
#include <vector>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"
#include "ops/gradient.h"
#include "ops/rules.h"

namespace gluond::ops {

// A kernel's inputs or outputs, and how each output is to be written.
using Blobs = absl::Span<const TBlob>;
using Requests = absl::Span<const OpReqType>;

// FListOutputNames.
inline FListOutputNames Names(std::vector<std::string> names) {
  return [names = std::move(names)](const NodeAttrs&) { return names; };
}
// FListInputNames, FListOutputNames: as many of `names` as `count` says.
inline FListInputNames FirstNames(std::vector<std::string> names, uint32_t (*count)(const NodeAttrs&)) {
  return [names = std::move(names), count](const NodeAttrs& attrs) {
    return std::vector<std::string>(names.begin(), names.begin() + count(attrs));
  };
}

// An integer parameter, `field` of a parameter struct P, as a number of inputs or outputs.
template <class P, class T>
P StructOf(T P::*field);
template <auto field>
uint32_t Count(const NodeAttrs& attrs) {
  return static_cast<uint32_t>(attrs.param<decltype(StructOf(field))>().*field);
}

// The facts of an operator on any number of inputs, which is parameter `name`.
template <auto field>
auto Variadic(const char* name) {
  return [name](OpRegistration& op) { op.set_attr<key_var_num_args>("key_var_num_args", name).set_num_inputs(Count<field>); };
}

// The facts of a gradient dx = f(dy, like), of which `like` only gives the shape; `text` says what that is.
inline auto GradientByShape(ShapeRule shape, FInferType type, const char* text) {
  return [=](OpRegistration& op) {
    op.set_num_inputs(2)
        .add_argument("dy", "NDArray", "dL/dy.")
        .add_argument("like", "NDArray", text)
        .infer(shape, type)
        .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<1>);
  };
}

// The facts of a gradient dx = f(dy, index, like), of which `like` only gives the shape.
inline auto GradientByIndex(ShapeRule shape, const char* index, const char* index_text, const char* like_text) {
  return [=](OpRegistration& op) {
    op.set_num_inputs(3)
        .add_argument("dy", "NDArray", "dL/dy.")
        .add_argument(index, "NDArray", index_text)
        .add_argument("like", "NDArray", like_text)
        .infer(shape, TypeOfTwo<0, 2>)
        .set_attr<FIgnoreInputs>("FIgnoreInputs", Ignore<2>);
  };
}

}  // namespace gluond::ops

#endif  // OPS_OPERATOR_H_
