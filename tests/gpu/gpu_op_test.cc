// Runs every operator case of tests/ops on the GPU, and compares the GPU with the CPU:
//
//   gpu_op_test [--plugin=libgluond_cuda.so] [gtest's flags]
//
// Exits with 3 where there is no GPU.

#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "engine/core/gpu_math.h"
#include "engine/core/op.h"
#include "gtest/gtest.h"
#include "server/start/cuda_plugin.h"
#include "tests/ops/op_case.h"

namespace gluond::testing {
namespace {

double Allowed(const OpCase& c, DType type) {
  // What reads inputs of float32 computes in it.
  if (type == DType::kFloat64 && !c.float32_inputs.empty()) type = DType::kFloat32;
  switch (type) {
    case DType::kFloat64: return 1e-11;
    case DType::kFloat32: return 4e-6;
    case DType::kFloat16: return 4e-3;
    case DType::kBfloat16: return 3e-2;
    default: return 0;
  }
}

absl::StatusOr<std::vector<HostTensor>> RunOn(const char* device, const OpCase& c, DType type, bool hidden) {
  setenv("GLUOND_TEST_DEVICE", device, 1);
  std::vector<NodeEntry> xs;
  std::vector<HostTensor> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    xs.push_back(MakeVariable(absl::StrCat("x", i)));
    inputs.push_back(HostTensor::Of(c.inputs[i], c.float32_inputs.count(static_cast<int>(i)) > 0 ? DType::kFloat32 : type));
  }
  absl::StatusOr<NodePtr> node = TryMakeNode(c.op, "y", xs, c.attrs);
  if (!node.ok()) return node.status();
  absl::StatusOr<std::vector<HostTensor>> ys = OneByOne(c.is_train).Call(**node, &inputs, {.hidden = hidden});
  if (ys.ok()) ys->insert(ys->end(), inputs.begin(), inputs.end());  // Inputs that the operator wrote count as outputs.
  return ys;
}

void ExpectTheSame(const OpCase& c, bool hidden) {
  for (DType type : kAllDTypes) {
    if (!IsFloating(type) && !c.integers) continue;
    const auto cpu = RunOn("cpu", c, type, hidden);
    const auto gpu = RunOn("gpu:0", c, type, hidden);
    ASSERT_EQ(cpu.ok(), gpu.ok()) << type << ": CPU " << cpu.status() << ", GPU " << gpu.status();
    if (!cpu.ok()) continue;
    for (size_t i = 0; i < cpu->size(); ++i) {
      const std::vector<double> want = (*cpu)[i].values(), got = (*gpu)[i].values();
      ASSERT_EQ((*gpu)[i].shape, (*cpu)[i].shape);
      for (size_t k = 0; k < want.size(); ++k) {
        const bool equal = std::isfinite(want[k]) ? std::abs(got[k] - want[k]) <=
                                                        c.tolerance * Allowed(c, (*cpu)[i].dtype) * std::max(1.0, std::abs(want[k]))
                                                  : got[k] == want[k] || (std::isnan(got[k]) && std::isnan(want[k]));
        EXPECT_TRUE(equal) << type << ", output " << i << "[" << k << "]: GPU " << got[k] << ", CPU " << want[k];
      }
    }
  }
}

// Mutated inputs included; with the hidden outputs and, as when nobody reads them, without: a GPU's libraries compute
// some operators in one of these ways only.
TEST_P(OpTest, TheGpuEqualsTheCpu) {
  for (const bool hidden : {true, false}) ExpectTheSame(GetParam(), hidden);
}

}  // namespace
}  // namespace gluond::testing

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  absl::string_view plugin;
  for (int i = 1; i < argc; ++i) {
    plugin = argv[i];
    if (!absl::ConsumePrefix(&plugin, "--plugin=")) {
      std::fprintf(stderr, "gpu_op_test: '%s' is no flag; want --plugin=FILE or gtest's\n", argv[i]);
      return 2;
    }
  }
  if (const absl::Status status = gluond::server::LoadCudaPlugin(std::string(plugin)); !status.ok()) {
    std::fprintf(stderr, "gpu_op_test: %s\n", std::string(status.message()).c_str());
    return 3;
  }
  setenv("GLUOND_TEST_DEVICE", "gpu:0", 1);
  gluond::SetGpuMath({.tf32 = gluond::GpuMath::Tf32::kNone});  // As exact as a CPU.
  return RUN_ALL_TESTS();
}
