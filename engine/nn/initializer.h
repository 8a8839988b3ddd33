// Initializers: MXNet's, with its formulas, and Philox as the source of random numbers. A value depends on the model's
// seed, the parameter's name and the element's place alone. So the value is the same on every device and in every
// order.

#ifndef ENGINE_NN_INITIALIZER_H_
#define ENGINE_NN_INITIALIZER_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/core/philox.h"
#include "engine/core/shape.h"
#include "engine/core/tensor.h"
#include "engine/nn/catalog.h"

namespace gluond {

struct InitializerTarget {
  absl::string_view name;  // The parameter's.
  Shape shape;             // Known.
  Philox random;           // In RandomDomain::kParameter, by the name.
  absl::Span<float> values;
};

using InitializerCatalog = Catalog<absl::Status(const AttrDict&, const InitializerTarget&)>;
const InitializerCatalog& Initializers();

// Reads "Xavier", "Xavier(rnd_type=gaussian, magnitude=2)" or MXNet's '["xavier", {"magnitude": 2}]'; names as in the
// catalog, letter case ignored. An empty text, or "None", is an empty Spec. NOT_FOUND, INVALID_ARGUMENT.
absl::StatusOr<Spec> ParseInitializer(absl::string_view text);

// MXNet's rule for variables without an initializer: the end of the name decides. Empty if the rule has none.
Spec InitializerByName(absl::string_view name);

// The values that a parameter begins with, in the host's memory. They are made there, so that they are the same on every device.
// `shape` is known. NOT_FOUND: no such initializer. INVALID_ARGUMENT: it does not fit the shape; names the parameter.
absl::StatusOr<Tensor> InitialValue(const Spec& initializer, absl::string_view name, const Shape& shape, DType dtype, uint64_t seed,
                                    Allocator& host);

}  // namespace gluond

#endif  // ENGINE_NN_INITIALIZER_H_
