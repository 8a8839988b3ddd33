// Labels: class numbers in a tensor of any type. A kernel on a CPU refuses a label that is no class. A kernel on
// a GPU cannot report such a label: results that depend on the label become NaN, which the trainer's non-finite
// flag shows.

#ifndef OPS_KERNEL_LABELS_H_
#define OPS_KERNEL_LABELS_H_

#include <limits>
#include <optional>

#include "ops/kernel/convert.h"
#include "ops/kernel/launch.h"

namespace gluond::ops {

struct Labels {
  In<double> label;
  int64_t classes;
  bool use_ignore = false;
  int64_t ignore = -1;

  enum : int64_t { kIgnored = -1, kNoClass = -2 };
  // The class of row r in [0, classes), kIgnored or kNoClass. Fractions are cut off, as MXNet does.
  HOST_DEVICE int64_t operator[](int64_t r) const {
    const double v = label[r];
    if (use_ignore && v > -9e15 && v < 9e15 && static_cast<int64_t>(v) == ignore) return kIgnored;
    return v > -1 && v < static_cast<double>(classes) ? static_cast<int64_t>(v) : kNoClass;
  }
};

// INVALID_ARGUMENT names the first of `count` labels that is neither a class nor ignored. OK on a GPU.
template <class D>
absl::Status CheckLabels(const Labels& labels, int64_t count) {
  if constexpr (std::is_same_v<D, cpu>) {
    for (int64_t r = 0; r < count; ++r) {
      if (labels[r] != Labels::kNoClass) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("label ", r, " is ", labels.label[r], ", expected a class from 0 to ", labels.classes - 1,
                       labels.use_ignore ? absl::StrCat(" or the ignore_label ", labels.ignore) : ""));
    }
  }
  return absl::OkStatus();
}

}  // namespace gluond::ops

#endif  // OPS_KERNEL_LABELS_H_
