// Execution: a Program and the run of it that goes on. Everything but Start happens on the lane's thread, one event
// after the other: begin, a completion, a cancellation, a deadline. Private to engine/runtime.

#ifndef ENGINE_RUNTIME_EXECUTION_H_
#define ENGINE_RUNTIME_EXECUTION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/runtime/async_call.h"
#include "engine/runtime/binding.h"
#include "engine/runtime/cancellation.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/lane.h"
#include "engine/runtime/program.h"

namespace gluond {

class Execution final : public AsyncOwner, public Cancellation::Listener, public std::enable_shared_from_this<Execution> {
 public:
  Execution(std::unique_ptr<Program> program, const ExecutorOptions& options, Lane& lane, Allocator& allocator);

  // Pays for what stays of compiling, and no more for what it alone took; then prepares the kernels. Errors as Program::Prepare's.
  // RESOURCE_EXHAUSTED: others have taken what was refunded.
  absl::Status EndCompiling(const ExecutorOptions& options);

  const Program& program() const { return *program_; }
  Run& run() { return run_; }
  Binding& binding() { return binding_; }

  // See Executor.
  void Start(Run run, Executor::Done done);
  void StartHere(Run run, Executor::Done done);
  bool idle() const;
  Run TakeRun();
  PausedRun TakePaused(std::vector<Tensor>* outputs);
  absl::StatusOr<PausedRun> Copy(const PausedRun& paused);
  absl::Status Ready(PausedRun paused, Run rest);
  void Continue(Executor::Done done);
  ~Execution() override { LetGoOfArena(); }

  void OnComplete() override { resume_.Post(); }
  void OnCancel() override { stop_.Post(); }

 private:
  // An event for the lane, posted from any thread; at most once in the queue.
  class Event final : public Work {
   public:
    Event(Execution* execution, void (Execution::*handler)()) : execution_(execution), handler_(handler) {}
    void Post();
    void Do() override;

   private:
    Execution* const execution_;
    void (Execution::*const handler_)();
    std::atomic<bool> posted_ = false;
    std::shared_ptr<Execution> keep_;  // While posted.
  };

  // Takes over the run, or refuses it: then `done` is told, in place of this run's.
  bool Accept(Run& run, Executor::Done& done);
  void Begin();
  // Puts the run's memory where the part uses it.
  absl::Status BindPart(const Program::Part& part, const std::shared_ptr<Buffer>& arena);
  // Computes the part that is bound.
  void BeginPart();
  absl::Status CheckLayout(const PausedRun& paused) const;
  void Resume();
  void Stop();
  // Runs steps until the end, an error, or a call that has not completed.
  void Advance();
  // True: the call has succeeded. False: the run is suspended.
  absl::StatusOr<bool> DoAsync(uint32_t step);
  // The run ends without the call, and the client that computes it hears of that. False: it has completed already.
  bool Abandon(AsyncCall& call);
  // Ends that call with `status` or, where that is OK, with the call's own.
  absl::Status EndAsync(std::shared_ptr<AsyncCall> call, absl::Status status);
  absl::Status Compute(const Step& step);
  // The chain that begins with the step, if this run may compute it by rows; or null.
  RowChain* ChainAt(uint32_t step);
  // Copies the inputs that an async step mutates, for the operator or, with `back`, from it.
  absl::Status CopyStaged(const Step& step, bool back);
  // While kernels of the run may read what is kept of its constants.
  void Pin(bool pin);
  // Makes the run wait for `call`. False: it is cancelled already.
  bool Suspend(const std::shared_ptr<AsyncCall>& call);
  std::shared_ptr<AsyncCall> Unsuspend();
  // `status` with the step's node in front.
  absl::Status At(uint32_t step, const absl::Status& status) const;
  // The part of the run that goes on has been computed.
  void EndPart();
  void Pause();
  void Finish(absl::Status status);
  // Finds out in which order the part makes its outputs, if the caller wants to be told.
  void ExpectOutputs();
  // Tells the caller of the outputs that the steps as far as `step` have made; kNever: of all.
  void TellOutputs(uint32_t step);
  void EndRun();
  void LetGoOfArena();

  const std::unique_ptr<Program> program_;
  Lane& lane_;
  Binding binding_;
  OpContext context_;
  std::vector<AsyncCalls> calls_;         // By step; empty when none is async.
  std::shared_ptr<ClientTime> own_time_;  // Names the run to CustomHost where the caller gives none.

  std::atomic<bool> running_ = false;
  std::shared_ptr<Execution> self_;  // While running.
  AccountPtr account_;               // The run's.
  Run run_;
  std::shared_ptr<Buffer> arena_;  // The run's; to be given back.
  std::shared_ptr<Buffer> held_;   // A run's that had paused.
  bool pinned_ = false;            // The run's constants are.
  Executor::Done done_;
  Program::Part part_;                                   // Which part of the run goes on.
  std::vector<std::pair<uint32_t, uint32_t>> expected_;  // The part's outputs that the caller has to be told of, the next one
                                                         // last, each after the step behind which it is final.
  uint32_t next_ = 0;                                    // The next step.
  std::shared_ptr<AsyncCall> suspended_;                 // The call that the run waits for.
  std::shared_ptr<AsyncCall> left_;  // The call that failed the last run: while in use, it has the run's memory.

  Event begin_{this, &Execution::Begin};
  Event resume_{this, &Execution::Resume};
  Event stop_{this, &Execution::Stop};
  Event deadline_{this, &Execution::Stop};
};

}  // namespace gluond

#endif  // ENGINE_RUNTIME_EXECUTION_H_
