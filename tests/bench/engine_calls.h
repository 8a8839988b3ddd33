// Helpers of the programs that time the engine: calls that wait, a clock, and the values of a batch.

#ifndef TESTS_BENCH_ENGINE_CALLS_H_
#define TESTS_BENCH_ENGINE_CALLS_H_

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <future>
#include <iostream>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/core/shape.h"

namespace gluond::bench {

[[noreturn]] inline void Die(const absl::Status& status) {
  std::cerr << status << "\n";
  std::exit(1);
}
inline void OrDie(const absl::Status& status) {
  if (!status.ok()) Die(status);
}
template <class T>
T OrDie(absl::StatusOr<T> value) {
  if (!value.ok()) Die(value.status());
  return *std::move(value);
}

template <class T>
T Await(std::function<void(std::function<void(T)>)> start) {
  std::promise<T> promise;
  start([&promise](T value) { promise.set_value(std::move(value)); });
  return promise.get_future().get();
}

inline double Milliseconds(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
}

inline double MillisecondsEach(int64_t steps, const std::function<void()>& step) {
  return Milliseconds([&] {
           for (int64_t i = 0; i < steps; ++i) step();
         }) /
         static_cast<double>(steps);
}

inline std::vector<float> Pixels(const Shape& batch) {
  std::vector<float> pixels(static_cast<size_t>(batch.Size()));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(i * 7919 % 1000) / 1000;
  return pixels;
}
inline std::vector<float> Labels(int64_t rows) {
  std::vector<float> labels(static_cast<size_t>(rows));
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<float>(i % 10);
  return labels;
}

}  // namespace gluond::bench

#endif  // TESTS_BENCH_ENGINE_CALLS_H_
