// Computes the operator `huber` for everybody's models, as a service of its own. Usage: provider HOST:PORT [SECONDS]
//
// GLUOND_OPERATOR_KEY is the service's secret, of 16 to 128 bytes: whoever starts it anew with the key goes on where it ended.
// SECONDS: how long each forward pass takes, for trials.
#include <gluond/gluond.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <thread>
using namespace gluond;

double seconds = 0;

// The Huber loss of each row: quadratic near 0, linear far from it.
struct Huber : CustomOp {
  absl::Status Forward(const ForwardCall& call) override {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    const auto x = *call.in_data[0].Values<float>(), label = *call.in_data[1].Values<float>();
    std::vector<float> loss(x.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const float far = std::abs(x[i] - label[i]);
      loss[i] = far < 1 ? far * far / 2 : far - 0.5f;
    }
    Assign(call.out_data[0], call.req[0], NDArray::Of(*call.in_data[0].shape(), loss));
    return absl::OkStatus();
  }
  absl::Status Backward(const BackwardCall& call) override {
    const auto x = *call.in_data[0].Values<float>(), label = *call.in_data[1].Values<float>(),
               dy = *call.out_grad[0].Values<float>();
    std::vector<float> dx(x.size());
    for (size_t i = 0; i < x.size(); ++i) dx[i] = dy[i] * std::max(-1.0f, std::min(1.0f, x[i] - label[i]));
    Assign(call.in_grad[0], call.req[0], NDArray::Of(*call.in_data[0].shape(), dx));
    return absl::OkStatus();
  }
};

struct HuberProp : CustomOpProp {
  std::vector<std::string> ListArguments() const override { return {"data", "label"}; }
  absl::StatusOr<Shapes> InferShape(const std::vector<MaybeShape>& in) const override { return Shapes{{in[0], in[0]}, {in[0]}}; }
  std::unique_ptr<CustomOp> CreateOperator(const OperatorContext&) override { return std::make_unique<Huber>(); }
};

int main(int argc, char** argv) {
  if (argc < 2) return std::cerr << "usage: provider HOST:PORT [SECONDS]\n", 2;
  if (argc > 2) seconds = std::atof(argv[2]);
  if (const char* key = std::getenv("GLUOND_OPERATOR_KEY")) SetOperatorKey(key);
  const auto session = Session::Connect(argv[1]);
  const absl::Status status = session.ok() ? Register<HuberProp>("huber", /*shared=*/true) : session.status();
  if (!status.ok()) return std::cerr << status << "\n", 1;
  std::cout << "huber is computed here" << std::endl;
  while (session->WaitAll().ok()) std::this_thread::sleep_for(std::chrono::seconds(1));
  std::cerr << session->WaitAll() << "\n";
  return 1;  // The server has gone for good: whoever keeps services starts this one anew.
}
