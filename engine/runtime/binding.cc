#include "engine/runtime/binding.h"

#include <algorithm>
#include <memory>
#include <tuple>

#include "absl/algorithm/container.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/finite.h"
#include "engine/runtime/only_holder.h"
#include "engine/runtime/transfer.h"

namespace gluond {
namespace {

absl::Status CheckTensor(const Tensor& tensor, const Shape& shape, DType dtype, Device device) {
  if (tensor.shape() == shape && tensor.dtype() == dtype && tensor.device() == device) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("compiled for ", Name(dtype), " ", shape.ToString(), " on ", device.ToString(),
                                                 ", got ", Name(tensor.dtype()), " ", tensor.shape().ToString(), " on ",
                                                 tensor.device().ToString()));
}

}  // namespace

Binding::Binding(Program& program, const Lanes& lanes, Allocator& allocator)
    : program_(program), lanes_(lanes), allocator_(allocator), own_(program.outputs.size()) {
  const size_t num_ranges = program.inputs.size() + program.outputs.size();
  targets_.reserve(program.outputs.size());
  copies_.reserve(program.outputs.size());
  ranges_.reserve(num_ranges);
  open_read_.reserve(num_ranges);
  open_written_.reserve(num_ranges);
}

absl::Status Binding::Bind(const Program::Part& part, Run* run) {
  part_ = part;
  RETURN_IF_ERROR(CheckInputs(*run));
  RETURN_IF_ERROR(CheckOutputs(run));
  RETURN_IF_ERROR(CheckOverlaps(*run));
  const std::vector<ProgramOutput>& places = program_.output_places;
  for (uint32_t i = 0; i < run->inputs.size(); ++i) {
    if (IsBound(i)) program_.slots[i].Bind(run->inputs[i].data());
  }
  for (uint32_t k = part.first_output; k < part.last_output; ++k) {
    if (places[k].kind == ProgramOutput::kOwnSlot) RETURN_IF_ERROR(BindOwnSlot(k, run));
  }
  RETURN_IF_ERROR(BindConstants(*run));  // Behind the outputs, which no run can do without.
  // Variables are copied before anything is copied over them.
  copies_.clear();
  for (uint32_t k = part.first_output; k < part.last_output; ++k) {
    if (places[k].kind == ProgramOutput::kVariable) {
      RETURN_IF_ERROR(AddCopy(k, program_.slots[places[k].slot].memory, run));
    }
  }
  for (uint32_t k = part.first_output; k < part.last_output; ++k) {
    if (places[k].kind == ProgramOutput::kArena) {
      RETURN_IF_ERROR(AddCopy(k, static_cast<char*>(program_.arena_memory) + places[k].offset, run));
    }
    if (places[k].kind == ProgramOutput::kRepeat || places[k].kind == ProgramOutput::kConstant ||
        (targets_[k].staged && targets_[k].to != nullptr)) {
      RETURN_IF_ERROR(AddCopy(k, program_.slots[places[k].slot].memory, run));
    }
  }
  return absl::OkStatus();
}

std::vector<Tensor> Binding::TakeFirst() const {
  std::vector<Tensor> own(program_.num_first);
  for (uint32_t k = 0; k < program_.num_first; ++k) {
    const ProgramOutput& place = program_.output_places[k];
    if (!place.read_rest || !own_[k].defined()) continue;
    if (program_.slots[place.slot].memory == own_[k].data()) own[k] = own_[k];
  }
  return own;
}

void Binding::PutFirst(std::vector<Tensor> own, const Run& run) {
  for (uint32_t k = 0; k < program_.num_first; ++k) {
    const ProgramOutput& place = program_.output_places[k];
    if (place.kind != ProgramOutput::kOwnSlot) continue;
    const Tensor& memory = own[k].defined() ? own[k] : run.outputs[k];
    program_.slots[place.slot].Bind(memory.defined() ? memory.data() : nullptr);
    if (own[k].defined()) own_[k] = std::move(own[k]);
  }
}

absl::Status Binding::BindConstants(const Run& run) {
  kept_ = nullptr;
  constants_.clear();
  ConstantTensors* const constants = run.constants.get();
  run_constants_.Begin(constants);
  for (const uint32_t i : program_.constant_variables) run_constants_.Add(run.inputs[i].data());
  if (program_.constants.empty()) return run_constants_.Sort(), absl::OkStatus();
  constant_inputs_.clear();
  for (const uint32_t i : program_.constant_inputs) constant_inputs_.push_back(run.inputs[i].data());
  if (constants != nullptr) kept_ = constants->FindValues(program_.constants_text, constant_inputs_);
  const bool keeps = constants != nullptr && constants->KeepsValues(constant_inputs_);
  for (size_t i = 0; i < program_.constants.size(); ++i) {
    const ProgramConstant& constant = program_.constants[i];
    if (kept_ == nullptr) {
      absl::StatusOr<Tensor> memory = Tensor::Empty(allocator_, constant.signature.shape, constant.signature.dtype);
      if (!memory.ok()) {
        absl::Status refused = Annotate(memory.status(), "what follows from the parameters");
        return absl::IsResourceExhausted(refused) ? ByConstants(std::move(refused)) : refused;
      }
      constants_.push_back(*std::move(memory));
      if (constants != nullptr) constants->Add(constants_.back(), keeps);
    }
    void* const data = (kept_ == nullptr ? constants_[i] : (*kept_)[i]).data();
    run_constants_.Add(data);
    program_.slots[constant.slot].Bind(data);
  }
  run_constants_.Sort();
  return absl::OkStatus();
}

absl::Status Binding::CheckConstants(const OpContext& context) const {
  const absl::StatusOr<bool> finite =
      lanes_.device().type == DeviceType::kCpu ? AreFinite(constants_) : AreFiniteOn(lanes_, constants_, context, allocator_);
  if (!finite.ok()) return ByConstants(finite.status());
  if (*finite) return absl::OkStatus();
  return ByConstants(absl::FailedPreconditionError("a number that follows from the parameters is not finite"));
}

absl::Status Binding::CheckInputs(const Run& run) const {
  if (run.inputs.size() != program_.inputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the graph has ", program_.inputs.size(), " inputs, the run binds ", run.inputs.size()));
  }
  for (size_t i = 0; i < run.inputs.size(); ++i) {
    const Executor::Variable& variable = program_.inputs[i];
    if (!IsBound(i)) continue;
    if (!run.inputs[i].defined()) {
      return absl::InvalidArgumentError(absl::StrCat("input '", variable.name, "' has no value"));
    }
    absl::Status status = CheckTensor(run.inputs[i], variable.shape, variable.dtype, lanes_.device());
    if (!status.ok()) return Annotate(status, absl::StrCat("input '", variable.name, "'"));
  }
  return absl::OkStatus();
}

absl::Status Binding::CheckOutputs(Run* run) {
  const size_t n = program_.outputs.size();
  if (run->outputs.empty()) run->outputs.resize(n);
  if (run->outputs.size() != n || (!run->output_reqs.empty() && run->output_reqs.size() != n)) {
    return absl::InvalidArgumentError(absl::StrCat("the graph has ", n, " outputs, the run binds ", run->outputs.size(), " with ",
                                                   run->output_reqs.size(), " requests"));
  }
  targets_.assign(n, Target());
  for (uint32_t k = part_.first_output; k < n; ++k) {
    const ProgramOutput& place = program_.output_places[k];
    Target& target = targets_[k];
    if (!IsInPart(k)) {  // The rest copies from what is first computed.
      if (place.kind == ProgramOutput::kRepeat) targets_[place.first].staged = true;
      continue;
    }
    if (!run->output_reqs.empty()) target.req = run->output_reqs[k];
    if (target.req == kWriteInplace) target.req = kWriteTo;
    target.staged = place.read && target.req != kWriteTo;
    if (target.req == kNullOp) continue;
    if (run->outputs[k].defined()) {
      absl::Status status = CheckTensor(run->outputs[k], program_.outputs[k].shape, program_.outputs[k].dtype, lanes_.device());
      if (!status.ok()) return Annotate(status, absl::StrCat("output ", k));
      target.to = run->outputs[k].data();
    } else if (target.req == kAddTo) {
      return absl::InvalidArgumentError(absl::StrCat("output ", k, ": kAddTo needs a tensor to add to"));
    }
    if (place.async) target.staged = true;
    if (place.kind == ProgramOutput::kRepeat && IsInPart(place.first)) targets_[place.first].staged = true;
  }
  return absl::OkStatus();
}

// Visits the pairs that overlap of which one is written, in the order of addresses. Any number of variables may be one tensor.
absl::Status Binding::CheckOverlaps(const Run& run) {
  ranges_.clear();
  open_read_.clear();
  open_written_.clear();
  const auto add = [this](const Tensor& tensor, bool output, uint32_t index) {
    const char* const begin = static_cast<const char*>(tensor.data());
    if (tensor.bytes() > 0) ranges_.push_back({begin, begin + tensor.bytes(), output, index});
  };
  for (uint32_t i = 0; i < run.inputs.size(); ++i) {
    if (IsBound(i)) add(run.inputs[i], false, i);
  }
  for (uint32_t k = 0; k < targets_.size(); ++k) {
    if (targets_[k].to != nullptr) add(run.outputs[k], true, k);
  }
  std::sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) {
    return std::tie(a.begin, a.output, a.index) < std::tie(b.begin, b.output, b.index);
  });
  const auto ends_later = [](const Range& a, const Range& b) { return a.end > b.end; };
  for (const Range& range : ranges_) {
    for (std::vector<Range>* const open : {&open_read_, &open_written_}) {
      for (; !open->empty() && open->front().end <= range.begin; open->pop_back()) absl::c_pop_heap(*open, ends_later);
    }
    for (const Range& before : open_written_) RETURN_IF_ERROR(OnOverlap(before, range));
    const bool written = IsWritten(range);
    for (size_t i = 0; written && i < open_read_.size(); ++i) RETURN_IF_ERROR(OnOverlap(open_read_[i], range));
    std::vector<Range>& open = written ? open_written_ : open_read_;
    open.push_back(range);
    absl::c_push_heap(open, ends_later);
  }
  return absl::OkStatus();
}

absl::Status Binding::OnOverlap(const Range& a, const Range& b) {
  if (a.output && b.output) {
    return absl::InvalidArgumentError(
        absl::StrCat("outputs ", a.index, " and ", b.index, " overlap; bind them to memory of their own"));
  }
  if (!a.output && !b.output) {
    const Executor::Variable& one = program_.inputs[a.index];
    const Executor::Variable& two = program_.inputs[b.index];
    return absl::InvalidArgumentError(absl::StrCat("inputs '", one.name, "' and '", two.name,
                                                   "' overlap, and an "
                                                   "operator writes '",
                                                   (one.mutated ? one : two).name, "'"));
  }
  const uint32_t v = a.output ? b.index : a.index;
  const uint32_t k = a.output ? a.index : b.index;
  const ProgramOutput& place = program_.output_places[k];
  Target& target = targets_[k];
  if (part_.first_output == 0 && program_.read_rest[v]) {  // Copies and last readers are of the part alone.
    return absl::InvalidArgumentError(absl::StrCat("output ", k, " overlaps input '", program_.inputs[v].name,
                                                   "', which is read after the pause; bind them to memory of their own"));
  }
  const bool same = a.begin == b.begin && a.end == b.end;
  if (place.kind == ProgramOutput::kVariable) {
    if (!program_.read_at_end[v] || (place.slot == v && same)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("output ", k, " overlaps input '", program_.inputs[v].name, "', which is an output, too; copy it first"));
  }
  if (place.kind != ProgramOutput::kOwnSlot) return absl::OkStatus();  // Copied when all is read.
  if (!program_.MayOverwrite(place, v)) {
    target.staged = true;
  } else if (program_.last_reader[v] == place.step) {
    (same && target.req == kWriteTo ? target.in_place : target.staged) = true;
  }
  return absl::OkStatus();
}

int64_t Binding::own_bytes() const {
  int64_t bytes = 0;
  for (const Tensor& tensor : own_) bytes += tensor.defined() ? static_cast<int64_t>(tensor.bytes()) : 0;
  return bytes;
}

int64_t Binding::host_bytes() const {
  const size_t ranges = ranges_.capacity() + open_read_.capacity() + open_written_.capacity();
  return static_cast<int64_t>(own_.capacity() * sizeof(Tensor) + targets_.capacity() * sizeof(Target) +
                              copies_.capacity() * sizeof(OutputCopy) + ranges * sizeof(Range));
}

absl::StatusOr<void*> Binding::OwnMemory(uint32_t k) {
  if (!own_[k].defined() || !IsOnlyHolder(own_[k].buffer())) {
    auto tensor = Tensor::Empty(allocator_, program_.outputs[k].shape, program_.outputs[k].dtype);
    if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat("output ", k));
    own_[k] = *std::move(tensor);
  }
  return own_[k].data();
}

uint32_t Binding::FinalAfter(uint32_t k) const {
  const ProgramOutput& place = program_.output_places[k];
  const bool copied = targets_[k].staged && targets_[k].to != nullptr;
  if (copied || place.kind != ProgramOutput::kOwnSlot) return Program::kNever;
  const uint32_t reader = program_.last_reader[place.slot];
  return reader == Program::kNever || reader >= part_.last_step ? place.step : std::max(place.step, reader);
}

absl::Status Binding::BindOwnSlot(uint32_t k, Run* run) {
  const ProgramOutput& place = program_.output_places[k];
  const Target& target = targets_[k];
  Slot& slot = program_.slots[place.slot];
  OpReqType& req = program_.reqs[place.req];
  const bool lent = target.req != kNullOp && target.to == nullptr;
  if (target.req == kNullOp && !target.staged) {
    slot.Bind(nullptr);
    req = kNullOp;
  } else if (lent || target.staged) {
    ASSIGN_OR_RETURN(void* const memory, OwnMemory(k));
    slot.Bind(memory);
    req = kWriteTo;
    if (lent) run->outputs[k] = own_[k];
  } else {
    slot.Bind(target.to);
    req = target.in_place ? kWriteInplace : target.req;
  }
  return absl::OkStatus();
}

absl::Status Binding::AddCopy(uint32_t k, const void* from, Run* run) {
  const Target& target = targets_[k];
  if (target.req == kNullOp) return absl::OkStatus();
  void* to = target.to;
  // Borrowed outputs are only read: two of the same value are one tensor's memory in two shapes.
  if (to == nullptr && program_.output_places[k].kind == ProgramOutput::kRepeat) {
    const Signature& signature = program_.outputs[k];
    run->outputs[k] = Tensor(own_[program_.output_places[k].first].buffer(), 0, signature.shape, signature.dtype);
    return absl::OkStatus();
  }
  if (to == nullptr) {
    ASSIGN_OR_RETURN(to, OwnMemory(k));
    run->outputs[k] = own_[k];
  }
  if (target.req == kAddTo && !CanAdd(lanes_.device())) {
    return absl::FailedPreconditionError(
        absl::StrCat("output ", k, ": adding to it takes operator _copy, which has no kernel for ", lanes_.device().ToString()));
  }
  copies_.push_back({from, to, target.req, k});
  return absl::OkStatus();
}

absl::Status Binding::CopyOutputs(const OpContext& context, ConstantTensors* constants) {
  for (const OutputCopy& copy : copies_) {
    const Signature& signature = program_.outputs[copy.output];
    const TBlob in = {const_cast<void*>(copy.from), signature.shape, signature.dtype, lanes_.device()};
    const TBlob out = {copy.to, signature.shape, signature.dtype, lanes_.device()};
    RETURN_IF_ERROR(Copy(in, out, lanes_, {.add_in = copy.req == kAddTo ? &context : nullptr}));
  }
  if (constants != nullptr && !constants_.empty() &&
      constants->OfferValues(program_.constants_text, constant_inputs_, constants_)) {
    constants_.clear();
  }
  return absl::OkStatus();
}

void Binding::End(ConstantTensors* constants, bool in_use) {
  for (const Tensor& each : constants_) {
    if (constants != nullptr) constants->Forget(each);
  }
  if (in_use) return;
  kept_ = nullptr;
  constants_.clear();
}

}  // namespace gluond
