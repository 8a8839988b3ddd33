// Progress shows how far a training run is: on a terminal one line that changes, elsewhere one line
// per epoch.

#ifndef GLUOND_CLIENT_CLI_PROGRESS_H_
#define GLUOND_CLIENT_CLI_PROGRESS_H_

#include <cstdint>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gluond::cli {

// "#####..............." where a quarter is done.
std::string Bar(double done);

// The results of an epoch so far, as means over its images.
struct EpochReport {
  int64_t images = 0;
  double loss = 0;
  double accuracy = 0;

  // Adds `more` images of that mean loss and accuracy.
  void Add(int64_t more, double more_loss, double more_accuracy);
};

class Progress {
 public:
  // Begins now, for `epochs` epochs of `images` images.
  Progress(int64_t epochs, int64_t images, bool terminal);

  // "epoch 2/5 [#####.....] 52%  loss 0.3412  accuracy 0.8761  4312 images/s  0:48 left"
  std::string Line(int64_t epoch, const EpochReport& report, absl::Time now) const;

  // Shows the line on a terminal.
  void Update(int64_t epoch, const EpochReport& report) const;

  // Ends the epoch's line with the accuracy on the test images.
  void Finish(int64_t epoch, const EpochReport& report, double test_accuracy) const;

 private:
  const int64_t epochs_;
  const int64_t images_;
  const bool terminal_;
  const absl::Time start_ = absl::Now();
};

}  // namespace gluond::cli

#endif  // GLUOND_CLIENT_CLI_PROGRESS_H_
