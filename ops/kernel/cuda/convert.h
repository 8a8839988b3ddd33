// Elements on a GPU, one by one.

namespace gluond::ops {

// Out of line: kernels stay small, and the common type stays on the fast path.
template <class C>
__attribute__((noinline)) __device__ C LoadOther(DType dtype, const void* x, int64_t i) {
  return LoadAs<C>(dtype, x, i);
}
template <class C>
__attribute__((noinline)) __device__ void StoreOther(DType dtype, void* y, int64_t i, C v, bool add) {
  StoreAs(dtype, y, i, v, add);
}

}  // namespace gluond::ops
