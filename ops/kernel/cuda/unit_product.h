// Products of recurrent layers on a GPU, and the cells after them.

namespace gluond::ops {

template <class D, class C>
class UnitProduct {
 public:
  UnitProduct(const GemmSize& size, int64_t) : size_(size) {}

  absl::Status Load(const OpContext&, const C* parameters, int64_t at, int64_t) {
    weights_ = parameters + at;
    return absl::OkStatus();
  }
  absl::Status Multiply(const OpContext& ctx, const C* x, OpReqType req, C* y) const {
    return Gemm<D>(ctx, DTypeOf<C>, size_, x, weights_, req, y);
  }
  template <class F>
  absl::Status Run(const OpContext& ctx, const C* x, OpReqType req, C* y, const F& cells) const {
    if (x != nullptr) RETURN_IF_ERROR(Multiply(ctx, x, req, y));
    return ForEachUnit<D>(ctx, size_.m, cells);
  }

 private:
  const GemmSize size_;
  const C* weights_ = nullptr;
};

}  // namespace gluond::ops
