// The rule for memory that passes from an input to an output. A call may write an output where inputs lie that its operator
// names (FInplaceOption). These have the output's type and size, and nobody else is to read there.
//
// The plan of a graph, the run of a program and a call of the imperative engine ask here. Each says where an input lies, and
// how many inputs are still to be read there: only their notions of a last reader differ.

#ifndef ENGINE_PASSES_IN_PLACE_H_
#define ENGINE_PASSES_IN_PLACE_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "engine/core/dtype.h"
#include "engine/core/op_facts.h"
#include "engine/core/shape.h"

namespace gluond {

// Whether values of one signature lie exactly where those of the other do. Requires: known shapes.
inline bool FitTogether(const Shape& a, DType a_type, const Shape& b, DType b_type) {
  return a_type == b_type && a.Size() == b.Size();
}

// Visits the places that the output may have. `place_of(input)` says where an input lies, as a number, or nothing where the
// output does not fit or nobody may write. `reads_left(place)` counts the inputs that are still to be read there, the call's
// own included.
template <class PlaceOf, class ReadsLeft, class Visit>
void ForEachPlaceToTakeOver(const OpFacts& facts, uint32_t output, const PlaceOf& place_of, const ReadsLeft& reads_left,
                            const Visit& visit) {
  // A call of a thousand outputs has as many pairs: they stand in the order of outputs.
  const auto before = [](const OpFacts::InPlace& pair, uint32_t o) { return pair.output < o; };
  auto pair = std::lower_bound(facts.in_place.begin(), facts.in_place.end(), output, before);
  absl::InlinedVector<uint32_t, 4> places;  // One for each input that may be there.
  for (; pair != facts.in_place.end() && pair->output == output; ++pair) {
    if (facts.Ignores(pair->input)) continue;
    if (const std::optional<uint32_t> place = place_of(pair->input)) places.push_back(*place);
  }
  std::sort(places.begin(), places.end());
  for (auto first = places.begin(); first != places.end();) {
    const auto last = std::upper_bound(first, places.end(), *first);
    if (static_cast<uint32_t>(last - first) == reads_left(*first)) visit(*first);
    first = last;
  }
}

// The input whose bytes are the call's only output, so that no kernel needs to run: the first that `fits`.
template <class Fits>
std::optional<uint32_t> InputOfIdentity(const OpFacts& facts, const Fits& fits) {
  if (facts.num_outputs != 1 || !facts.mutated.empty()) return std::nullopt;
  for (const OpFacts::InPlace& pair : facts.in_place) {
    if (pair.identity && !facts.Ignores(pair.input) && fits(pair.input)) return pair.input;
  }
  return std::nullopt;
}

}  // namespace gluond

#endif  // ENGINE_PASSES_IN_PLACE_H_
