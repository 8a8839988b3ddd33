// Gradients of recorded computations.
//
//   x.AttachGrad();
//   NDArray y;
//   {
//     autograd::Record record;
//     y = (x * x).Sum();
//   }
//   y.Backward();
//   x.grad();  // 2 x

#ifndef GLUOND_AUTOGRAD_H_
#define GLUOND_AUTOGRAD_H_

#include <vector>

#include "absl/types/span.h"
#include "gluond/export.h"
#include "gluond/ndarray.h"
#include "gluond/place.h"

namespace gluond::client::autograd {

GLUOND_EXPORT bool IsRecording();
GLUOND_EXPORT bool IsTraining();

// The modes of this thread, which are as before when the object ends.
class GLUOND_EXPORT Scope {
 public:
  Scope(bool recording, bool training);
  ~Scope();
  Scope(const Scope&) = delete;

 private:
  const bool recording_, training_;
};

// Records calls for Backward, in training mode unless told otherwise.
struct Record : Scope {
  explicit Record(bool train_mode = true) : Scope(true, train_mode) {}
};

// Does not record.
struct Pause : Scope {
  explicit Pause(bool train_mode = false) : Scope(false, train_mode) {}
};

// Operators such as Dropout and BatchNorm behave as in training, whether calls are recorded or not.
struct TrainMode : Scope {
  TrainMode() : Scope(IsRecording(), true) {}
};

struct PredictMode : Scope {
  PredictMode() : Scope(IsRecording(), false) {}
};

struct BackwardOptions {
  bool retain_graph = false;
  bool train_mode = true;
};

// The gradients of the sum of heads, each times its head gradient (default: ones), by all that have a gradient attached.
GLUOND_EXPORT void Backward(absl::Span<const NDArray> heads, absl::Span<const NDArray> head_gradients = {},
                            BackwardOptions options = {}, Place place = Place::Here());

struct GradOptions {
  std::vector<NDArray> head_gradients = {};
  bool retain_graph = false;
  bool create_graph = false;  // Records the computation of the gradients, for gradients of gradients.
  bool train_mode = true;
};

// New arrays: the gradients by these variables.
GLUOND_EXPORT std::vector<NDArray> Grad(absl::Span<const NDArray> heads, absl::Span<const NDArray> variables,
                                        const GradOptions& options = {}, Place place = Place::Here());

}  // namespace gluond::client::autograd

#endif  // GLUOND_AUTOGRAD_H_
