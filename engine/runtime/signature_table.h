// SignatureTable: values by the signatures of a call's inputs. It holds a bounded number of them; the one that was used
// least recently goes first. Not thread-safe.

#ifndef ENGINE_RUNTIME_SIGNATURE_TABLE_H_
#define ENGINE_RUNTIME_SIGNATURE_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <list>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "engine/core/tensor.h"
#include "engine/passes/infer.h"

namespace gluond {

template <class Value>
class SignatureTable {
 public:
  static constexpr size_t kMost = 64;

  // The value for inputs like these. Null: there is none. Valid until the next Insert.
  Value* Find(absl::Span<const Tensor> inputs) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [inputs](const Entry& entry) {
      return std::equal(inputs.begin(), inputs.end(), entry.inputs.begin(), entry.inputs.end(),
                        [](const Tensor& a, const Signature& b) { return a.dtype() == b.dtype && a.shape() == b.shape; });
    });
    if (found == entries_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found);
    return &found->value;
  }

  // Requires: there is none.
  Value& Insert(absl::Span<const Tensor> inputs, Value value) {
    if (entries_.size() >= kMost) entries_.pop_back();
    Entry& entry = entries_.emplace_front(Entry{{}, std::move(value)});
    for (const Tensor& input : inputs) entry.inputs.push_back({input.shape(), input.dtype()});
    return entry.value;
  }

 private:
  struct Entry {
    std::vector<Signature> inputs;
    Value value;
  };
  std::list<Entry> entries_;  // The most recently used first.
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_SIGNATURE_TABLE_H_
