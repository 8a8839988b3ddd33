// spatial_cases.py's calls by the operators themselves: answers each line of standard input with the least and the
// median milliseconds of a call, over 100 ms. BENCH_CLOCK as there.

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <iostream>
#include <map>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "tests/bench/op_call.h"

namespace gluond::bench {
namespace {

AttrDict AttrsOf(absl::string_view text) {
  AttrDict attrs;
  for (absl::string_view each : absl::StrSplit(text, ';')) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(each, absl::MaxSplits('=', 1));
    attrs[pair.first] = pair.second;
  }
  return attrs;
}

Shape ShapeOf(absl::string_view text) {
  Shape shape = Shape::Scalar();
  for (absl::string_view each : absl::StrSplit(text, ',')) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(each, &size)) Check(absl::InvalidArgumentError(text));
    shape.Append(size);
  }
  return shape;
}

// The forward pass, and with `training` the gradients of every input.
std::function<void()> Prepare(const std::string& op, const AttrDict& attrs, const Shape& x, bool training) {
  auto forward = std::make_shared<OpCall>(op, attrs, ShapeVector{x});
  if (!training) {
    for (size_t i = 1; i < forward->out().size(); ++i) forward->Skip(i);  // Positions of maxima.
    return [forward] { forward->Run(); };
  }
  ShapeVector shapes = {forward->out()[0].shape, x};
  if (op != "Pooling") shapes.push_back(forward->in()[1].shape);
  if (forward->out().size() > 1) shapes.push_back(forward->out()[1].shape);
  auto backward = std::make_shared<OpCall>("_backward_" + op, attrs, shapes);
  if (forward->out().size() > 1) backward->in()[2] = forward->out()[1];
  return [forward, backward] {
    forward->Run();
    backward->Run();
  };
}

double Milliseconds(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

void Answer(const std::function<void()>& call) {
  const char* const name = std::getenv("BENCH_CLOCK");
  const clockid_t clock = name != nullptr && absl::string_view(name) == "processor" ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC;
  std::vector<double> times;
  const double end = Milliseconds(CLOCK_MONOTONIC) + 100;
  while (times.size() < 3 || Milliseconds(CLOCK_MONOTONIC) < end) {
    const double begin = Milliseconds(clock);
    call();
    times.push_back(Milliseconds(clock) - begin);
  }
  std::sort(times.begin(), times.end());
  std::cout << times[0] << " " << times[times.size() / 2] << std::endl;
}

}  // namespace
}  // namespace gluond::bench

int main() {
  gluond::bench::Check(gluond::CheckRegistry());
  std::map<std::string, std::function<void()>> calls;
  for (std::string line; std::getline(std::cin, line);) {
    std::function<void()>& call = calls[line];
    if (!call) {
      const std::vector<std::string> parts = absl::StrSplit(line, '\t');
      call = gluond::bench::Prepare(parts[0], gluond::bench::AttrsOf(parts[1]), gluond::bench::ShapeOf(parts[2]),
                                    parts[3] == "training");
      call();
    }
    gluond::bench::Answer(call);
  }
}
