#include "engine/runtime/executor.h"

#include <utility>

#include "engine/compile/host_charge.h"
#include "engine/core/mutex.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/execution.h"
#include "engine/runtime/program.h"

namespace gluond {

absl::StatusOr<std::unique_ptr<Executor>> Executor::Compile(const Graph& graph, const Signatures& known,
                                                            const ExecutorOptions& options, Lane& lane, Allocator& allocator,
                                                            std::shared_ptr<SharedArena> arena) {
  ASSIGN_OR_RETURN(std::unique_ptr<Program> program, Program::Compile(graph, known, options, lane, allocator, std::move(arena)));
  auto execution = std::make_shared<Execution>(std::move(program), options, lane, allocator);
  RETURN_IF_ERROR(execution->EndCompiling(options));
  return std::unique_ptr<Executor>(new Executor(std::move(execution)));
}

Executor::Executor(std::shared_ptr<Execution> execution) : execution_(std::move(execution)) {}
Executor::~Executor() = default;

const std::vector<Executor::Variable>& Executor::inputs() const { return execution_->program().inputs; }
const std::vector<Signature>& Executor::outputs() const { return execution_->program().outputs; }

int Executor::input_index(absl::string_view name) const {
  const auto& index = execution_->program().input_index;
  const auto it = index.find(name);
  return it == index.end() ? -1 : it->second;
}

Run Executor::NewRun() const {
  Run run;
  run.inputs.resize(inputs().size());
  run.outputs.resize(outputs().size());
  return run;
}

void Executor::Start(Run run, Done done) { execution_->Start(std::move(run), std::move(done)); }
void Executor::StartHere(Run run, Done done) { execution_->StartHere(std::move(run), std::move(done)); }
const Run& Executor::run() const { return execution_->run(); }
Run Executor::TakeRun() { return idle() ? execution_->TakeRun() : Run(); }
bool Executor::idle() const { return execution_->idle(); }
PausedRun Executor::TakePaused(std::vector<Tensor>* outputs) { return execution_->TakePaused(outputs); }
absl::StatusOr<PausedRun> Executor::Copy(const PausedRun& paused) { return execution_->Copy(paused); }
absl::Status Executor::Ready(PausedRun paused, Run rest) { return execution_->Ready(std::move(paused), std::move(rest)); }
void Executor::Continue(Done done) { execution_->Continue(std::move(done)); }

absl::Status Executor::RunAndWait(Run run, std::vector<Tensor>* outputs) {
  Mutex mu;
  CondVar ended;
  bool has_ended = false;
  absl::Status result;
  Start(std::move(run), [&](absl::Status status) {
    MutexLock lock(mu);
    result = std::move(status);
    has_ended = true;
    ended.NotifyOne();
  });
  MutexLock lock(mu);
  while (!has_ended) ended.Wait(mu);
  if (result.ok() && outputs != nullptr) *outputs = execution_->run().outputs;
  return result;
}

int64_t Executor::arena_bytes() const { return static_cast<int64_t>(execution_->program().arena.bytes()); }
int64_t Executor::own_bytes() const {
  const Program& program = execution_->program();
  return program.charge->bytes() + execution_->binding().own_bytes() + (program.shares_arena ? 0 : arena_bytes());
}

}  // namespace gluond
