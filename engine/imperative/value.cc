#include "engine/imperative/value.h"

namespace gluond {

void WhenKnown(const std::vector<ValuePtr>& values, std::function<void()> then) {
  size_t unknown = 0;
  for (const ValuePtr& value : values) unknown += !value->known();
  if (unknown == 0) return then();
  auto left = std::make_shared<size_t>(unknown);
  auto last = std::make_shared<std::function<void()>>(std::move(then));
  for (const ValuePtr& value : values) {
    if (value->known()) continue;
    value->Await([left, last] {
      if (--*left == 0) (*last)();
    });
  }
}

}  // namespace gluond
