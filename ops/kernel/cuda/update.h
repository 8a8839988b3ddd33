// Update on a GPU: one launch for as many weights as fit in a kernel's parameters, a block for each piece of a weight, an
// element at a time.

namespace gluond::ops::update_internal {

inline constexpr size_t kMostParameterBytes = 4096;  // A kernel has no more on any GPU.
inline constexpr int64_t kPiece = 2048;

// One weight: its inputs and, behind them, its output.
template <int inputs>
struct Row {
  struct Input {
    const void* data;
    DType dtype;
  };

  void* data[inputs + 1];
  int64_t n;
  uint32_t weight, first_block;
  DType types[inputs + 1];
  bool add;

  HOST_DEVICE Input operator[](int i) const { return {data[i], types[i]}; }
  template <class C>
  HOST_DEVICE In<C> Source(int i) const {
    In<C> x;
    x.data = data[i];
    x.dtype = types[i];
    return x;
  }
  template <class C>
  HOST_DEVICE Out<C> Target(int i, bool added) const {
    Out<C> y;
    y.data = data[i];
    y.dtype = types[i];
    y.add = added;
    return y;
  }
};

template <int inputs, size_t bytes>
struct Table {
  static constexpr uint32_t kMost = (bytes - sizeof(uint64_t)) / sizeof(Row<inputs>);
  uint32_t count;
  Row<inputs> row[kMost];
};

template <class F>
struct StepBytes {
  alignas(F) unsigned char bytes[sizeof(F)];
};

// The first thread of a block makes the step for all.
template <class C, class F, class R, class Make>
__global__ void UpdateKernel(R rows, Make make) {
  uint32_t low = 0;
  for (uint32_t high = rows.count; high - low > 1;) {
    const uint32_t middle = (low + high) / 2;
    (blockIdx.x < rows.row[middle].first_block ? high : low) = middle;
  }
  const auto& row = rows.row[low];
  __shared__ StepBytes<F> shared;
  if (threadIdx.x == 0) {
    const F step = make(row.weight, row);
    memcpy(shared.bytes, &step, sizeof(F));
  }
  __syncthreads();
  const F& f = *reinterpret_cast<const F*>(shared.bytes);
  constexpr int kStates = F::kStates;
  const int64_t begin = int64_t{blockIdx.x - row.first_block} * kPiece, end = begin + kPiece < row.n ? begin + kPiece : row.n;
  for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x) {
    C weight = row.template Source<C>(F::kWeight)[i], states[kStates == 0 ? 1 : kStates];
    for (int k = 0; k < kStates; ++k) states[k] = row.template Source<C>(F::kFirstState + k)[i];
    f(weight, row.template Source<C>(1)[i], states);
    for (int k = 0; k < kStates; ++k) row.template Target<C>(F::kFirstState + k, false).Set(i, states[k]);
    row.template Target<C>(F::kInputs, row.add).Set(i, weight);
  }
}

template <class C, class F, class Make>
absl::Status Run(gpu, const OpContext& ctx, const Make& make, const TBlob* in, absl::Span<const OpReqType> req,
                 absl::Span<const TBlob> out) {
  static_assert(std::is_trivially_copyable_v<F>);
  using R = Table<F::kInputs, kMostParameterBytes - sizeof(Make) - alignof(Make)>;
  R rows = {};
  uint32_t blocks = 0;
  for (size_t k = 0; k < out.size(); ++k) {
    if (req[k] != kNullOp && out[k].Size() > 0) {
      Row<F::kInputs>& row = rows.row[rows.count++];
      const auto set = [&row](int i, const TBlob& blob) { row.data[i] = blob.data, row.types[i] = blob.dtype; };
      for (int i = 0; i < F::kInputs; ++i) set(i, in[k * F::kInputs + i]);
      set(F::kInputs, out[k]);
      row.n = out[k].Size();
      row.weight = static_cast<uint32_t>(k);
      row.first_block = blocks;
      row.add = req[k] == kAddTo;
      blocks += static_cast<uint32_t>((row.n + kPiece - 1) / kPiece);
    }
    if (rows.count == R::kMost || (k + 1 == out.size() && rows.count > 0)) {
      RETURN_IF_ERROR(Launch(ctx, UpdateKernel<C, F, R, Make>, dim3(blocks), kBlockThreads, rows, make));
      rows.count = blocks = 0;
    }
  }
  return absl::OkStatus();
}

}  // namespace gluond::ops::update_internal
