// Map on a GPU: 16 bytes of each tensor at a time where all hold one type, as they mostly do; else an element at a time.

namespace gluond::ops::map_internal {

template <class C, class F, class... X>
__global__ void MapKernel(int64_t n, F f, Out<C> y, X... x) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < n; i += step) y.Set(i, f(x[i]...));
}

// T: what the tensors hold. The last n % kSize elements are left to the first threads, one each.
template <class C, class T, class F, class... X>
__global__ void PackKernel(int64_t n, F f, bool add, T* y, X... x) {
  constexpr int kSize = Pack<T>::kSize;
  const int64_t step = int64_t{gridDim.x} * blockDim.x, packs = n / kSize;
  const int64_t thread = blockIdx.x * int64_t{blockDim.x} + threadIdx.x;
  for (int64_t i = thread; i < packs; i += step) {
    Pack<T> result;
    if (add) result = reinterpret_cast<const Pack<T>*>(y)[i];
    const auto compute = [&](const auto&... pack) {
      for (int k = 0; k < kSize; ++k) Assign(result.at, k, static_cast<C>(f(Convert<C>(pack.at[k])...)), add);
    };
    compute(Pack<T>(reinterpret_cast<const Pack<T>*>(x)[i])...);
    reinterpret_cast<Pack<T>*>(y)[i] = result;
  }
  if (const int64_t i = packs * kSize + thread; i < n) Assign(y, i, static_cast<C>(f(Convert<C>(x[i])...)), add);
}

template <class C, size_t>
using InOf = In<C>;
template <class T, size_t>
using PointerTo = const T*;

template <class C, class F, size_t... k>
absl::Status Run(gpu, const OpContext& ctx, const F& f, const TBlob* x, OpReqType req, const TBlob& y, std::index_sequence<k...>) {
  const int64_t n = y.Size();
  const auto by_packs = [&]<class T>(T) -> std::optional<absl::Status> {
    if (!IsOfPacks<T>(y) || !(IsOfPacks<T>(x[k]) && ...)) return std::nullopt;
    return Launch(ctx, PackKernel<C, T, F, PointerTo<T, k>...>, Blocks(n / Pack<T>::kSize + 1), kBlockThreads, n, f, req == kAddTo,
                  static_cast<T*>(y.data), static_cast<const T*>(x[k].data)...);
  };
  if (const auto done = InStorageType<C>(by_packs)) return *done;
  return Launch(ctx, MapKernel<C, F, InOf<C, k>...>, Blocks(n), kBlockThreads, n, f, Out<C>(y, req), In<C>(x[k])...);
}

}  // namespace gluond::ops::map_internal
