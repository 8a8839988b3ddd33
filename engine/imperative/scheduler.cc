#include "engine/imperative/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/imperative/copy_op.h"
#include "engine/imperative/graph_call.h"
#include "engine/passes/operator_error.h"
#include "engine/runtime/constant_tensors.h"
#include "engine/runtime/sparing_memory.h"
#include "engine/runtime/transfer.h"

namespace gluond {

std::shared_ptr<Scheduler> Scheduler::Create(std::vector<Place> places, OnFailure on_failure, int64_t most_idle_bytes) {
  for (Place& place : places) place.allocator = std::make_shared<SparingMemory>(std::move(place.allocator));
  return std::shared_ptr<Scheduler>(new Scheduler(std::move(places), std::move(on_failure), most_idle_bytes));
}

Scheduler::Scheduler(std::vector<Place> places, OnFailure on_failure, int64_t most_idle_bytes)
    : places_(std::move(places)), on_failure_(std::move(on_failure)), queue_(std::make_shared<ReadyQueue>(*home().lane)) {
  constexpr size_t kMostIdle = 32;
  for (const Place& place : places_) {
    caches_.push_back(std::make_unique<ExecutorCache>(*place.lane, *place.allocator, kMostIdle, most_idle_bytes));
    auto& memory = static_cast<SparingMemory&>(*place.allocator);
    memory.Spare(caches_.back().get());
    constants_.push_back(memory.constants());
    direct_caches_.emplace_back(place.device.type == DeviceType::kCpu ? place.allocator.get() : nullptr);
  }
}

const Scheduler::Place* Scheduler::Find(Device device) const {
  for (const Place& place : places_)
    if (place.device == device) return &place;
  return nullptr;
}

void Scheduler::DropConstants() {
  for (const std::shared_ptr<ConstantTensors>& constants : constants_) constants->DropDead();
}

void Scheduler::ForgetExecutors() {
  for (const auto& cache : caches_) cache->Clear();
}

int64_t Scheduler::num_compiled() const {
  int64_t n = 0;
  for (const auto& cache : caches_) n += cache->num_compiled();
  return n;
}

void Scheduler::Run(Invocation&& invoked, bool now) {
  home().lane->CheckHeld();
  ++pending_;
  now = now && home().lane->IsCurrent();
  const bool known = std::all_of(invoked.in.begin(), invoked.in.end(), [](const ValuePtr& value) { return value->known(); });
  if (known && now && StartHere(invoked)) return;
  const auto kept = std::make_shared<Invocation>(std::move(invoked));
  std::function<void()> start = [self = shared_from_this(), kept] { self->Start(kept); };
  if (!known) {
    WhenKnown(kept->in, std::move(start));
  } else {
    now ? start() : queue_->DoLater(std::move(start));
  }
}

absl::Status Scheduler::RunInPlace(const PreparedOp& op, absl::Span<const TBlob> in, absl::Span<const OpReqType> req,
                                   absl::Span<const TBlob> out) {
  Lane& lane = *home().lane;
  OpContext context = lane.NewContext(/*is_train=*/true);
  context.kernels = &direct_caches_[0].kernels;
  lane.LendScratch(&context);
  const absl::Status status = RunKernel(op.node->attrs, context, in, req, out);
  return status.ok() ? status : OperatorError(*op.node, status);
}

void Scheduler::Refuse(Invocation&& invoked, const absl::Status& status) {
  ++pending_;
  Fail(invoked, Failed(status, invoked.command)->failure());
}

ValuePtr Scheduler::Failed(const absl::Status& status, uint64_t command) {
  auto failure = std::make_shared<Failure>();
  failure->status = status;
  failure->command = command;
  if (!cancelled_) on_failure_(failure);
  return std::make_shared<Value>(std::move(failure));
}

void Scheduler::Cancel() {
  cancelled_ = true;
  cancellation_->Cancel();
}

absl::StatusOr<const Scheduler::Place*> Scheduler::PlaceOf(const Invocation& invoked) const {
  const Device device = invoked.in.empty() ? invoked.device : invoked.in[0]->tensor().device();
  for (size_t i = 1; i < invoked.in.size(); ++i) {
    const Device other = invoked.in[i]->tensor().device();
    if (other == device) continue;
    return absl::InvalidArgumentError(absl::StrCat("input 0 is on ", device.ToString(), ", input ", i, " on ", other.ToString(),
                                                   "; bring them to one device first"));
  }
  const Place* place = Find(device);
  if (place == nullptr) return absl::NotFoundError(absl::StrCat("there is no device ", device.ToString(), " here"));
  if (invoked.op->graph == nullptr && invoked.op->facts().kernel(device.type) == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("it has no kernel for ", device.ToString(), "; bring its inputs to another device"));
  }
  return place;
}

absl::Status Scheduler::CheckCancelled(const Invocation& invoked) const {
  if (cancelled_) return absl::CancelledError("the session has ended");
  return invoked.cancellation == nullptr ? absl::OkStatus() : invoked.cancellation->Check();
}

// A tensor is moved if the invocation is its only holder: so RunDirectly knows which memory it may overwrite.
void Scheduler::Gather(Invocation& invoked, DirectRun* direct) const {
  direct->training = invoked.training;
  direct->random = {invoked.seed, 0, invoked.draw};
  direct->wanted.assign(invoked.out.size(), false);
  for (size_t i = 0; i < invoked.out.size(); ++i) direct->wanted[i] = invoked.out[i] != nullptr;
  direct->inputs.clear();
  for (ValuePtr& value : invoked.in) {
    direct->inputs.push_back(value.use_count() == 1 ? value->Take() : value->tensor());
    value.reset();
  }
}

bool Scheduler::StartHere(Invocation& invoked) {
  for (const ValuePtr& value : invoked.in) {
    if (value->failure() == nullptr) continue;
    Fail(invoked, value->failure());
    return true;
  }
  const PreparedOp& op = *invoked.op;
  if (op.graph != nullptr || op.copies || !CheckCancelled(invoked).ok()) return false;
  const absl::StatusOr<const Place*> place = PlaceOf(invoked);
  if (!place.ok() || *place != &home()) return false;
  DirectPtr direct = std::move(direct_);
  if (direct == nullptr) direct = std::make_shared<DirectRun>();
  Gather(invoked, direct.get());
  const absl::Status status = RunDirectly(op, *home().lane, *home().allocator, *constants_[0], direct_caches_[0], direct.get());
  Finish(invoked, status, *direct);
  direct_ = std::move(direct);
  return true;
}

void Scheduler::Start(InvocationPtr invoked) {
  if (StartHere(*invoked)) return;
  absl::Status status = CheckCancelled(*invoked);
  if (status.ok() && invoked->op->copies) return StartCopy(std::move(invoked));
  if (status.ok()) {
    const absl::StatusOr<const Place*> place = PlaceOf(*invoked);
    if (place.ok()) return StartThere(std::move(invoked), **place);
    status = place.status();
  }
  Fail(*invoked, Failed(OperatorError(*invoked->op->node, status), invoked->command)->failure());
}

// The other lane gives its tensors and values back: the home lane alone releases values.
void Scheduler::StartThere(InvocationPtr invoked, const Place& place) {
  auto direct = std::make_shared<DirectRun>();
  Gather(*invoked, direct.get());
  if (invoked->op->graph != nullptr) return StartGraph(std::move(invoked), std::move(direct), place);
  place.lane->Post([self = shared_from_this(), &place, invoked = std::move(invoked), direct]() mutable {
    const size_t number = self->NumberOf(place);
    absl::Status status = RunDirectly(*invoked->op, *place.lane, *place.allocator, *self->constants_[number],
                                      self->direct_caches_[number], direct.get());
    Lane& home = *self->home().lane;
    home.Post([self = std::move(self), invoked = std::move(invoked), direct = std::move(direct), status = std::move(status)] {
      self->Finish(*invoked, status, *direct);
    });
  });
}

void Scheduler::StartCopy(InvocationPtr invoked) {
  Tensor from = invoked->in[0]->tensor();
  const Device* const device = CopiesTo(*invoked->op);
  const Place* const to = Find(device != nullptr ? *device : invoked->in[1]->tensor().device());
  auto direct = std::make_shared<DirectRun>();
  if (to == nullptr) {
    return Finish(*invoked, absl::NotFoundError(absl::StrCat("there is no device ", device->ToString(), " here")), *direct);
  }
  if (from.device() == to->device) {
    direct->outputs = {from};
    return Finish(*invoked, absl::OkStatus(), *direct);
  }
  // The GPU's lane copies; between two GPUs, the lane of the source.
  const Place* const by = from.device().type == DeviceType::kCpu ? to : Find(from.device());
  by->lane->Post([self = shared_from_this(), from = std::move(from), to, by, invoked = std::move(invoked), direct]() mutable {
    absl::StatusOr<Tensor> copy = CopyTo(from, by->lane->lanes(), *to->allocator, {.others = &to->lane->lanes()});
    if (copy.ok()) direct->outputs = {*copy};
    from = {};
    Scheduler& scheduler = *self;
    scheduler.AtHome([self = std::move(self), invoked = std::move(invoked), direct = std::move(direct), status = copy.status()] {
      self->Finish(*invoked, status, *direct);
    });
  });
}

void Scheduler::StartGraph(InvocationPtr invoked, DirectPtr direct, const Place& place, bool skips_constants) {
  ExecutorCache& cache = *caches_[NumberOf(place)];
  const GraphCall& graph = *invoked->op->graph;
  const bool goes_on = graph.graph == nullptr;
  const ExecutorKeyPtr of_paused = goes_on ? PausedCall::Of(direct->inputs[graph.paused_input]).key : nullptr;
  const auto& cancellation = invoked->cancellation != nullptr ? invoked->cancellation : cancellation_;
  const auto end = [self = shared_from_this(), direct, invoked](const absl::Status& status) {
    self->AtHome([self, direct, invoked, status] { self->Finish(*invoked, self->TellOfPaused(status), *direct); });
  };
  ExecutorQuery query = graph.QueryFor(direct->inputs, direct->training);
  if (query.options.constants != nullptr && (skips_constants || cache.SkipsConstants(query))) query.options.constants = nullptr;
  auto run = [this, &graph, goes_on, cancellation, direct, end, &place, &cache, invoked,
              constants = constants_[NumberOf(place)]](ExecutorLease lease) {
    auto executor = std::make_shared<ExecutorLease>(std::move(lease));
    std::vector<Tensor> before;
    const auto& of_graph = executor->key()->options.constants;
    if (of_graph != nullptr && !of_graph->empty()) direct->again = direct->inputs;
    Tensor call = goes_on ? std::move(direct->inputs[graph.paused_input]) : Tensor();
    absl::StatusOr<gluond::Run> run = BindGraph(graph, **executor, *place.lane, *place.allocator, constants, direct.get(), &before);
    absl::StatusOr<PausedRun> paused = goes_on && run.ok() ? TakePaused(std::move(call), **executor) : PausedRun();
    if (!run.ok() || !paused.ok()) {
      direct->written = std::move(before);
      return end(run.ok() ? paused.status() : run.status());
    }
    run->cancellation = cancellation;
    const auto done = [this, &graph, &place, &cache, executor, direct, before = std::move(before), end, invoked, constants,
                       begin = Lane::Clock::now()](absl::Status status) {
      if (status.ok()) status = TakeOutputs(graph, place, Lane::Clock::now() - begin, *executor, direct.get());
      if (!status.ok()) direct->written = before;
      *executor = ExecutorLease();
      direct->inputs = std::exchange(direct->again, {});
      if (IsByConstants(status)) {
        cache.SkipConstants(graph.QueryFor(direct->inputs, direct->training));
        return StartGraph(invoked, direct, place, /*skips_constants=*/true);
      }
      direct->inputs.clear();
      constants->DropDead();  // The client may have freed arrays meanwhile.
      end(status);
    };
    if (!goes_on) return (*executor)->StartHere(*std::move(run), done);
    absl::Status ready = (*executor)->Ready(*std::move(paused), *std::move(run));
    ready.ok() ? (*executor)->Continue(done) : done(std::move(ready));
  };
  if (place.lane->IsCurrent()) {
    if (ExecutorLease lease = goes_on ? cache.TakeIdle(of_paused) : cache.TakeIdle(query)) return run(std::move(lease));
  }
  cache.Checkout(
      goes_on ? of_paused : graph.KeyFor(query),
      [run, &graph, direct, end](absl::StatusOr<ExecutorLease> lease) {
        if (lease.ok()) return run(*std::move(lease));
        for (const uint32_t i : graph.written) direct->written.push_back(direct->inputs[i]);
        end(lease.status());
      },
      cancellation);
}

absl::Status Scheduler::TakeOutputs(const GraphCall& graph, const Place& place, Lane::Clock::duration took, ExecutorLease& lease,
                                    DirectRun* direct) const {
  Executor& executor = *lease;
  const size_t n = executor.outputs().size(), num_made = graph.backward == nullptr ? direct->wanted.size() : graph.num_visible;
  const std::vector<Tensor>& outputs = executor.run().outputs;
  const auto first = outputs.begin() + static_cast<std::ptrdiff_t>(graph.graph == nullptr ? n - num_made : 0);
  direct->outputs.assign(first, first + static_cast<std::ptrdiff_t>(num_made));
  if (graph.backward == nullptr) {
    (void)executor.TakeRun();
  } else if (direct->wanted.back()) {
    ASSIGN_OR_RETURN(Tensor call, PausedCall::Make(executor.TakePaused(), lease.key(), took, *place.allocator, paused_));
    direct->outputs.push_back(std::move(call));
  }
  return absl::OkStatus();
}

absl::Status Scheduler::TellOfPaused(const absl::Status& status) const {
  const int64_t waiting = paused_.use_count() - 1;
  if (!absl::IsResourceExhausted(status) || waiting == 0) return status;
  return Annotate(status, absl::StrCat(waiting,
                                       " recorded calls of graphs keep their memory for backward: call backward on what they "
                                       "have made, or free that"));
}

void Scheduler::Finish(Invocation& invoked, const absl::Status& status, DirectRun& direct) {
  if (!status.ok()) {
    const FailurePtr failure = Failed(status, invoked.command)->failure();
    return Fail(invoked, failure, std::move(direct.written));
  }
  home().lane->CheckHeld();
  --pending_;
  for (size_t i = 0; i < invoked.out.size(); ++i) {
    if (invoked.out[i] != nullptr) Value::Set(std::move(invoked.out[i]), std::move(direct.outputs[i]), *queue_);
  }
  for (size_t i = 0; i < invoked.written.size(); ++i) {
    Value::Set(std::move(invoked.written[i]), std::move(direct.written[i]), *queue_);
  }
}

void Scheduler::Fail(Invocation& invoked, const FailurePtr& failure, std::vector<Tensor> before) {
  home().lane->CheckHeld();
  --pending_;
  for (const ValuePtr& value : invoked.out)
    if (value != nullptr) Value::Fail(value, failure, *queue_);
  const std::vector<uint32_t>& mutated = invoked.op->facts().mutated;
  const bool as_called = before.empty();
  for (size_t k = 0; as_called && k < mutated.size() && mutated[k] < invoked.in.size(); ++k) {
    const ValuePtr& value = invoked.in[mutated[k]];
    before.push_back(value != nullptr && value->known() && value->failure() == nullptr ? value->tensor() : Tensor());
  }
  before.resize(mutated.size());
  for (size_t k = 0; k < mutated.size(); ++k) {
    const ValuePtr& written = invoked.written[k];
    before[k].defined() ? Value::Set(written, std::move(before[k]), *queue_) : Value::Fail(written, failure, *queue_);
  }
  invoked.in.clear();
}

void Scheduler::AtHome(std::function<void()> work) {
  if (home().lane->IsCurrent()) return work();
  home().lane->Post(std::move(work));
}

}  // namespace gluond
