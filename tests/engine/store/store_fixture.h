// What tests of the store share: a directory of their own, memory, and checkpoints that tell each other apart.

#ifndef TESTS_ENGINE_STORE_STORE_FIXTURE_H_
#define TESTS_ENGINE_STORE_STORE_FIXTURE_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/philox.h"
#include "engine/nn/block.h"
#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "engine/store/checkpoint.h"
#include "engine/store/manifest.h"
#include "engine/store/state_json.h"
#include "gtest/gtest.h"
#include "tests/engine/nn/model_fixture.h"

namespace gluond {

// A directory that is gone at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = testing::TempDir() + "store_XXXXXX";
    path_ = mkdtemp(pattern.data()) == nullptr ? "" : pattern;
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

inline std::string ReadFileBytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}
inline void WriteFileBytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

class StoreTest : public testing::Test {
 protected:
  StoreTest() : memory_(*DeviceAllocator::Create(Device(), std::make_shared<Budget>("the test", int64_t{1} << 30, "--none"))) {}

  std::string Path(const std::string& name = "") const { return absl::StrCat(directory_.path(), "/", name); }
  std::unique_ptr<CheckpointStore> OpenStore(FileSystem& files = LocalFileSystem()) const {
    absl::StatusOr<std::unique_ptr<CheckpointStore>> store = CheckpointStore::Open(files, directory_.path());
    EXPECT_OK(store.status());
    return *std::move(store);
  }

  template <class T>
  Tensor Make(const Shape& shape, const std::vector<T>& values) const {
    Tensor tensor = *Tensor::Empty(*memory_, shape, DTypeOf<T>);
    std::copy(values.begin(), values.end(), tensor.data<T>());
    return tensor;
  }
  Tensor MakeNoise(const Shape& shape, uint64_t seed) const {
    Tensor tensor = *Tensor::Empty(*memory_, shape, DType::kFloat32);
    for (int64_t i = 0; i < tensor.Size(); ++i) {
      tensor.data<float>()[i] = Philox::ToUniform(Philox{seed, 1, 1}.Word(static_cast<uint64_t>(i)));
    }
    return tensor;
  }

  // A two-layer model whose every value depends on `seed`, with the state of a trainer.
  Checkpoint MakeCheckpoint(uint64_t seed) const {
    Checkpoint checkpoint;
    ModelState& model = checkpoint.model;
    model.definition = *ExpandBlock({"HybridSequential",
                                     "",
                                     {},
                                     {{"Dense", "", {{"units", "5"}, {"activation", "relu"}}, {}},
                                      {"Dropout", "", {{"rate", "0.5"}}, {}},
                                      {"Dense", "", {{"units", "2"}}, {}}}},
                                    {{"data", {-1, 3}}});
    const Shape shapes[] = {{5, 3}, {5}, {2, 5}, {2}};
    TrainerState trainer;
    for (size_t i = 0; i < model.definition.parameters.size(); ++i) {
      Parameter& parameter = model.definition.parameters[i];
      parameter.shape = shapes[i];
      parameter.lr_mult = 0.1 * static_cast<double>(seed);
      model.parameters.push_back({parameter.name, MakeNoise(shapes[i], seed)});
      trainer.states.push_back({parameter.name + "/momentum", MakeNoise(shapes[i], seed + 100)});
      trainer.updates.emplace_back(parameter.name, static_cast<int64_t>(seed));
    }
    model.random = {seed + (uint64_t{1} << 63), 0xFFFFFFF0u + static_cast<uint32_t>(seed)};
    trainer.options.optimizer = {"sgd", {{"momentum", "0.9"}}};
    trainer.options.lr_schedule = {"factor", {{"step", "10"}}};
    trainer.options.metrics = {{"accuracy", {}}};
    trainer.step = static_cast<int64_t>(seed);
    trainer.learning_rate = 1.0 / 3 * static_cast<double>(seed);
    trainer.position = {seed, 1, 64};
    checkpoint.trainer = std::move(trainer);
    return checkpoint;
  }

  // Everything that a checkpoint holds, as text: equal for equal checkpoints only.
  static std::string Describe(const Checkpoint& checkpoint) {
    std::string text = DefinitionToJson(checkpoint.model.definition).Dump();
    absl::StrAppend(&text, "\n", RandomToJson(checkpoint.model.random).Dump(), "\n");
    Describe(checkpoint.model.parameters, &text);
    if (checkpoint.trainer.has_value()) {
      absl::StrAppend(&text, TrainerToJson(*checkpoint.trainer).Dump(), "\n");
      Describe(checkpoint.trainer->states, &text);
    }
    return text;
  }

  const TemporaryDirectory directory_;
  const std::shared_ptr<Allocator> memory_;

 private:
  static void Describe(const NamedTensors& tensors, std::string* text) {
    for (const NamedTensor& named : tensors) {
      absl::StrAppend(text, named.name, " ", named.tensor.shape().ToString(), " ", Name(named.tensor.dtype()), " ");
      const auto* bytes = named.tensor.data<unsigned char>();
      for (size_t i = 0; i < named.tensor.bytes(); ++i) absl::StrAppend(text, int{bytes[i]}, ",");
      absl::StrAppend(text, "\n");
    }
  }
};

}  // namespace gluond

#endif  // TESTS_ENGINE_STORE_STORE_FIXTURE_H_
