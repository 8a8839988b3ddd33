// _shuffle: the slices along the first axis in random order, which is the order of random keys.

#include "ops/kernel/copy.h"
#include "ops/kernel/distributions.h"
#include "ops/kernel/gather.h"
#include "ops/kernel/sort.h"
#include "ops/operator.h"

namespace gluond::ops {
namespace {

struct SetKey {
  Philox random;
  int64_t* key;
  HOST_DEVICE void operator()(int64_t i) const {
    Draws draws(random, i);
    const uint64_t high = draws.Word();
    key[i] = static_cast<int64_t>(high << 32 | draws.Word());
  }
};

// Output 1 is the order, by which the gradient finds its way back.
struct Shuffle {
  template <class D>
  static absl::Status Run(const NodeAttrs&, const OpContext& ctx, Blobs x, Requests req, Blobs y) {
    const Shape& shape = x[0].shape;
    const int64_t n = shape[0];
    ASSIGN_OR_RETURN(void* space, ctx.scratch->Get(static_cast<size_t>(n) * sizeof(int64_t)));
    RETURN_IF_ERROR(ForEach<D>(ctx, n, SetKey{ctx.random, static_cast<int64_t*>(space)}));
    const TBlob keys{space, Shape({n}), DType::kInt64, x[0].device};
    ASSIGN_OR_RETURN(const int64_t* order, SortedOrder<D>(ctx, RowGeometry{1, n, 1}, true, n, keys));
    const TBlob places{const_cast<int64_t*>(order), Shape({n}), DType::kInt64, x[0].device};
    RETURN_IF_ERROR(Copy<D>(ctx, places, req[1], y[1]));
    return Gather<D>(ctx, {1, n, shape.Size(1, shape.ndim()), n}, kClip, x[0], places, req[0], y[0]);
  }
};

GLUOND_REGISTER_OP(_shuffle)
    .describe("The slices along the first axis in random order.")
    .add_alias("shuffle")
    .add_argument("data", "NDArray", "Rank 1 or more.")
    .set_num_outputs(2)
    .set_attr<FNumVisibleOutputs>("FNumVisibleOutputs", [](const NodeAttrs&) { return 1u; })
    .set_attr<FListOutputNames>("FListOutputNames", Names({"output", "order"}))
    .set_attr<FInferShape>("FInferShape",
                           [](const NodeAttrs&, ShapeVector* in, ShapeVector* out) -> absl::StatusOr<bool> {
                             RETURN_IF_ERROR(Alike(in, out));
                             const Shape& x = (*in)[0];
                             if (!x.rank_known()) return false;
                             if (x.ndim() == 0) return absl::InvalidArgumentError("input 0 is a scalar; want rank 1 or more");
                             SHAPE_ASSIGN_CHECK(out, 1, Shape({x[0]}));
                             return x.known();
                           })
    .set_attr<FInferType>("FInferType",
                          [](const NodeAttrs&, TypeVector* in, TypeVector* out) -> absl::StatusOr<bool> {
                            RETURN_IF_ERROR(Alike(in, out));
                            TYPE_ASSIGN_CHECK(out, 1, DType::kInt64);
                            return AllKnown(*in);
                          })
    .set_attr<FResourceRequest>("FResourceRequest",
                                [](const NodeAttrs&) {
                                  return std::vector{ResourceRequest::kRandom, ResourceRequest::kTempSpace};
                                })
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr& node, const Gradients& dy) -> Gradients {
                           return {Call("_backward_take", {dy[0], Output(node, 1), node->inputs[0]})};
                         })
    .compute<Shuffle>();

}  // namespace
}  // namespace gluond::ops
