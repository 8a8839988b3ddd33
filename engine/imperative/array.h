// Array: what the imperative API calls an NDArray: a value, and how it came about where that was recorded. The tape is
// a graph of the engine's own nodes, so that what differentiates a graph differentiates it.

#ifndef ENGINE_IMPERATIVE_ARRAY_H_
#define ENGINE_IMPERATIVE_ARRAY_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "engine/core/graph.h"
#include "engine/imperative/value.h"

namespace gluond {

// That an array's gradient is wanted. The array keeps its mark when it gets a new value.
struct Mark {
  enum Request { kWrite, kAdd };
  Request request = kWrite;
  uint64_t gradient = 0;  // The caller's name for where the gradient goes.
  bool fresh = false;     // Backward has written it since the caller last cleared this.
};
using MarkPtr = std::shared_ptr<Mark>;

// A node of the tape: all nodes behind an Array's entry are of this type.
struct RecordedNode : Node {
  // `count`: of the nodes that live.
  explicit RecordedNode(std::shared_ptr<std::atomic<int64_t>> count) : count_(std::move(count)) { ++*count_; }
  ~RecordedNode() { --*count_; }

  // By output: kept where the node's own gradient, or that of a node that reads it, will want it. Else null.
  std::vector<ValuePtr> values;
  MarkPtr mark;           // A variable's, whose gradient is wanted.
  uint64_t state = 0;     // As of the Array that it stands for.
  bool is_freed = false;  // By a Backward that did not retain the tape.

  // Lets go of the values and of what lies before. Variables stay: other tapes may begin at them.
  void Free() {
    if (is_variable()) return;
    is_freed = true;
    values.clear();
    inputs.clear();
  }

 private:
  const std::shared_ptr<std::atomic<int64_t>> count_;
};
using RecordedNodePtr = std::shared_ptr<RecordedNode>;

struct Array {
  ValuePtr value;   // Null: no array.
  NodeEntry entry;  // Its place on the tape; without a node: a constant, as far as gradients go.
  MarkPtr mark;     // Null: no gradient is wanted.
  uint64_t state = 0;  // The caller's name of what a call writes, by which its gradient finds it again; 0: none.

  explicit operator bool() const { return value != nullptr; }
  RecordedNode& recorded() const { return static_cast<RecordedNode&>(*entry.node); }
};

}  // namespace gluond

#endif  // ENGINE_IMPERATIVE_ARRAY_H_
