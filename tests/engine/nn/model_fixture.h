// What tests of models share: a lane, memory, and calls that wait.

#ifndef TESTS_ENGINE_NN_MODEL_FIXTURE_H_
#define TESTS_ENGINE_NN_MODEL_FIXTURE_H_

#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/nn/block.h"
#include "engine/nn/model.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "gtest/gtest.h"

namespace gluond {

// Calls start(done) and waits for what done is called with.
template <class T, class Start>
T Await(Start start) {
  std::promise<T> promise;
  start([&promise](T result) { promise.set_value(std::move(result)); });
  return promise.get_future().get();
}

inline absl::Status StatusOf(const absl::Status& status) { return status; }
template <class T>
absl::Status StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

#define EXPECT_OK(expr) EXPECT_EQ(::gluond::StatusOf(expr), absl::OkStatus())
#define ASSERT_OK(expr) ASSERT_EQ(::gluond::StatusOf(expr), absl::OkStatus())

class ModelTest : public testing::Test {
 protected:
  ModelTest()
      : budget_(std::make_shared<Budget>("the test", int64_t{1} << 30, "--none")),
        memory_(*DeviceAllocator::Create(Device(), budget_)),
        lane_(*Lane::Create(Device(), {.threads = 2}, *memory_)) {}

  ModelOptions Options(uint64_t seed = 1) const { return {"test", seed, lane_.get(), memory_, memory_}; }

  template <class T>
  Tensor Make(const Shape& shape, const std::vector<T>& values) {
    Tensor tensor = *Tensor::Empty(*memory_, shape, DTypeOf<T>);
    std::copy(values.begin(), values.end(), tensor.data<T>());
    return tensor;
  }
  // Elements from -1 to 1 that look random.
  Tensor MakeNoise(const Shape& shape, uint64_t seed) {
    Tensor tensor = *Tensor::Empty(*memory_, shape, DType::kFloat32);
    const Philox random = {seed, 7, 7};
    for (int64_t i = 0; i < tensor.Size(); ++i) tensor.data<float>()[i] = 2 * Philox::ToUniform(random.Word(i)) - 1;
    return tensor;
  }

  std::shared_ptr<Model> MakeModel(const BlockSpec& block, std::vector<ModelInput> inputs, uint64_t seed = 1) {
    absl::StatusOr<ModelDefinition> definition = ExpandBlock(block, std::move(inputs));
    EXPECT_OK(definition.status());
    absl::StatusOr<std::shared_ptr<Model>> model = Model::Create(*std::move(definition), Options(seed));
    EXPECT_OK(model.status());
    return *std::move(model);
  }

  static absl::Status Initialize(Model& model, InitializeOptions options = {}) {
    return Await<absl::Status>([&](auto done) { model.Initialize(options, done); });
  }
  static absl::Status Set(Model& model, NamedTensors values) {
    return Await<absl::Status>([&](auto done) { model.SetParameters(values, done); });
  }
  static absl::StatusOr<NamedTensors> Get(Model& model, std::vector<std::string> names = {}) {
    return Await<absl::StatusOr<NamedTensors>>([&](auto done) { model.GetParameters(names, done); });
  }
  static absl::StatusOr<NamedTensors> Gradients(Model& model, std::vector<std::string> names = {}) {
    return Await<absl::StatusOr<NamedTensors>>([&](auto done) { model.GetGradients(names, done); });
  }
  static absl::StatusOr<NamedTensors> Predict(Model& model, NamedTensors inputs, std::vector<std::string> outputs = {}) {
    return Await<absl::StatusOr<NamedTensors>>([&](auto done) { model.Predict(inputs, outputs, nullptr, done); });
  }
  static absl::StatusOr<NamedTensors> Forward(Model& model, NamedTensors inputs, Mode mode = Mode::kTrain) {
    return Await<absl::StatusOr<NamedTensors>>([&](auto done) { model.Forward(inputs, mode, nullptr, done); });
  }
  static absl::StatusOr<BackwardReport> Backward(Model& model, NamedTensors heads = {}, std::vector<std::string> gradients = {},
                                                 Model::CancellationPtr cancellation = nullptr) {
    return Await<absl::StatusOr<BackwardReport>>([&](auto done) { model.Backward(heads, gradients, cancellation, done); });
  }

  static std::vector<float> Values(const Tensor& tensor) {
    return std::vector<float>(tensor.data<float>(), tensor.data<float>() + tensor.Size());
  }
  static std::string Bytes(const Tensor& tensor) { return std::string(tensor.data<char>(), tensor.bytes()); }

  const std::shared_ptr<Budget> budget_;
  const std::shared_ptr<Allocator> memory_;
  const std::shared_ptr<Lane> lane_;
};

}  // namespace gluond

#endif  // TESTS_ENGINE_NN_MODEL_FIXTURE_H_
