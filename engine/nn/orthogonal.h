// Orthogonalize: makes the rows of a matrix orthogonal, or its columns if it has more rows than columns.

#ifndef ENGINE_NN_ORTHOGONAL_H_
#define ENGINE_NN_ORTHOGONAL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace gluond {

// `matrix` is row-major; afterwards each row (column) has length `scale`. MXNet takes a factor of the singular value
// decomposition; Gram and Schmidt's method in double precision, applied twice, is as orthogonal and simpler.
// INVALID_ARGUMENT: there are more than 2^26 elements, or the work, rows * cols * min(rows, cols), is over 2^37.
absl::Status Orthogonalize(absl::Span<float> matrix, int64_t rows, int64_t cols, double scale);

}  // namespace gluond

#endif  // ENGINE_NN_ORTHOGONAL_H_
