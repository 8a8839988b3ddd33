#include "client/cli/picture.h"

#include "absl/strings/str_cat.h"

namespace gluond::cli {
namespace {

// The terminal's grey ramp: colors 232 to 255.
int Shade(uint8_t pixel) { return 232 + pixel * 24 / 256; }

}  // namespace

std::vector<std::string> Draw(absl::Span<const uint8_t> pixels, int64_t height, int64_t width, bool color) {
  static constexpr absl::string_view kRamp = " .:-=+*#%@";
  std::vector<std::string> lines;
  for (int64_t y = 0; y < height; y += 2) {
    std::string line;
    for (int64_t x = 0; x < width; ++x) {
      const uint8_t upper = pixels[y * width + x];
      const uint8_t lower = y + 1 < height ? pixels[(y + 1) * width + x] : 0;
      if (color) {
        absl::StrAppend(&line, "\x1b[38;5;", Shade(upper), ";48;5;", Shade(lower), "m\u2580");
      } else {
        line += kRamp[static_cast<size_t>(upper + lower) * kRamp.size() / 512];
      }
    }
    lines.push_back(color ? line + "\x1b[0m" : line);
  }
  return lines;
}

}  // namespace gluond::cli
