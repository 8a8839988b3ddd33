// Ranges begin:end:step by Python's rules, and the copies between a tensor and the part of it that they select.

#ifndef OPS_SLICE_RANGE_H_
#define OPS_SLICE_RANGE_H_

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/core/param.h"
#include "engine/core/shape.h"
#include "ops/kernel/strided.h"

namespace gluond::ops {

using Bound = std::optional<int64_t>;
using Bounds = std::vector<Bound>;

struct SliceParam : Param<SliceParam> {
  Bounds begin, end, step;
  static void Fields(Schema<SliceParam>& s) {
    s.Field("begin", &SliceParam::begin).Describe("First index by axis; None: from the start. Negative: from the end.");
    s.Field("end", &SliceParam::end).Describe("Index after the last, by axis; None: to the end.");
    s.Field("step", &SliceParam::step).Default(Bounds()).Describe("Step by axis, not 0; None or (): 1.");
  }
};

struct Range {
  int64_t begin, count, step;
};

// As Python: what is beyond an end is cut off.
inline Range RangeOf(int64_t n, Bound begin, Bound end, int64_t step) {
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto place = [=](int64_t at) { return std::clamp(at < 0 ? std::max(at, -n - 1) + n : at, low, high); };
  const int64_t first = begin ? place(*begin) : step > 0 ? low : high;
  const int64_t last = end ? place(*end) : step > 0 ? high : low;
  const int64_t span = step > 0 ? last - first : first - last;
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
  const int64_t count = span <= 0 ? 0 : static_cast<int64_t>((static_cast<uint64_t>(span) - 1) / stride) + 1;
  return {first, count, count <= 1 ? 1 : step};
}

// By axis of x, of which sizes may be unknown: their ranges are not looked at.
inline absl::StatusOr<std::vector<Range>> RangesOf(const SliceParam& p, const Shape& x) {
  if (p.begin.size() != p.end.size() || (!p.step.empty() && p.step.size() != p.begin.size())) {
    return absl::InvalidArgumentError("begin, end and step want one length");
  }
  if (static_cast<int>(p.begin.size()) > x.ndim()) {
    return absl::InvalidArgumentError(
        absl::StrCat("begin has ", p.begin.size(), " entries; input 0 has rank ", x.ndim()));
  }
  std::vector<Range> ranges;
  for (int axis = 0; axis < x.ndim(); ++axis) {
    const bool cut = axis < static_cast<int>(p.begin.size());
    const int64_t step = cut && !p.step.empty() ? p.step[axis].value_or(1) : 1;
    if (step == 0) return absl::InvalidArgumentError(absl::StrCat("step of axis ", axis, " is 0"));
    ranges.push_back(RangeOf(x[axis], cut ? p.begin[axis] : Bound(), cut ? p.end[axis] : Bound(), step));
  }
  return ranges;
}

// The shape of the part, where sizes of `whole` are known.
inline Shape PartShape(const std::vector<Range>& ranges, const Shape& whole) {
  Shape part = Shape::OfRank(whole.ndim());
  for (int axis = 0; axis < whole.ndim(); ++axis) {
    if (whole[axis] != Shape::kUnknown) part[axis] = ranges[axis].count;
  }
  return part;
}

// The copy from the part of `whole` to a dense tensor; reversed: the other way.
inline StridedCopy CopyOf(const std::vector<Range>& ranges, const Shape& whole, const Shape& part, bool reversed) {
  StridedCopy copy{.dims = part};
  Strides dense;
  DenseStrides(whole, dense);
  int64_t& offset = reversed ? copy.y_offset : copy.x_offset;
  int64_t* const strides = reversed ? copy.y_strides : copy.x_strides;
  for (int axis = 0; axis < whole.ndim(); ++axis) {
    offset += ranges[axis].begin * dense[axis];
    strides[axis] = ranges[axis].step * dense[axis];
  }
  DenseStrides(part, reversed ? copy.x_strides : copy.y_strides);
  return copy;
}

}  // namespace gluond::ops

#endif  // OPS_SLICE_RANGE_H_
