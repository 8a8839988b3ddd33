#include "ops/kernel/strided.h"

#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"
#include BACKEND(strided.h)

namespace gluond::ops {
namespace {

// Bits of one element, whatever their meaning.
template <class Fn>
auto DispatchSize(int64_t bytes, const Fn& fn) {
  switch (bytes) {
    case 1: return fn(uint8_t{});
    case 2: return fn(uint16_t{});
    case 8: return fn(uint64_t{});
    default: return fn(uint32_t{});
  }
}

}  // namespace

template <class D>
absl::Status CopyStrided(const OpContext& ctx, const StridedCopy& copy, const TBlob& x, OpReqType req, const TBlob& y) {
  if (req == kNullOp) return absl::OkStatus();
  Strides strides[2];
  std::copy_n(copy.x_strides, Shape::kMaxRank, strides[0]);
  std::copy_n(copy.y_strides, Shape::kMaxRank, strides[1]);
  const Walk<2> walk(copy.dims, strides);
  if (walk.size == 0) return absl::OkStatus();
  if (req == kAddTo || copy.scale != 1) {
    return DispatchCompute(y.dtype, [&](auto c) {
      using C = decltype(c);
      return ScaleWalk<C>(D(), ctx, walk, copy, In<C>(x), Out<C>(y, req));
    });
  }
  return DispatchSize(SizeOf(y.dtype), [&](auto t) {
    using T = decltype(t);
    return CopyWalk<T>(D(), ctx, walk, static_cast<const T*>(x.data) + copy.x_offset, static_cast<T*>(y.data) + copy.y_offset);
  });
}

template absl::Status CopyStrided<Backend>(const OpContext&, const StridedCopy&, const TBlob&, OpReqType, const TBlob&);

}  // namespace gluond::ops
