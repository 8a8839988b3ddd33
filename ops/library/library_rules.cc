#include "ops/library/library_rules.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "engine/core/elementwise.h"
#include "engine/core/known_outputs.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "ops/library/library_call.h"
#include "ops/library/library_graph.h"

namespace gluond::ops {
namespace {

constexpr size_t kUsual = 4;  // Inputs or outputs of a call for which no memory is taken.

gluond_shape ToLibrary(const Shape& shape) {
  gluond_shape result{};
  result.ndim = shape.ndim();
  std::copy(shape.begin(), shape.end(), result.dims);
  return result;
}

// Merges what a library tells of input or output `i`.
absl::Status MergeShape(const char* what, size_t i, const gluond_shape& told, Shape* shape) {
  const auto wrong = [&](const auto&... why) {
    return absl::InternalError(absl::StrCat("the library's ", what, " ", i, " ", why...));
  };
  if (told.ndim == -1) return absl::OkStatus();
  if (told.ndim < -1 || told.ndim > Shape::kMaxRank) return wrong("has the rank ", told.ndim, ", expected 0 to ", Shape::kMaxRank);
  const absl::StatusOr<Shape> read = Shape::FromDims({told.dims, static_cast<size_t>(told.ndim)});
  if (!read.ok()) return wrong("has a wrong shape: ", read.status().message());
  const Shape before = *shape;
  if (ShapeAssign(shape, *read)) return absl::OkStatus();
  return Invalid(what, " ", i, ": shape inconsistent, Provided = ", before.ToString(), ", inferred shape=", read->ToString());
}

absl::Status MergeType(const char* what, size_t i, int32_t told, DType* type) {
  const bool known =
      told == GLUOND_DTYPE_UNKNOWN || absl::c_any_of(kAllDTypes, [told](DType each) { return static_cast<int32_t>(each) == told; });
  if (!known)
    return absl::InternalError(absl::StrCat("the library's ", what, " ", i, " has the type ", told, ", which there is not"));
  const DType before = *type, read = static_cast<DType>(told);
  if (TypeAssign(type, read)) return absl::OkStatus();
  return Invalid(what, " ", i, ": type inconsistent, Provided = ", Name(before), ", inferred type=", Name(read));
}

absl::Status CheckTypes(uint64_t allowed, const TypeVector& types) {
  for (const DType type : types) {
    if (allowed == 0 || type == DType::kUnknown || (allowed >> static_cast<int>(type) & 1) != 0) continue;
    std::vector<absl::string_view> names;
    for (const DType each : kAllDTypes) {
      if ((allowed >> static_cast<int>(each) & 1) != 0) names.push_back(Name(each));
    }
    return Invalid("type is ", Name(type), ", expected ", names.empty() ? "none" : absl::StrJoin(names, " or "));
  }
  return absl::OkStatus();
}

gluond_tensor ToLibrary(const TBlob& blob) {
  return {blob.data, blob.shape.begin(), blob.Size(), blob.shape.ndim(), static_cast<int32_t>(blob.dtype)};
}

// A kernel's gluond_run, and behind it the context that the server's functions use.
struct LibraryRun : gluond_run {
  const OpContext* ctx;
};

void* GetScratch(const gluond_run* run, size_t bytes, gluond_error* error) {
  Scratch* const scratch = static_cast<const LibraryRun*>(run)->ctx->scratch;
  absl::StatusOr<void*> space = scratch == nullptr ? absl::InternalError("the run has no scratch space") : scratch->Get(bytes);
  if (space.ok()) return *space;
  if (error != nullptr) error->text = std::string(space.status().message());
  return nullptr;
}

void RunInParallel(const gluond_run* run, int64_t n, int64_t grain, void (*body)(void*, int64_t, int64_t), void* user) {
  Threads* const threads = static_cast<const LibraryRun*>(run)->ctx->threads;
  if (n <= 0) return;
  if (threads == nullptr || n <= grain) return body(user, 0, n);
  threads->ParallelFor(n, std::max<int64_t>(grain, 1), [=](int64_t begin, int64_t end) { body(user, begin, end); });
}

// The gradient of an input has the input's shape and type, or the graph is refused. In a program this shares the memory.
absl::StatusOr<NodeEntry> OfTheInputsShape(const NodePtr& node, size_t i, const NodeEntry& gradient) {
  ASSIGN_OR_RETURN(NodePtr same, TryMakeNode("_identity_with_attr_like_rhs", absl::StrCat(node->name(), "_backward", i),
                                             {gradient, node->inputs[i]}));
  return NodeEntry{std::move(same), 0};
}

}  // namespace

FInferShape LibraryShapes(const LibraryFacts& facts) {
  const auto infer = facts.functions.infer_shape;
  if (infer == nullptr) return ShapeRule(SameShape);
  return [infer](const NodeAttrs& attrs, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
    const gluond_call& call = CallOf(attrs);
    std::vector<gluond_shape> inputs, outputs;
    for (const Shape& shape : *in) inputs.push_back(ToLibrary(shape));
    for (const Shape& shape : *out) outputs.push_back(ToLibrary(shape));
    gluond_error error;
    const int32_t code = infer(&call, inputs.data(), outputs.data(), &error);
    RETURN_IF_ERROR(ToStatus(code, error));
    for (size_t i = 0; i < in->size(); ++i) RETURN_IF_ERROR(MergeShape("input", i, inputs[i], &(*in)[i]));
    for (size_t i = 0; i < out->size(); ++i) RETURN_IF_ERROR(MergeShape("output", i, outputs[i], &(*out)[i]));
    return AllKnown(*in) && AllKnown(*out);
  };
}

FInferType LibraryTypes(const LibraryFacts& facts) {
  const auto infer = facts.functions.infer_type;
  if (infer == nullptr) {
    return [allowed = facts.functions.dtypes](const NodeAttrs& attrs, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> {
      ASSIGN_OR_RETURN(const bool known, SameType(attrs, in, out));
      RETURN_IF_ERROR(CheckTypes(allowed, *out));
      return known;
    };
  }
  return [infer](const NodeAttrs& attrs, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> {
    const gluond_call& call = CallOf(attrs);
    std::vector<int32_t> inputs, outputs;
    for (const DType type : *in) inputs.push_back(static_cast<int32_t>(type));
    for (const DType type : *out) outputs.push_back(static_cast<int32_t>(type));
    gluond_error error;
    const int32_t code = infer(&call, inputs.data(), outputs.data(), &error);
    RETURN_IF_ERROR(ToStatus(code, error));
    for (size_t i = 0; i < in->size(); ++i) RETURN_IF_ERROR(MergeType("input", i, inputs[i], &(*in)[i]));
    for (size_t i = 0; i < out->size(); ++i) RETURN_IF_ERROR(MergeType("output", i, outputs[i], &(*out)[i]));
    return AllKnown(*in) && AllKnown(*out);
  };
}

FGradient LibraryGradient(const LibraryFacts& facts) {
  return [gradient = facts.functions.gradient](const NodePtr& node, const Gradients& heads) -> absl::StatusOr<Gradients> {
    gluond_graph graph(node, heads);
    gluond_error error;
    const int32_t code = gradient(&CallOf(node->attrs), &graph, &error);
    RETURN_IF_ERROR(graph.status);
    RETURN_IF_ERROR(ToStatus(code, error));
    for (size_t i = 0; i < graph.gradients.size(); ++i) {
      if (!graph.gradients[i]) continue;
      ASSIGN_OR_RETURN(graph.gradients[i], OfTheInputsShape(node, i, graph.gradients[i]));
    }
    return std::move(graph.gradients);
  };
}

FCompute LibraryKernel(decltype(gluond_op_facts::compute_cpu) compute) {
  return [compute](const NodeAttrs& attrs, const OpContext& ctx, absl::Span<const TBlob> in, absl::Span<const OpReqType> req,
                   absl::Span<const TBlob> out) -> absl::Status {
    absl::InlinedVector<gluond_tensor, kUsual> inputs, outputs;
    absl::InlinedVector<int32_t, kUsual> requests;
    for (const TBlob& blob : in) inputs.push_back(ToLibrary(blob));
    for (const TBlob& blob : out) outputs.push_back(ToLibrary(blob));
    for (const OpReqType each : req) requests.push_back(each);
    LibraryRun run{};
    run.size = sizeof(gluond_run);
    run.stream = ctx.stream;
    run.device = ctx.device.type == DeviceType::kCpu ? GLUOND_DEVICE_CPU : GLUOND_DEVICE_GPU;
    run.device_id = ctx.device.id;
    run.is_train = ctx.is_train;
    run.ctx = &ctx;
    gluond_error error;
    const int32_t code = compute(&CallOf(attrs), &run, inputs.data(), requests.data(), outputs.data(), &error);
    return ToStatus(code, error);
  };
}

void AddRunFunctions(gluond_op_api* api) {
  api->scratch = GetScratch;
  api->parallel_for = RunInParallel;
}

}  // namespace gluond::ops
