// Shows a grey image in a terminal.

#ifndef GLUOND_CLIENT_CLI_PICTURE_H_
#define GLUOND_CLIENT_CLI_PICTURE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace gluond::cli {

// Lines of `width` characters, each for two rows of pixels: half blocks in 24 shades of grey where
// `color` is set, else ASCII from space to '@'. `pixels` holds height * width values, 0 is dark.
std::vector<std::string> Draw(absl::Span<const uint8_t> pixels, int64_t height, int64_t width, bool color);

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_PICTURE_H_
