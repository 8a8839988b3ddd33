#include "client/cli/layout.h"

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gluond::cli {
namespace {

bool Fits(const client::Shape& images, const client::Shape& input) {
  if (input.size() != images.size()) return false;
  for (size_t axis = 1; axis < input.size(); ++axis) {
    if (input[axis] >= 0 && input[axis] != images[axis]) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<client::Shape> ShapeOfImages(const client::Shape& input, int64_t count, int64_t height, int64_t width) {
  const client::Shape channel_first = {count, 1, height, width};
  const client::Shape channel_last = {count, height, width, 1};
  if (input.empty() || Fits(channel_first, input)) return channel_first;
  if (Fits(channel_last, input)) return channel_last;
  return absl::FailedPreconditionError(absl::StrCat("the model takes ", client::ToString(input), ", and the images are ",
                                                    client::ToString(channel_first), " or ", client::ToString(channel_last), "."));
}

}  // namespace gluond::cli
