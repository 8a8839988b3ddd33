// Images in the layout that a model takes.

#ifndef GLUOND_CLIENT_CLI_LAYOUT_H_
#define GLUOND_CLIENT_CLI_LAYOUT_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "gluond/tensor.h"

namespace gluond::cli {

// The shape of `count` grey images: (count, 1, height, width), or (count, height, width, 1) where the model takes only that.
// The values lie alike in both, since there is one channel. `input` is the model's shape: -1 is any size, and an empty shape is
// not known. The batch's axis is the server's to check. FAILED_PRECONDITION: neither fits.
absl::StatusOr<client::Shape> ShapeOfImages(const client::Shape& input, int64_t count, int64_t height, int64_t width);

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_LAYOUT_H_
