#include "engine/nn/inputs.h"

#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/core/error_info.h"
#include "engine/core/text.h"

namespace gluond {
namespace {

bool Fits(const Shape& want, const Shape& got) {
  Shape merged = want;
  return ShapeAssign(&merged, got) && merged == got;
}

// The place in a request of an input of this name.
std::string FieldOf(absl::string_view name) { return absl::StrCat("inputs[\"", Excerpt(name), "\"]"); }

absl::Status NoSuchInput(absl::string_view name, absl::Span<const ModelInput> inputs) {
  std::vector<std::string> names;
  for (const ModelInput& input : inputs) names.push_back(input.name);
  return InField(FieldOf(name),
                 absl::InvalidArgumentError(absl::StrCat("there is no input '", Excerpt(name), "'", DidYouMean(name, names),
                                                         " (inputs: ", absl::StrJoin(names, ", "), ")")));
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> MatchInputs(absl::Span<const ModelInput> to, NamedTensors from, size_t optional) {
  absl::flat_hash_map<absl::string_view, size_t> places;
  for (size_t i = 0; i < to.size(); ++i) places.try_emplace(to[i].name, i);
  std::vector<Tensor> tensors(to.size());
  for (NamedTensor& given : from) {
    const auto place = places.find(given.name);
    if (place == places.end()) return NoSuchInput(given.name, to);
    const size_t i = place->second;
    if (tensors[i].defined()) {
      return absl::InvalidArgumentError(absl::StrCat("input '", to[i].name, "' is given twice"));
    }
    if (!given.tensor.defined()) {
      return absl::InvalidArgumentError(absl::StrCat("input '", to[i].name, "' has no value"));
    }
    if (!Fits(to[i].shape, given.tensor.shape())) {
      return InField(FieldOf(to[i].name),
                     absl::InvalidArgumentError(absl::StrCat("input '", to[i].name, "' has shape ", given.tensor.shape().ToString(),
                                                             ", expected ", to[i].shape.ToString())));
    }
    tensors[i] = std::move(given.tensor);
  }
  for (size_t i = 0; i + optional < to.size(); ++i) {
    if (tensors[i].defined()) continue;
    return InField(FieldOf(to[i].name), absl::InvalidArgumentError(absl::StrCat("input '", to[i].name, "' of shape ",
                                                                                to[i].shape.ToString(), " is missing")));
  }
  return tensors;
}

Tensor RowsView(const Tensor& tensor, int64_t first, int64_t count) {
  Shape shape = tensor.shape();
  const size_t row_bytes = shape[0] == 0 ? 0 : tensor.bytes() / static_cast<size_t>(shape[0]);
  shape[0] = count;
  const auto offset = static_cast<size_t>(tensor.data<char>() - static_cast<const char*>(tensor.buffer()->data()));
  return Tensor(tensor.buffer(), offset + static_cast<size_t>(first) * row_bytes, shape, tensor.dtype());
}

}  // namespace gluond
