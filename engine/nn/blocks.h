// Parts that the families of blocks share. Only blocks*.cc include this file.

#ifndef ENGINE_NN_BLOCKS_H_
#define ENGINE_NN_BLOCKS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/nn/block.h"
#include "engine/nn/initializer.h"

namespace gluond {

std::vector<BlockCatalog::Entry> ContainerBlocks();
std::vector<BlockCatalog::Entry> BasicBlocks();
std::vector<BlockCatalog::Entry> ActivationBlocks();
std::vector<BlockCatalog::Entry> ConvolutionBlocks();
std::vector<BlockCatalog::Entry> PoolingBlocks();
std::vector<BlockCatalog::Entry> NormalizationBlocks();
std::vector<BlockCatalog::Entry> RecurrentBlocks();
std::vector<BlockCatalog::Entry> CellBlocks();

// The entry of a layer: `expand(param, scope, x)`, no children, attributes a P.
template <class P, class Expand>
BlockCatalog::Entry Layer(const char* name, const char* description, Expand expand) {
  return {
      name, description, P::__FIELDS__(),
      [expand](const BlockSpec& block, const BlockScope& scope, NodeEntry x, const BlockChildren&) -> absl::StatusOr<NodeEntry> {
        if (!block.children.empty()) {
          return absl::InvalidArgumentError(absl::StrCat("takes no children, got ", block.children.size()));
        }
        ASSIGN_OR_RETURN(const P p, ParseAttrs<P>(block.attrs));
        return expand(p, scope, std::move(x));
      }};
}

// A parameter of a layer; `initializer` as ParseInitializer reads it. nullopt: by its name, else the model's.
inline absl::StatusOr<NodeEntry> LayerParameter(const BlockScope& scope, absl::string_view name, const Shape& shape, DType dtype,
                                                const std::optional<std::string>& initializer, bool differentiable = true) {
  Parameter parameter;
  parameter.shape = shape;
  parameter.dtype = dtype;
  parameter.differentiable = differentiable;
  ASSIGN_OR_RETURN(parameter.initializer, ParseInitializer(initializer.value_or("")));
  if (parameter.initializer.type.empty()) parameter.initializer = InitializerByName(name);
  return scope.NewParameter(name, std::move(parameter));
}

// y = act(x), or x without a name.
inline absl::StatusOr<NodeEntry> Activate(const BlockScope& scope, const std::optional<std::string>& activation, NodeEntry x) {
  if (!activation.has_value()) return x;
  return scope.Call("Activation", "activation", {std::move(x)}, {{"act_type", *activation}});
}

// A size that Gluon writes as 0 when it is not known.
inline int64_t SizeOrUnknown(int64_t size) { return size == 0 ? Shape::kUnknown : size; }

// One number for each of `count` axes; one number stands for all. INVALID_ARGUMENT: another count, or one below `low`.
absl::StatusOr<std::vector<int64_t>> SizesOfAxes(absl::string_view name, std::vector<int64_t> sizes, size_t count, int64_t low);

template <class T>
std::string Text(const T& value) {
  return param_internal::FormatValue(value);
}

}  // namespace gluond

#endif  // ENGINE_NN_BLOCKS_H_
