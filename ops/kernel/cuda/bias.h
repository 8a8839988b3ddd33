// A bias on a GPU: 16 bytes of a row at a time where rows are made of such, else an element at a time.

namespace gluond::ops {

template <class C>
struct AddBias {
  int64_t cols;
  In<C> bias;
  Out<C> y;
  HOST_DEVICE void operator()(int64_t i) const { y.Set(i, bias[i % cols]); }
};

template <class T, class C>
struct AddPackOfBias {
  uint32_t packs;  // A row has so many.
  const Pack<T>* bias;
  Pack<T>* y;
  HOST_DEVICE void operator()(int64_t i) const {
    const int64_t rows = i >> 32 == 0 ? static_cast<uint32_t>(i) / packs : i / packs;  // 32 bits are divided faster.
    const Pack<T> b = bias[i - rows * packs];
    Pack<T> sum = y[i];
    for (int k = 0; k < Pack<T>::kSize; ++k) Assign(sum.at, k, Convert<C>(b.at[k]), /*add=*/true);
    y[i] = sum;
  }
};

template <class C>
absl::Status AddToRowsOn(gpu, const OpContext& ctx, const TBlob& bias, const TBlob& y) {
  const int64_t cols = bias.Size();
  const auto by_packs = [&]<class T>(T) -> std::optional<absl::Status> {
    constexpr int kSize = Pack<T>::kSize;
    if (!IsOfPacks<T>(y) || !IsOfPacks<T>(bias) || cols % kSize != 0 || cols >> 32 != 0) return std::nullopt;
    return ForEach<gpu>(ctx, y.Size() / kSize,
                        AddPackOfBias<T, C>{static_cast<uint32_t>(cols / kSize), static_cast<const Pack<T>*>(bias.data),
                                            static_cast<Pack<T>*>(y.data)});
  };
  if (const auto done = InStorageType<C>(by_packs)) return *done;
  return ForEach<gpu>(ctx, y.Size(), AddBias<C>{cols, In<C>(bias), Out<C>(y, kAddTo)});
}

}  // namespace gluond::ops
