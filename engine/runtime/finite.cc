#include "engine/runtime/finite.h"

#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "engine/core/convert.h"
#include "engine/core/graph.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"

namespace gluond {

bool AreFinite(absl::Span<const Tensor> tensors) {
  return absl::c_all_of(tensors, [](const Tensor& tensor) {
    if (!IsFloating(tensor.dtype())) return true;
    return DispatchType(tensor.dtype(), [&](auto t) {
      const auto* const values = tensor.data<decltype(t)>();
      return std::all_of(values, values + tensor.Size(), [](auto value) { return std::isfinite(Convert<double>(value)); });
    });
  });
}

absl::StatusOr<bool> AreFiniteOn(const Lanes& lanes, absl::Span<const Tensor> tensors, const OpContext& context,
                                 Allocator& allocator) {
  constexpr char kOperator[] = "multi_all_finite";
  if (tensors.empty() || Op::Find(kOperator) == nullptr) return true;
  std::vector<NodeEntry> names;
  std::vector<TBlob> blobs;
  for (const Tensor& tensor : tensors) {
    names.push_back(MakeVariable("data"));
    blobs.push_back(tensor.blob());
  }
  ASSIGN_OR_RETURN(const NodePtr node, TryMakeNode(kOperator, "finite", names, {{"num_arrays", absl::StrCat(names.size())}}));
  if (node->facts().kernel(lanes.device().type) == nullptr) return true;
  ASSIGN_OR_RETURN(const Tensor answer, Tensor::Empty(allocator, Shape({1}), DType::kFloat32));
  constexpr OpReqType kWrite = kWriteTo;
  const TBlob to = answer.blob();
  RETURN_IF_ERROR(RunKernel(node->attrs, context, blobs, {&kWrite, 1}, {&to, 1}));
  float is_finite = 0;
  RETURN_IF_ERROR(lanes.driver().CopyToHost(&is_finite, to.data, sizeof(is_finite), lanes.stream()));
  return is_finite != 0;
}

}  // namespace gluond
