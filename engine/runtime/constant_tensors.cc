#include "engine/runtime/constant_tensors.h"

#include <functional>
#include <iterator>

#include "absl/algorithm/container.h"
#include "absl/strings/cord.h"
#include "engine/core/status_macros.h"

namespace gluond {
namespace {

// A filter has one layout for a lone sample, and perhaps another for many.
constexpr int64_t kForms = 2;

constexpr char kByConstants[] = "gluond/by_constants";  // A payload of statuses.

}  // namespace

absl::Status ByConstants(absl::Status status) {
  status.SetPayload(kByConstants, absl::Cord());
  return status;
}

bool IsByConstants(const absl::Status& status) { return status.GetPayload(kByConstants).has_value(); }

ConstantTensors::ConstantTensors(const std::vector<Tensor>& tensors, std::shared_ptr<Allocator> allocator)
    : allocator_(std::move(allocator)), keep_at_once_(true) {
  MutexLock lock(mu_);
  for (const Tensor& tensor : tensors) AddLocked(tensor, 0);
}

void ConstantTensors::BeginRun() {
  MutexLock lock(mu_);
  ++run_;
  DropDeadLocked();
}

void ConstantTensors::DropDead() {
  MutexLock lock(mu_);
  DropDeadLocked();
}

void ConstantTensors::DropDeadLocked() {
  std::vector<const void*> dead;
  for (const auto& [data, entry] : entries_) {
    if (entry.tensor.buffer().use_count() == 1) dead.push_back(data);
  }
  for (const void* const data : dead) ForgetLocked(data);
}

void ConstantTensors::Add(const Tensor& tensor, bool kept) {
  MutexLock lock(mu_);
  AddLocked(tensor, kept ? run_ - 1 : run_);
}

void ConstantTensors::AddLocked(const Tensor& tensor, int64_t since) {
  if (tensor.bytes() == 0) return;  // It has no memory of its own.
  const auto [entry, is_new] = entries_.try_emplace(tensor.data());
  if (!is_new) return;
  entry->second.tensor = tensor;
  entry->second.since = since;
  left_ += kForms * static_cast<int64_t>(tensor.bytes());
}

void ConstantTensors::Forget(const Tensor& tensor) {
  MutexLock lock(mu_);
  if (entries_.contains(tensor.data())) ForgetLocked(tensor.data());
}

void ConstantTensors::ForgetLocked(const void* data) {
  for (auto each = values_.begin(); each != values_.end();) {
    const auto next = std::next(each);
    if (absl::c_linear_search(each->first.from, data)) {
      for (const Tensor& value : *each->second) DropLocked(value.data());
      values_.erase(each);
    }
    each = next;
  }
  DropLocked(data);
}

void ConstantTensors::DropLocked(const void* data) {
  const auto entry = entries_.find(data);
  if (entry == entries_.end()) return;
  DropFormsLocked(entry->second);
  left_ -= kForms * static_cast<int64_t>(entry->second.tensor.bytes());
  entries_.erase(entry);
}

void ConstantTensors::ForgetAll() {
  MutexLock lock(mu_);
  values_.clear();
  entries_.clear();
  left_ = 0;
}

bool ConstantTensors::Spare() {
  MutexLock lock(mu_);
  if (pins_ > 0) return false;
  bool any = !values_.empty();
  values_.clear();
  for (auto& [data, entry] : entries_) {
    any = any || !entry.forms.empty();
    DropFormsLocked(entry);
    entry.since = run_;
  }
  DropDeadLocked();
  return any;
}

void ConstantTensors::Pin() {
  MutexLock lock(mu_);
  ++pins_;
}

void ConstantTensors::Unpin() {
  MutexLock lock(mu_);
  --pins_;
}

void ConstantTensors::DropFormsLocked(Entry& entry) {
  for (const auto& [name, form] : entry.forms) left_ += form.memory == nullptr ? 0 : static_cast<int64_t>(form.memory->bytes());
  entry.forms.clear();
}

absl::StatusOr<const void*> ConstantTensors::Find(const void* data, absl::string_view form, size_t bytes,
                                                  absl::FunctionRef<absl::Status(void*)> make) {
  MutexLock lock(mu_);
  const auto entry = entries_.find(data);
  if (entry == entries_.end() || !IsKept(entry->second)) return nullptr;
  Form& known = entry->second.forms.try_emplace(form).first->second;
  if (known.memory != nullptr) return known.memory->data();
  if (known.without.OneMore()) return nullptr;
  absl::StatusOr<std::shared_ptr<Buffer>> made = std::shared_ptr<Buffer>();
  if (static_cast<int64_t>(bytes) <= left_) made = allocator_->Allocate(bytes);
  if (!made.ok() || *made == nullptr) {
    known.without.Begin();
    return nullptr;
  }
  RETURN_IF_ERROR(make((*made)->data()));
  known.memory = *std::move(made);
  left_ -= static_cast<int64_t>(known.memory->bytes());
  return known.memory->data();
}

ConstantTensors::Values ConstantTensors::FindValues(absl::string_view text, absl::Span<const void* const> from) {
  MutexLock lock(mu_);
  const auto found = values_.find(KeyView{text, from});
  return found == values_.end() ? nullptr : found->second;
}

bool ConstantTensors::KeepsValues(absl::Span<const void* const> from) {
  MutexLock lock(mu_);
  return KeepsValuesLocked(from);
}

bool ConstantTensors::KeepsValuesLocked(absl::Span<const void* const> from) const {
  if (from.empty()) return false;  // No tensor's end would end them.
  return absl::c_all_of(from, [this](const void* data) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const auto entry = entries_.find(data);
    return entry != entries_.end() && IsKept(entry->second);
  });
}

bool ConstantTensors::OfferValues(absl::string_view text, absl::Span<const void* const> from, const std::vector<Tensor>& values) {
  MutexLock lock(mu_);
  if (!KeepsValuesLocked(from)) return false;
  const auto [kept, is_new] = values_.try_emplace(Key(KeyView{text, from}));
  if (!is_new) return false;  // Another run has kept them meanwhile.
  kept->second = std::make_shared<const std::vector<Tensor>>(values);
  return true;
}

void RunConstants::Begin(ConstantTensors* made) {
  made_ = made;
  data_.clear();
}

void RunConstants::Sort() { absl::c_sort(data_, std::less<>()); }

bool RunConstants::Contains(const void* data) { return absl::c_binary_search(data_, data, std::less<>()); }

absl::StatusOr<const void*> RunConstants::Find(const void* data, absl::string_view form, size_t bytes,
                                               absl::FunctionRef<absl::Status(void*)> make) {
  return Contains(data) ? made_->Find(data, form, bytes, make) : nullptr;
}

}  // namespace gluond
