// Boxes: rectangles that detectors find, as four numbers of a row.

#ifndef OPS_BOXES_H_
#define OPS_BOXES_H_

#include "ops/kernel/convert.h"
#include "ops/operator.h"

namespace gluond::ops {

enum BoxFormat { kCorner, kCenter };

template <class P>
auto BoxFormatField(Schema<P>& s, const char* name, int P::*field, const char* what) {
  s.Field(name, field)
      .Enum({{"corner", kCorner}, {"center", kCenter}})
      .Default("corner")
      .Describe(absl::StrCat(what, ": left, top, right, bottom (corner), or the centre's x and y, width, height (center)."));
}

template <class C>
struct Box {
  C left, top, right, bottom;

  HOST_DEVICE static Box Load(const In<C>& x, int64_t at, int format = kCorner) {
    const C a = x[at], b = x[at + 1], c = x[at + 2], d = x[at + 3];
    if (format == kCorner) return {a, b, c, d};
    return {a - c / 2, b - d / 2, a + c / 2, b + d / 2};
  }
  HOST_DEVICE C width() const { return right - left; }
  HOST_DEVICE C height() const { return bottom - top; }
  // Sides that are turned around have no area.
  HOST_DEVICE C area() const { return width() < 0 || height() < 0 ? C(0) : width() * height(); }
};

// The area of the intersection of two boxes, relative to that of their union; 0 where they have none.
template <class C>
HOST_DEVICE C Overlap(const Box<C>& a, const Box<C>& b) {
  const C width = (a.right < b.right ? a.right : b.right) - (a.left > b.left ? a.left : b.left);
  const C height = (a.bottom < b.bottom ? a.bottom : b.bottom) - (a.top > b.top ? a.top : b.top);
  const C both = width > 0 && height > 0 ? width * height : C(0);
  const C either = a.area() + b.area() - both;
  return either > 0 ? both / either : C(0);
}

// Boxes of a sample that may be compared, each with all that stay: more would take minutes.
inline constexpr int64_t kMostCompared = int64_t{1} << 17;

// `most`: the parameter that says how many are, negative or 0 for all.
inline absl::Status CheckCompared(int64_t boxes, absl::string_view most) {
  if (boxes <= kMostCompared) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(boxes, " boxes of a sample are to be compared, expected ", kMostCompared,
                                                 " or fewer; set parameter ", most, " to compare the best ones"));
}

// The parameter `variances` of box regressions: four numbers that offsets from an anchor are divided by.
template <class P>
void VariancesField(Schema<P>& s) {
  s.Field("variances", &P::variances)
      .Default(std::vector<double>{0.1, 0.1, 0.2, 0.2})
      .Check(
          [](const std::vector<double>& v) {
            for (double e : v)
              if (!(e > 0)) return false;
            return v.size() == 4;
          },
          "want four numbers above 0")
      .Describe("What offsets of x, y, width and height are divided by.");
}

}  // namespace gluond::ops

#endif  // OPS_BOXES_H_
