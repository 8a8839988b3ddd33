// Where the option `batch_invariant` is refused. The BUILD file runs it with oneDNN's code for a lesser processor, too.

#include "server/serving/batch_invariance.h"

#include <cstdlib>
#include <string>

#include "absl/strings/match.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "gtest/gtest.h"

namespace gluond::server {
namespace {

// The processor itself is asked, not the code under test.
bool HasAvx512() {
  const char* const most = std::getenv("DNNL_MAX_CPU_ISA");
  return (most == nullptr || std::string(most) != "AVX2") && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const AttrDict kDense = {{"num_hidden", "3"}, {"no_bias", "True"}};

class BatchInvarianceTest : public ::testing::Test {
 protected:
  // A model with one input and one parameter.
  ModelState Model(DType input, DType parameter) {
    ModelState state;
    state.definition.inputs = {{"x", {-1, 2}, input}};
    state.definition.outputs = {MakeNode("FullyConnected", "y", {MakeVariable("x"), MakeVariable("w")}, kDense)};
    state.parameters = {{"w", *Tensor::Empty(*memory_, {3, 2}, parameter)}};
    return state;
  }
  static absl::Status Check(const ModelState& state, Device device = {}) {
    Place place;
    place.device = device;
    ServingOptions options;
    options.batch_invariant = true;
    return CheckBatchInvariance(options, state, place);
  }
  static void ExpectRefused(const absl::Status& status, absl::string_view why) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(absl::StrContains(status.message(), why)) << status;
    EXPECT_TRUE(absl::StrContains(status.message(), "or publish without batch_invariant")) << status;
  }

  const std::shared_ptr<DeviceAllocator> memory_ =
      *DeviceAllocator::Create(Device(), std::make_shared<Budget>("the test", 1 << 20, "--none"));
};

TEST_F(BatchInvarianceTest, HoldsInFloat32WithAvx512) {
  const absl::Status status = Check(Model(DType::kFloat32, DType::kFloat32));
  if (!HasAvx512()) return ExpectRefused(status, "this processor has no AVX-512");
  EXPECT_EQ(status, absl::OkStatus());
}

TEST_F(BatchInvarianceTest, IsRefusedInFloat64) {
  const std::string why = HasAvx512() ? "the model computes in float64" : "this processor has no AVX-512";
  ExpectRefused(Check(Model(DType::kFloat64, DType::kFloat32)), why);
  ExpectRefused(Check(Model(DType::kFloat32, DType::kFloat64)), why);
  ModelState casts = Model(DType::kFloat32, DType::kFloat32);
  casts.definition.outputs = {MakeNode("Cast", "z", {casts.definition.outputs[0]}, {{"dtype", "float64"}})};
  ExpectRefused(Check(casts), why);
}

TEST_F(BatchInvarianceTest, IsRefusedOnAGpu) {
  ExpectRefused(Check(Model(DType::kFloat32, DType::kFloat32), {DeviceType::kGpu, 0}), "gpu:0 is no CPU");
}

TEST_F(BatchInvarianceTest, IsAskedOnlyForThoseWhoWantIt) {
  const Place place;
  EXPECT_EQ(CheckBatchInvariance({}, Model(DType::kFloat64, DType::kFloat64), place), absl::OkStatus());
}

}  // namespace
}  // namespace gluond::server
