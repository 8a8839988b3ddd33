// ConstantTensors holds what runs make of tensors that stay the same, so that each thing is made once and not for each run.
// Kernels want forms of them, such as a filter in another layout. Programs want values that follow from them, such as a weight
// with a BatchNorm folded into it. Thread-safe.
//
//   auto constants = std::make_shared<ConstantTensors>(tensors, allocator);
//   run.constants = constants;
//
// Tensors are held, and keep their contents: an owner that wants to write to one says so before (Forget), or moves to other
// memory. A tensor that nobody else holds any more goes with the next run.
// Whether something is kept changes no bit of a result.

#ifndef ENGINE_RUNTIME_CONSTANT_TENSORS_H_
#define ENGINE_RUNTIME_CONSTANT_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/core/mutex.h"
#include "engine/core/op_context.h"
#include "engine/core/tensor.h"

namespace gluond {

// Marks an error by which there was no memory for values that follow from constants. The same run without
// ExecutorOptions::constants needs less memory, and has the same results up to rounding.
absl::Status ByConstants(absl::Status status);
bool IsByConstants(const absl::Status& status);

// UsesWithout counts the uses of a thing for which there was no memory. They do without; the next one tries again. Memory that is
// full for a moment shall not slow uses for long, and a try without success costs something.
class UsesWithout {
 public:
  static constexpr int kMost = 256;

  // The next kMost uses do without.
  void Begin() { left_ = kMost; }
  // Whether one more use does without.
  bool OneMore() { return left_ > 0 && left_-- > 0; }

 private:
  int left_ = 0;
};

class ConstantTensors {
 public:
  // Values that follow from constants.
  using Values = std::shared_ptr<const std::vector<Tensor>>;

  // `tensors` never change. `allocator` pays for the forms, which take at most twice the memory of the tensors.
  ConstantTensors(const std::vector<Tensor>& tensors, std::shared_ptr<Allocator> allocator);
  // Tensors come by Add, and go by Forget. Forms and values are kept from the second run on that finds their tensors here: a
  // model that learns between its predictions would throw everything away.
  explicit ConstantTensors(std::shared_ptr<Allocator> allocator) : allocator_(std::move(allocator)), keep_at_once_(false) {}

  // Before the tensors of a run are added.
  void BeginRun();
  // Forgets the tensors that nobody else holds. Each run does.
  void DropDead();
  // `kept`: forms of the tensor are kept from this run on.
  void Add(const Tensor& tensor, bool kept = false);
  // To be called before somebody writes the tensor, or lets go of it. Drops all that was made of it.
  void Forget(const Tensor& tensor);
  void ForgetAll();
  // Lets go of what was made of the tensors, which stay. False: there was nothing, or a run that goes on may be reading it.
  bool Spare();
  // Around the kernels of a run.
  void Pin();
  void Unpin();

  // See Constants::Find. Null also where the tensor is none of these.
  absl::StatusOr<const void*> Find(const void* data, absl::string_view form, size_t bytes,
                                   absl::FunctionRef<absl::Status(void*)> make);

  // The values that programs with that text (Program::constants_text) compute of the tensors at `from`. Null: they are not
  // kept.
  Values FindValues(absl::string_view text, absl::Span<const void* const> from);
  // Whether such values are to be kept, once they are computed.
  bool KeepsValues(absl::Span<const void* const> from);
  // Keeps such values, which are tensors here, where they are to be kept. False: they are not.
  bool OfferValues(absl::string_view text, absl::Span<const void* const> from, const std::vector<Tensor>& values);

 private:
  struct Form {
    std::shared_ptr<Buffer> memory;  // Null: there was none.
    UsesWithout without;
  };
  struct Entry {
    Tensor tensor;
    int64_t since = 0;  // The run in which the tensor came.
    absl::flat_hash_map<std::string, Form> forms;
  };
  // Texts are long: looking one up copies nothing.
  struct KeyView {
    absl::string_view text;
    absl::Span<const void* const> from;
    template <class H>
    friend H AbslHashValue(H h, const KeyView& key) {
      return H::combine(std::move(h), key.text, key.from);
    }
    friend bool operator==(const KeyView& a, const KeyView& b) { return a.text == b.text && a.from == b.from; }
  };
  struct Key {
    std::string text;
    std::vector<const void*> from;
    explicit Key(const KeyView& view) : text(view.text), from(view.from.begin(), view.from.end()) {}
    KeyView view() const { return {text, from}; }
  };
  struct KeyHash {
    using is_transparent = void;
    size_t operator()(const KeyView& key) const { return absl::Hash<KeyView>()(key); }
    size_t operator()(const Key& key) const { return (*this)(key.view()); }
  };
  struct KeyEqual {
    using is_transparent = void;
    static KeyView View(const Key& key) { return key.view(); }
    static KeyView View(const KeyView& key) { return key; }
    template <class A, class B>
    bool operator()(const A& a, const B& b) const {
      return View(a) == View(b);
    }
  };

  void AddLocked(const Tensor& tensor, int64_t since) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool KeepsValuesLocked(absl::Span<const void* const> from) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropDeadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // With what follows from it.
  void ForgetLocked(const void* data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropFormsLocked(Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void DropLocked(const void* data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool IsKept(const Entry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return keep_at_once_ || entry.since < run_; }

  const std::shared_ptr<Allocator> allocator_;
  const bool keep_at_once_;
  Mutex mu_;  // Held while a form is made: others may be about to ask for it.
  absl::flat_hash_map<const void*, Entry> entries_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<Key, Values, KeyHash, KeyEqual> values_ ABSL_GUARDED_BY(mu_);
  int64_t left_ ABSL_GUARDED_BY(mu_) = 0;  // Bytes that forms may take.
  int64_t run_ ABSL_GUARDED_BY(mu_) = 0;
  int pins_ ABSL_GUARDED_BY(mu_) = 0;
};

// The constants of one run: the inputs that its program takes for constants, and what follows from them alone. Another program's
// constants are data here, so that kernels do the same whatever other programs there are.
class RunConstants final : public Constants {
 public:
  // Another run's follow. `made`: what has been made of constants; null: the run has none.
  void Begin(ConstantTensors* made);
  void Add(const void* data) { data_.push_back(data); }
  // All have been added.
  void Sort();
  bool empty() const { return made_ == nullptr || data_.empty(); }

  bool Contains(const void* data) override;
  absl::StatusOr<const void*> Find(const void* data, absl::string_view form, size_t bytes,
                                   absl::FunctionRef<absl::Status(void*)> make) override;

 private:
  ConstantTensors* made_ = nullptr;
  std::vector<const void*> data_;
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_CONSTANT_TENSORS_H_
