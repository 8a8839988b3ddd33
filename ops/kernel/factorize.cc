#include "ops/kernel/factorize.h"

#include <algorithm>

#include "engine/core/interruption.h"
#include "engine/core/status_macros.h"
#include "ops/kernel/math.h"
#include "ops/kernel/rows.h"
#include BACKEND(factorize.h)

namespace gluond::ops {

template <class D, class C>
absl::Status FactorizeCholesky(const OpContext& ctx, const SquareSize& s, C* matrices, int64_t* bad) {
  return factorize_internal::Cholesky(D(), ctx, s, matrices, bad);
}
template <class D, class C>
absl::Status InvertCholesky(const OpContext& ctx, const SquareSize& s, const C* l, C* inverse) {
  return factorize_internal::OfCholesky(D(), ctx, s, l, inverse);
}
template <class D, class C>
absl::Status FactorizeLu(const OpContext& ctx, const SquareSize& s, C* matrices, int32_t* pivot) {
  return factorize_internal::Lu(D(), ctx, s, matrices, pivot);
}
template <class D, class C>
absl::Status InvertLu(const OpContext& ctx, const SquareSize& s, const C* lu, const int32_t* pivot, C* inverse) {
  return factorize_internal::OfLu(D(), ctx, s, lu, pivot, inverse);
}
template <class D, class C>
absl::Status SolveTriangular(const OpContext& ctx, const TriangularSize& s, const C* a, C* b) {
  return factorize_internal::WithTriangles<true>(D(), ctx, s, a, b);
}
template <class D, class C>
absl::Status MultiplyTriangular(const OpContext& ctx, const TriangularSize& s, const C* a, C* b) {
  return factorize_internal::WithTriangles<false>(D(), ctx, s, a, b);
}

#define INSTANTIATE(C)                                                                                        \
  template absl::Status FactorizeCholesky<Backend>(const OpContext&, const SquareSize&, C*, int64_t*);        \
  template absl::Status InvertCholesky<Backend>(const OpContext&, const SquareSize&, const C*, C*);           \
  template absl::Status FactorizeLu<Backend>(const OpContext&, const SquareSize&, C*, int32_t*);              \
  template absl::Status InvertLu<Backend>(const OpContext&, const SquareSize&, const C*, const int32_t*, C*); \
  template absl::Status SolveTriangular<Backend>(const OpContext&, const TriangularSize&, const C*, C*);      \
  template absl::Status MultiplyTriangular<Backend>(const OpContext&, const TriangularSize&, const C*, C*)
INSTANTIATE(float);
INSTANTIATE(double);
#undef INSTANTIATE

}  // namespace gluond::ops
