#include "ops/kernel/gather.h"

#include "engine/core/status_macros.h"
#include "ops/kernel/fill.h"
#include BACKEND(gather.h)

namespace gluond::ops {
namespace {

template <class C>
struct GatherElement {
  GatherGeometry g;
  IndexMode mode;
  In<C> x;
  In<int64_t> index;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t column = i % g.inner, slice = i / g.inner;
    const int64_t at = Place(index[slice % g.indices], g.n, mode);
    y.Set(i, x[(slice / g.indices * g.n + at) * g.inner + column]);
  }
};

}  // namespace

template <class D>
absl::Status Gather(const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& x, const TBlob& index,
                    OpReqType req, const TBlob& y) {
  if (req == kNullOp || y.Size() == 0) return absl::OkStatus();
  if (req != kAddTo && CopySlices(D(), ctx, g, mode, x, index, y)) return absl::OkStatus();
  return DispatchCompute(y.dtype, [&](auto c) {
    using C = decltype(c);
    return ForEach<D>(ctx, y.Size(), GatherElement<C>{g, mode, In<C>(x), In<int64_t>(index), Out<C>(y, req)});
  });
}

template <class D>
absl::Status ScatterAdd(const OpContext& ctx, const GatherGeometry& g, IndexMode mode, const TBlob& dy, const TBlob& index,
                        OpReqType req, const TBlob& dx) {
  if (req == kNullOp || dx.Size() == 0) return absl::OkStatus();
  if (req != kAddTo) RETURN_IF_ERROR(FillZero<D>(ctx, dx));
  if (dy.Size() == 0) return absl::OkStatus();
  return AddSlices(D(), ctx, g, mode, dy, index, req, dx);
}

template absl::Status Gather<Backend>(const OpContext&, const GatherGeometry&, IndexMode, const TBlob&, const TBlob&, OpReqType,
                                      const TBlob&);
template absl::Status ScatterAdd<Backend>(const OpContext&, const GatherGeometry&, IndexMode, const TBlob&, const TBlob&, OpReqType,
                                          const TBlob&);

}  // namespace gluond::ops
