#include "ops/kernel/conv_volume.h"

#include "ops/kernel/channels.h"

namespace gluond::ops {
namespace {

template <class C>
struct SumOfChannel {
  RowGeometry shape;
  In<C> dy;
  Out<C> dbias;
  template <class Group>
  HOST_DEVICE void operator()(Group g, int64_t c) const {
    const C sum = SumChannel(g, shape, c, [&](int64_t i) { return dy[i]; });
    if (g.first()) dbias.Set(c, sum);
  }
};

}  // namespace

template <class D>
absl::Status SumChannels(const OpContext& ctx, const TBlob& dy, const Target& dbias) {
  if (dbias.req == kNullOp) return absl::OkStatus();
  const RowGeometry shape = RowsOf(dy.shape, 1);
  return DispatchReal(dy.dtype, [&](auto c) {
    using C = decltype(c);
    return ForEachGroup<D>(ctx, shape.n, shape.outer * shape.inner,
                           SumOfChannel<C>{shape, In<C>(dy), Out<C>(dbias.blob, dbias.req)});
  });
}

template absl::Status SumChannels<Backend>(const OpContext&, const TBlob&, const Target&);

}  // namespace gluond::ops
