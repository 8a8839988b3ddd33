// Trainer changes a network's parameters by their gradients: one command for all of them, by the server's own optimizer.
//
//   gluon::Trainer trainer(net.CollectParams(), optimizer::Adam({.learning_rate = 0.001}));
//   for (const auto& [data, label] : batches) {
//     NDArray loss;
//     {
//       autograd::Record record;
//       loss = loss_of(net(data), label);
//     }
//     loss.Backward();
//     trainer.Step(batch_size);
//   }

#ifndef GLUOND_TRAINER_H_
#define GLUOND_TRAINER_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "gluond/export.h"
#include "gluond/parameter.h"
#include "gluond/place.h"
#include "gluond/types.h"

namespace gluond::client {

struct TrainerState;

namespace gluon {

// Copies are the same trainer.
class GLUOND_EXPORT Trainer {
 public:
  // Those whose grad_req is null stay as they are.
  Trainer(const ParameterDict& parameters, const Component& optimizer);

  // Divides the gradients by the batch size, and updates the parameters. Without ignore_stale_grad a parameter whose gradient Backward
  // has not written since the last step is an error. With it, such parameters are left out. An error is told with the next value
  // that is waited for; nothing is updated then.
  void Step(double batch_size, bool ignore_stale_grad = false, Place place = Place::Here());

  // From the next step on. Default: the optimizer's.
  void set_learning_rate(double learning_rate);
  double learning_rate() const;
  // Gives the learning rate of each step, by the number of steps before it; it comes before set_learning_rate.
  void set_lr_scheduler(std::function<double(int64_t step)> scheduler);
  int64_t steps() const;

  const Component& optimizer() const;

 private:
  std::shared_ptr<TrainerState> state_;
};

}  // namespace gluon
}  // namespace gluond::client

#endif  // GLUOND_TRAINER_H_
