#include "engine/runtime/execution.h"

#include <algorithm>
#include <utility>

#include "engine/compile/host_charge.h"
#include "engine/core/custom_host.h"
#include "engine/core/interruption.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/runtime/row_chain.h"
#include "engine/runtime/transfer.h"

namespace gluond {
namespace {

absl::Status Busy() {
  return absl::FailedPreconditionError(
      "the executor is busy with another run, or with an operator that a failed run has left; use another one");
}

}  // namespace

void Execution::Event::Post() {
  if (posted_.exchange(true)) return;
  keep_ = execution_->shared_from_this();
  const ScopedAccount account(execution_->account_);
  execution_->lane_.Post(this);
}

void Execution::Event::Do() {
  const std::shared_ptr<Execution> keep = std::move(keep_);
  posted_ = false;
  (execution_->*handler_)();
}

Execution::Execution(std::unique_ptr<Program> program, const ExecutorOptions& options, Lane& lane, Allocator& allocator)
    : program_(std::move(program)),
      lane_(lane),
      binding_(*program_, lane.lanes(), allocator),
      context_(lane.NewContext(options.is_train)) {
  context_.kernels = &program_->kernels;
  const std::vector<Step>& steps = program_->steps;
  if (std::any_of(steps.begin(), steps.end(), [](const Step& step) { return step.async; })) {
    calls_.resize(steps.size());
    own_time_ = std::make_shared<ClientTime>();
  }
}

absl::Status Execution::EndCompiling(const ExecutorOptions& options) {
  const auto calls = static_cast<int64_t>(calls_.capacity() * sizeof(AsyncCalls));
  RETURN_IF_ERROR(program_->charge->Set(program_->HostBytes() + binding_.host_bytes() + calls));
  return program_->Prepare(options, lane_);
}

bool Execution::idle() const { return !running_.load(std::memory_order_acquire) && (left_ == nullptr || !left_->in_use()); }

bool Execution::Accept(Run& run, Executor::Done& done) {
  const bool busy = running_.exchange(true);
  if (busy || (left_ != nullptr && left_->in_use())) {
    if (!busy) running_ = false;
    lane_.Post([done = std::move(done)] { done(Busy()); });
    return false;
  }
  run_ = std::move(run);
  done_ = std::move(done);
  self_ = shared_from_this();
  account_ = CurrentAccount();
  return true;
}

void Execution::Start(Run run, Executor::Done done) {
  if (Accept(run, done)) begin_.Post();
}

void Execution::StartHere(Run run, Executor::Done done) {
  if (Accept(run, done)) Begin();
}

void Execution::Begin() {
  lane_.CheckHeld();
  LetGoOfArena();
  const bool pauses = program_->num_first < program_->outputs.size();
  absl::StatusOr<std::shared_ptr<Buffer>> arena = program_->arena.Take(pauses);
  if (!arena.ok()) return Finish(Annotate(arena.status(), "the arena of a graph"));
  arena_ = *std::move(arena);
  if (absl::Status status = BindPart(program_->first(), arena_); !status.ok()) return Finish(std::move(status));
  BeginPart();
}

absl::Status Execution::BindPart(const Program::Part& part, const std::shared_ptr<Buffer>& arena) {
  part_ = part;
  next_ = part.first_step;
  left_.reset();
  context_.random.seed = run_.seed;
  context_.random.run = run_.random_run;
  context_.client_time = run_.client_time != nullptr ? run_.client_time : own_time_;
  program_->BindArena(arena == nullptr ? nullptr : arena->data());
  absl::Status bound = binding_.Bind(part_, &run_);
  context_.constants = binding_.constants();
  return bound;
}

void Execution::BeginPart() {
  ExpectOutputs();
  Pin(true);
  Advance();
}

PausedRun Execution::TakePaused(std::vector<Tensor>* outputs) {
  PausedRun paused;
  paused.own = binding_.TakeFirst();
  paused.arena = program_->arena.Hold(std::exchange(arena_, nullptr));
  paused.layout = program_->layout;
  paused.run = std::move(run_);
  paused.run.on_output = nullptr;
  paused.run.cancellation = nullptr;
  for (size_t i = 0; i < paused.run.inputs.size(); ++i) {
    if (!program_->read_rest[i]) paused.run.inputs[i] = Tensor();
  }
  if (outputs != nullptr) *outputs = paused.run.outputs;
  for (uint32_t k = 0; k < program_->num_first; ++k) {
    if (!program_->output_places[k].read_rest) paused.run.outputs[k] = Tensor();
  }
  return paused;
}

absl::Status Execution::CheckLayout(const PausedRun& paused) const {
  if (paused.layout == program_->layout) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "a run cannot go on: its graph has been compiled anew, and an operator of it has inferred other shapes; run it again");
}

absl::StatusOr<PausedRun> Execution::Copy(const PausedRun& paused) {
  lane_.CheckHeld();
  RETURN_IF_ERROR(CheckLayout(paused));
  PausedRun copy = paused;
  ASSIGN_OR_RETURN(std::shared_ptr<Buffer> arena, Annotate(program_->arena.Take(/*keeps=*/true), "a copy of the arena of a graph"));
  copy.arena = program_->arena.Hold(std::move(arena));
  if (copy.arena != nullptr) {
    const Shape bytes = {static_cast<int64_t>(program_->arena.bytes())};
    const Tensor from(paused.arena, 0, bytes, DType::kUint8), to(copy.arena, 0, bytes, DType::kUint8);
    RETURN_IF_ERROR(gluond::Copy(from.blob(), to.blob(), lane_.lanes()));
  }
  return copy;
}

absl::Status Execution::Ready(PausedRun paused, Run rest) {
  lane_.CheckHeld();
  if (!idle()) return Busy();
  RETURN_IF_ERROR(CheckLayout(paused));
  const Program::Part part = program_->rest();
  Run& run = paused.run;
  for (size_t i = 0; i < rest.inputs.size() && i < run.inputs.size(); ++i) {
    if (rest.inputs[i].defined()) run.inputs[i] = std::move(rest.inputs[i]);
  }
  for (size_t k = part.first_output; k < rest.outputs.size() && k < run.outputs.size(); ++k) {
    run.outputs[k] = std::move(rest.outputs[k]);
  }
  if (!rest.output_reqs.empty()) {
    run.output_reqs.resize(run.outputs.size(), kWriteTo);
    for (size_t k = part.first_output; k < rest.output_reqs.size() && k < run.outputs.size(); ++k) {
      run.output_reqs[k] = rest.output_reqs[k];
    }
  }
  run.cancellation = std::move(rest.cancellation);
  run.on_output = std::move(rest.on_output);
  if (rest.client_time != nullptr) run.client_time = std::move(rest.client_time);
  LetGoOfArena();
  run_ = std::move(run);
  held_ = std::move(paused.arena);
  binding_.PutFirst(std::move(paused.own), run_);
  absl::Status bound = BindPart(part, held_);
  if (!bound.ok()) EndRun();
  return bound;
}

void Execution::Continue(Executor::Done done) {
  lane_.CheckHeld();
  Run run = std::move(run_);
  if (Accept(run, done)) BeginPart();
}

void Execution::Advance() {
  const std::vector<Step>& steps = program_->steps;
  for (; next_ < part_.last_step; ++next_) {
    if (run_.cancellation != nullptr) {
      absl::Status status = run_.cancellation->Check();
      if (!status.ok()) return Finish(At(next_, status));
    }
    if (steps[next_].computes_constants && binding_.has_constants()) continue;
    // Before anybody is told of an output.
    if (next_ == program_->after_constants && next_ > 0) {
      lane_.LendScratch(&context_);
      if (absl::Status status = binding_.CheckConstants(context_); !status.ok()) return Finish(std::move(status));
    }
    if (RowChain* const chain = ChainAt(next_)) {
      lane_.LendScratch(&context_);
      const int at_once = ChunksAtOnce(*chain, context_);
      // Where there is no space for it, the steps run whole.
      if (const auto space = context_.scratch->Get(static_cast<size_t>(at_once) * ChunkSpace(*chain)); space.ok()) {
        uint32_t failed = next_;
        absl::Status status = ComputeByRows(program_.get(), context_, at_once, *space, chain, run_.cancellation.get(), &failed);
        if (!status.ok()) return Finish(At(failed, status));
        next_ = chain->last - 1;
        continue;
      }
    }
    const Step& step = steps[next_];
    context_.random.stream = step.node->attrs.random_stream;
    if (step.async) {
      const absl::StatusOr<bool> completed = DoAsync(next_);
      if (!completed.ok()) return Finish(At(next_, completed.status()));
      if (!*completed) return;
    } else {
      lane_.LendScratch(&context_);
      absl::Status status = Compute(step);
      if (!status.ok()) return Finish(At(next_, status));
    }
    TellOutputs(next_);
  }
  EndPart();
}

void Execution::EndPart() {
  lane_.LendScratch(&context_);
  absl::Status status = binding_.CopyOutputs(context_, run_.constants.get());
  if (status.ok()) TellOutputs(Program::kNever);
  const bool more = part_.first_output == 0 && part_.last_output < program_->outputs.size();
  status.ok() && more ? Pause() : Finish(std::move(status));
}

void Execution::ExpectOutputs() {
  expected_.clear();
  if (!run_.on_output) return;
  for (uint32_t k = part_.first_output; k < part_.last_output; ++k) {
    if (run_.output_reqs.empty() || run_.output_reqs[k] != kNullOp) expected_.emplace_back(binding_.FinalAfter(k), k);
  }
  std::sort(expected_.rbegin(), expected_.rend());
}

void Execution::TellOutputs(uint32_t step) {
  for (; !expected_.empty() && expected_.back().first <= step; expected_.pop_back()) run_.on_output(expected_.back().second);
}

RowChain* Execution::ChainAt(uint32_t step) {
  std::vector<RowChain>& chains = program_->chains;
  const auto chain =
      std::lower_bound(chains.begin(), chains.end(), step, [](const RowChain& c, uint32_t s) { return c.first < s; });
  if (chain == chains.end() || chain->first != step) return nullptr;
  return MayComputeByRows(*program_, *chain, context_.constants != nullptr) ? &*chain : nullptr;
}

absl::Status Execution::Compute(const Step& step) {
  const Program& p = *program_;
  const absl::Span<const TBlob> in(p.ins.data() + step.first_in, step.num_in);
  const absl::Span<const TBlob> out(p.outs.data() + step.first_out, step.num_out);
  const absl::Span<const OpReqType> req(p.reqs.data() + step.first_out, step.num_out);
  if (run_.cancellation == nullptr) return RunKernel(step.node->attrs, context_, in, req, out);
  const auto check = [this] { return run_.cancellation->Check(); };
  const InterruptionScope scope(check);
  return RunKernel(step.node->attrs, context_, in, req, out);
}

absl::StatusOr<bool> Execution::DoAsync(uint32_t step) {
  const std::shared_ptr<AsyncCall> call = calls_[step].Next();
  context_.scratch = nullptr;
  context_.on_complete = AsyncCall::Begin(call, shared_from_this());
  absl::Status status = CopyStaged(program_->steps[step], /*back=*/false);
  if (status.ok()) status = Compute(program_->steps[step]);
  context_.on_complete = Completion();
  if (status.ok() && !call->completed()) {
    if (Suspend(call)) return Pin(false), false;  // A client may take long.
    status = run_.cancellation->Check();
  }
  if (!status.ok()) Abandon(*call);
  RETURN_IF_ERROR(EndAsync(call, std::move(status)));
  return true;
}

bool Execution::Abandon(AsyncCall& call) {
  if (!call.Abandon()) return false;
  const Node& node = *program_->steps[next_].node;
  const auto* abandon = node.op()->GetAttr<FAbandon>("FAbandon");
  if (abandon != nullptr) (*abandon)(node.attrs, context_.client_time.get());
  return true;
}

absl::Status Execution::EndAsync(std::shared_ptr<AsyncCall> call, absl::Status status) {
  if (status.ok()) status = call->TakeStatus();
  if (status.ok()) return CopyStaged(program_->steps[next_], /*back=*/true);
  left_ = std::move(call);
  return status;
}

absl::Status Execution::CopyStaged(const Step& step, bool back) {
  for (uint32_t i = step.first_staged; i < step.first_staged + step.num_staged; ++i) {
    const StagedInput& input = program_->staged[i];
    const TBlob copy = input.copy.blob(), there = {input.memory, copy.shape, copy.dtype, copy.device};
    RETURN_IF_ERROR(gluond::Copy(back ? copy : there, back ? there : copy, lane_.lanes()));
  }
  return absl::OkStatus();
}

bool Execution::Suspend(const std::shared_ptr<AsyncCall>& call) {
  suspended_ = call;
  Cancellation* const cancellation = run_.cancellation.get();
  if (cancellation == nullptr) return true;
  if (!cancellation->Listen(this)) {
    suspended_.reset();
    return false;
  }
  if (cancellation->deadline() != Cancellation::Clock::time_point::max()) {
    lane_.DoAt(cancellation->deadline(), &deadline_);
  }
  return true;
}

std::shared_ptr<AsyncCall> Execution::Unsuspend() {
  if (run_.cancellation != nullptr) {
    run_.cancellation->Unlisten(this);
    lane_.Forget(&deadline_);
  }
  return std::move(suspended_);
}

void Execution::Resume() {
  if (suspended_ == nullptr || !suspended_->completed()) return;  // Seen before the event came.
  absl::Status status = EndAsync(Unsuspend(), absl::OkStatus());
  if (!status.ok()) return Finish(At(next_, status));
  TellOutputs(next_);
  ++next_;
  Pin(true);
  Advance();
}

void Execution::Pin(bool pin) {
  if (run_.constants == nullptr || pin == std::exchange(pinned_, pin)) return;
  pin ? run_.constants->Pin() : run_.constants->Unpin();
}

void Execution::Stop() {
  if (suspended_ == nullptr || run_.cancellation == nullptr) return;  // An event of an earlier suspension.
  absl::Status status = run_.cancellation->Check();
  if (status.ok() || !Abandon(*suspended_)) return;  // Completed: Resume is on its way.
  status = EndAsync(Unsuspend(), std::move(status));
  Finish(At(next_, status));
}

absl::Status Execution::At(uint32_t step, const absl::Status& status) const {
  const Node& node = *program_->steps[step].node;
  return Annotate(status, absl::StrCat("Error in operator ", Excerpt(node.name()), " (", node.op()->name(), ")"));
}

// The run is over for the executor, but for what TakePaused takes.
void Execution::Pause() {
  absl::Status paced = Annotate(lane_.driver().Pace(lane_.stream(), part_.last_step), lane_.device().ToString());
  if (!paced.ok()) return Finish(std::move(paced));
  Pin(false);
  const std::shared_ptr<Execution> self = std::move(self_);
  const Executor::Done done = std::exchange(done_, nullptr);
  running_.store(false, std::memory_order_release);
  done(absl::OkStatus());
}

Run Execution::TakeRun() {
  LetGoOfArena();
  return std::move(run_);
}

// An operator that a failed run has left may write there until it completes.
void Execution::LetGoOfArena() {
  if (left_ != nullptr && left_->in_use()) return;
  program_->arena.GiveBack(std::exchange(arena_, nullptr));
  held_ = nullptr;
}

void Execution::EndRun() {
  LetGoOfArena();
  Pin(false);
  binding_.End(run_.constants.get(), left_ != nullptr && left_->in_use());
}

void Execution::Finish(absl::Status status) {
  // Nobody waits for the stream here: code that reads results there or copies them to the host comes behind its
  // operators, and their memory is freed behind them, too.
  absl::Status paced = lane_.driver().Pace(lane_.stream(), part_.last_step - part_.first_step);
  // Where the device has failed, its own message tells most.
  if (status.ok() || !lane_.driver().health().ok()) status = Annotate(paced, lane_.device().ToString());
  EndRun();
  const std::shared_ptr<Execution> self = std::move(self_);
  const Executor::Done done = std::exchange(done_, nullptr);  // Goes first: it may own the executor.
  running_.store(false, std::memory_order_release);
  done(std::move(status));
}

}  // namespace gluond
