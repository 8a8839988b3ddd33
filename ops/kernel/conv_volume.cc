#include "ops/kernel/conv_volume.h"

#include "ops/kernel/reduce.h"

namespace gluond::ops {

template <class D>
absl::Status SumChannels(const OpContext& ctx, const TBlob& dy, const Target& dbias) {
  constexpr uint32_t kAllButChannels = ~2u;
  return Reduce<D>(ctx, kAllButChannels, SumReducer(), dy, dbias.req, dbias.blob);
}

template absl::Status SumChannels<Backend>(const OpContext&, const TBlob&, const Target&);

}  // namespace gluond::ops
