#include "client/cli/progress.h"

#include <algorithm>
#include <cmath>
#include <iostream>

#include "absl/strings/str_format.h"

namespace gluond::cli {
namespace {

constexpr int kBarWidth = 20;

}  // namespace

std::string Bar(double done) {
  const int filled = std::clamp(static_cast<int>(done * kBarWidth), 0, kBarWidth);
  return std::string(filled, '#') + std::string(kBarWidth - filled, '.');
}

void EpochReport::Add(int64_t more, double more_loss, double more_accuracy) {
  if (more <= 0) return;
  const double weight = static_cast<double>(more) / static_cast<double>(images + more);
  loss += weight * (more_loss - loss);
  accuracy += weight * (more_accuracy - accuracy);
  images += more;
}

Progress::Progress(int64_t epochs, int64_t images, bool terminal) : epochs_(epochs), images_(images), terminal_(terminal) {}

std::string Progress::Line(int64_t epoch, const EpochReport& report, absl::Time now) const {
  const double done = static_cast<double>(report.images) / static_cast<double>(images_);
  const double all_done = static_cast<double>(epoch * images_ + report.images);
  const double seconds = std::max(1e-9, absl::ToDoubleSeconds(now - start_));
  const double left = static_cast<double>(epochs_ * images_) - all_done;
  const auto seconds_left = static_cast<int64_t>(all_done > 0 ? std::ceil(left * seconds / all_done) : 0);
  return absl::StrFormat("epoch %d/%d [%s] %3.0f%%  loss %.4f  accuracy %.4f  %.0f images/s  %d:%02d left", epoch + 1, epochs_,
                         Bar(done), 100 * done, report.loss, report.accuracy, all_done / seconds, seconds_left / 60,
                         seconds_left % 60);
}

void Progress::Update(int64_t epoch, const EpochReport& report) const {
  if (terminal_) std::cout << "\r" << Line(epoch, report, absl::Now()) << "\x1b[K" << std::flush;
}

void Progress::Finish(int64_t epoch, const EpochReport& report, double test_accuracy) const {
  std::cout << (terminal_ ? "\r" : "") << Line(epoch, report, absl::Now()) << absl::StrFormat("  test %.4f", test_accuracy)
            << (terminal_ ? "\x1b[K" : "") << std::endl;
}

}  // namespace gluond::cli
