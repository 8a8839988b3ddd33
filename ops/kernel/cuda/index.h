// A GPU's look at indices: the host waits for the stream.

namespace gluond::ops {

struct FindOutside {
  In<int64_t> index;
  int64_t low, high;
  unsigned long long* first;  // The position of the first bad index; all ones at the start.
  __device__ void operator()(int64_t i) const {
    if (index[i] < low || index[i] >= high) atomicMin(first, static_cast<unsigned long long>(i));
  }
};

template <>
inline absl::StatusOr<int64_t> FirstOutside<gpu>(const OpContext& ctx, const TBlob& indices, int64_t low, int64_t high) {
  ASSIGN_OR_RETURN(void* const scratch, ctx.scratch->Get(sizeof(unsigned long long)));
  const cudaStream_t stream = Stream(ctx);
  unsigned long long first = 0;
  RETURN_IF_ERROR(CudaStatus(cudaMemsetAsync(scratch, 0xff, sizeof(first), stream), "a look at indices"));
  RETURN_IF_ERROR(
      ForEach<gpu>(ctx, indices.Size(), FindOutside{In<int64_t>(indices), low, high, static_cast<unsigned long long*>(scratch)}));
  RETURN_IF_ERROR(CudaStatus(cudaMemcpyAsync(&first, scratch, sizeof(first), cudaMemcpyDeviceToHost, stream), "a look at indices"));
  RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream), "a look at indices"));
  return static_cast<int64_t>(first);  // All ones are -1.
}

template <>
inline absl::StatusOr<int64_t> IndexAt<gpu>(const OpContext& ctx, const TBlob& indices, int64_t i) {
  const size_t bytes = static_cast<size_t>(SizeOf(indices.dtype));
  char element[sizeof(double)];
  const cudaStream_t stream = Stream(ctx);
  RETURN_IF_ERROR(CudaStatus(
      cudaMemcpyAsync(element, static_cast<const char*>(indices.data) + bytes * i, bytes, cudaMemcpyDeviceToHost, stream),
      "a look at an index"));
  RETURN_IF_ERROR(CudaStatus(cudaStreamSynchronize(stream), "a look at an index"));
  return LoadAs<int64_t>(indices.dtype, element, 0);
}

}  // namespace gluond::ops
