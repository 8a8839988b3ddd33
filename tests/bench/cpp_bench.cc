// Gluon in C++, timed: see cpp.py. Answers each case that is named on a line of standard input with a number of microseconds.
//
//   cpp_bench ADDRESS STEPS
//
// loop: a step of LeNet by a Gluon loop, which fetches its loss every 50 steps. step: the same by TrainStep. chain: the client's
// processor time of an operator in a chain. custom: a custom operator of one number, forward and backward.

#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gluond/gluond.h"

namespace gluond::bench {
namespace {

double Now(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return 1e6 * static_cast<double>(now.tv_sec) + 1e-3 * static_cast<double>(now.tv_nsec);
}

// Microseconds of one of so many steps.
double Timed(clockid_t clock, int steps, const std::function<void()>& run) {
  const double begin = Now(clock);
  run();
  return (Now(clock) - begin) / steps;
}

void Check(const absl::Status& status) {
  if (status.ok()) return;
  std::cerr << status << "\n";
  std::exit(1);
}

nn::Sequential LeNet() {
  return {nn::Conv2D({.channels = 20, .kernel_size = {5, 5}, .activation = "relu"}),
          nn::MaxPool2D({.pool_size = {2, 2}}),
          nn::Conv2D({.channels = 50, .kernel_size = {5, 5}, .activation = "relu"}),
          nn::MaxPool2D({.pool_size = {2, 2}}),
          nn::Dense({.units = 500, .activation = "relu"}),
          nn::Dense({.units = 10})};
}

const Component& Sgd() {
  static const auto* sgd = new Component(optimizer::Sgd({.learning_rate = 0.01, .momentum = 0.9}));
  return *sgd;
}

struct Same : CustomOp {
  absl::Status Forward(const ForwardCall& call) override {
    Assign(call.out_data[0], call.req[0], call.in_data[0]);
    return absl::OkStatus();
  }
  absl::Status Backward(const BackwardCall& call) override {
    Assign(call.in_grad[0], call.req[0], call.out_grad[0]);
    return absl::OkStatus();
  }
};
struct SameProp : CustomOpProp {
  std::unique_ptr<CustomOp> CreateOperator(const OperatorContext&) override { return std::make_unique<Same>(); }
};

class Bench {
 public:
  Bench(const std::string& address, int steps)
      : session_(Session::Connect(address).value()), steps_(steps), images_(64 * 28 * 28), labels_(64) {
    for (size_t i = 0; i < images_.size(); ++i) images_[i] = static_cast<float>(i * 7919 % 1000) / 1000;
    for (size_t i = 0; i < labels_.size(); ++i) labels_[i] = static_cast<float>(i % 10);
    net_.Initialize(initializer::Xavier());
    net_.Hybridize();
    model_ = std::make_unique<Model>(
        session_.client().value().DefineModel("bench_cpp", LeNet(), {Input("data", {-1, 1, 28, 28})}, {.replace = true}).value());
    Check(model_->Initialize(initializer::Xavier()));
    Check(model_
              ->CreateTrainer(
                  {.loss = Named("SoftmaxCrossEntropyLoss"), .optimizer = Sgd(), .report_gradient_norm = false, .replace = true})
              .status());
    Check(Register<SameProp>("bench_same_cpp"));
  }

  double Measure(const std::string& name) {
    if (name == "loop") return Timed(CLOCK_MONOTONIC, steps_, [this] { Loop(); });
    if (name == "step") return Timed(CLOCK_MONOTONIC, steps_, [this] { Steps(); });
    if (name == "chain") return Timed(CLOCK_PROCESS_CPUTIME_ID, 100 * steps_, [this] { Chain(100 * steps_); });
    if (name == "custom") return Timed(CLOCK_MONOTONIC, steps_, [this] { Customs(); });
    std::cerr << "no case '" << name << "'\n";
    std::exit(2);
  }

 private:
  void Loop() {
    NDArray loss;
    for (int i = 0; i < steps_; ++i) {
      const NDArray x = NDArray::Of({64, 1, 28, 28}, images_), y = NDArray::Of({64}, labels_);
      {
        const autograd::Record record;
        loss = loss_of_(net_(x), y);
      }
      loss.Backward();
      trainer_.Step(64);
      if (i % 50 == 49) Check(loss.Mean().Item().status());
    }
    Check(loss.Mean().Item().status());
  }

  void Steps() {
    for (int i = 0; i < steps_; ++i) {
      Check(model_->TrainStep({{"data", Tensor::Of({64, 1, 28, 28}, images_)}, {"label", Tensor::Of({64}, labels_)}}).status());
    }
  }

  void Chain(int calls) {
    NDArray x = NDArray::Ones({2, 2});
    for (int i = 0; i < calls; ++i) x = x + 1;
    Check(x.Wait());
  }

  void Customs() {
    NDArray x = NDArray::Ones({1});
    x.AttachGrad();
    for (int i = 0; i < steps_; ++i) {
      NDArray y;
      {
        const autograd::Record record;
        y = Custom({x}, "bench_same_cpp");
      }
      y.Backward();
      Check(x.grad().Wait());
    }
  }

  const Session session_;
  const int steps_;
  std::vector<float> images_, labels_;
  const nn::Sequential net_ = LeNet();
  gluon::Trainer trainer_{net_.CollectParams(), Sgd()};
  const loss::SoftmaxCrossEntropyLoss loss_of_;
  std::unique_ptr<Model> model_;
};

}  // namespace
}  // namespace gluond::bench

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: cpp_bench ADDRESS STEPS\n"), 2;
  gluond::bench::Bench bench(argv[1], std::max(1, std::atoi(argv[2])));
  for (std::string name; std::getline(std::cin, name);) {
    std::printf("%.4f\n", bench.Measure(name));
    std::fflush(stdout);
  }
}
