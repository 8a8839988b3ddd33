// A bias on a GPU: an element at a time.

namespace gluond::ops {

template <class C>
struct AddBias {
  int64_t cols;
  In<C> bias;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, bias[i % cols]); }
};

template <class C>
absl::Status AddToRowsOn(gpu, const OpContext& ctx, const TBlob& bias, const TBlob& y) {
  return ForEach<gpu>(ctx, y.Size(), AddBias<C>{bias.Size(), In<C>(bias), Out<C>(y, kAddTo)});
}

}  // namespace gluond::ops
