#include "engine/runtime/constant_tensors.h"

#include "engine/core/status_macros.h"

namespace gluond {
namespace {

// A filter has one layout for a lone sample, and perhaps another for many.
constexpr size_t kForms = 2;

}  // namespace

ConstantTensors::ConstantTensors(const std::vector<Tensor>& tensors, std::shared_ptr<Allocator> allocator)
    : allocator_(std::move(allocator)) {
  for (const Tensor& tensor : tensors) {
    if (tensor.bytes() == 0) continue;  // It has no memory of its own.
    entries_[tensor.data()].tensor = tensor;
    left_ += kForms * tensor.bytes();
  }
}

absl::StatusOr<const void*> ConstantTensors::Find(const void* data, absl::string_view form, size_t bytes,
                                                  absl::FunctionRef<absl::Status(void*)> make) {
  MutexLock lock(mu_);
  const auto entry = entries_.find(data);
  if (entry == entries_.end()) return nullptr;
  auto& forms = entry->second.forms;
  if (const auto known = forms.find(form); known != forms.end()) {
    return known->second == nullptr ? nullptr : known->second->data();
  }
  std::shared_ptr<Buffer> made;
  if (bytes <= left_) {
    absl::StatusOr<std::shared_ptr<Buffer>> buffer = allocator_->Allocate(bytes);
    if (buffer.ok()) {
      RETURN_IF_ERROR(make((*buffer)->data()));
      made = *std::move(buffer);
      left_ -= bytes;
    }
  }
  forms.emplace(form, made);
  return made == nullptr ? nullptr : made->data();
}

}  // namespace gluond
