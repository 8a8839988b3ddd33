// Draws a training curve as SVG: loss on the left, accuracy per epoch on the right.

#ifndef GLUOND_CLIENT_CLI_CURVE_H_
#define GLUOND_CLIENT_CLI_CURVE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace gluond::cli {

struct TrainingCurve {
  std::string title;
  int64_t steps = 0;                   // The number of steps that the losses come from.
  std::vector<float> losses;           // Means of equally many steps each, in their order.
  std::vector<double> train_accuracy;  // After each epoch, in [0, 1].
  std::vector<double> test_accuracy;   // The same.
};

// The picture as a text. Losses that are not finite leave gaps.
std::string ToSvg(const TrainingCurve& curve);

// Writes the picture. PERMISSION_DENIED: the file cannot be written.
absl::Status WriteSvg(const TrainingCurve& curve, const std::string& path);

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_CURVE_H_
