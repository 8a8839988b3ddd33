#include "server/session/program.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/pending_fact.h"
#include "engine/core/status_macros.h"
#include "engine/imperative/imperative.h"
#include "engine/nn/initializer.h"
#include "engine/nn/model.h"
#include "engine/runtime/cancellation_scope.h"
#include "engine/runtime/transfer.h"
#include "google/protobuf/unknown_field_set.h"
#include "server/codec/components.h"
#include "server/codec/describe_operator.h"
#include "server/codec/tensor_codec.h"
#include "server/hosted/graph_memory.h"
#include "server/session/answers.h"
#include "server/session/arrays.h"
#include "server/session/calls.h"
#include "server/session/exchange.h"
#include "server/session/gradients.h"
#include "server/session/layers.h"
#include "server/session/optimizers.h"
#include "server/start/protocol.h"

namespace gluond::server {
namespace {

// Roughly the bytes that an array takes beside its values, and those that a recorded call takes.
constexpr int64_t kArrayBytes = 512;
constexpr int64_t kTapeBytes = 1024;
// About the bytes that compiling takes for each node of a gradient, with its part of the graph that is differentiated.
constexpr int64_t kCompilingBytes = 2048;

// Elements of an array that take long to make, and recorded calls that take long to walk.
constexpr int64_t kLargeArray = 1 << 18;
constexpr int64_t kLongTape = 1 << 12;

// Names in one command: more would take memory that no budget counts, and hold the lane for too long.
constexpr int kMostNames = 1 << 16;
constexpr int kMostFreed = 1 << 20;
static_assert(kMostNames <= static_cast<int>(kMostInputs));

template <class... Lists>
int Longest(const Lists&... lists) {
  return std::max({static_cast<int>(lists.size())...});
}

bool IsLargeArray(const v1::Tensor& tensor) {
  const absl::StatusOr<Shape> shape = ShapeFromProto(tensor.shape(), /*known=*/true);
  return shape.ok() && shape->Size() > kLargeArray;
}

class ArrayProgram final : public SessionProgram, public std::enable_shared_from_this<ArrayProgram> {
 public:
  // kSilent: no Reply has the command's number. kWhereAsked: one has, where Backward has `out_grads` or Fresh has `tell`.
  // kAnswered: one has the number. kAudited: the audit log has a line, too.
  enum Report { kSilent, kWhereAsked, kAnswered, kAudited };

  // A row of kKinds: everything that depends on the kind of a command. A new command is one row more.
  struct Kind {
    v1::Command::CommandCase number;
    Report report = kSilent;
    int most_names = kMostNames;
    int (*names)(const v1::Command& command) = nullptr;  // Counts the names; null: there are none.
    bool (*takes_long)(const ArrayProgram& program, const v1::Command& command) = nullptr;  // As TakesLong; null: never.
    void (*run)(ArrayProgram& program, const v1::Command& command, const Attachments& attachments);
  };
  static const Kind& KindOf(const v1::Command& command);

  ArrayProgram(const Shared& shared, Place& home, Lane& lane, const Limits& limits, Answer answer)
      : shared_(shared),
        devices_(shared.devices),
        limits_(limits),
        custom_host_(shared.custom_host != nullptr ? shared.custom_host : devices_.custom_host()),
        answers_(std::make_shared<SessionAnswers>(limits.max_message_bytes, std::move(answer))),
        budget_(Budget::PartOf(devices_.memory())),
        memory_(budget_),
        max_nodes_(limits.max_graph_nodes),
        calls_(limits, budget_, [this](int64_t nodes) { return PayForNodes(nodes); }) {
    broken_ = Open(home, lane, limits);
  }

  bool TakesLong(const v1::Command& command) const override {
    const Kind& kind = KindOf(command);
    return kind.takes_long != nullptr && kind.takes_long(*this, command);
  }

  void Execute(uint64_t number, const v1::Command& command, const Attachments& attachments) override {
    const ScopedCustomHost host(custom_host_, shared_.host);
    number_ = number;
    const Kind& kind = KindOf(command);
    absl::Status status = broken_;
    if (const int names = kind.names == nullptr ? 0 : kind.names(command); status.ok() && names > kind.most_names) {
      status = Invalid("the command names ", names, " things, more than ", kind.most_names, "; send several commands");
    }
    if (status.ok() && !command.has_free()) status = PayForObjects();
    if (status.ok() && kind.report == kAudited && shared_.check_audit != nullptr) status = shared_.check_audit();
    if (status.ok()) return kind.run(*this, command, attachments);
    IsAnswered(command) ? answers_->Fail(status, number) : Note(status);
  }

  int64_t pending() const override {
    return exchange_ == nullptr ? 0 : imperative_->scheduler().pending() + inferring_ + exchange_->pending();
  }

  Budgets budgets() const override { return budgets_; }

  ~ArrayProgram() override {
    answers_->End();
    if (imperative_.has_value()) imperative_->scheduler().Cancel();
    exchange_.reset();
    optimizers_.reset();
    gradients_.reset();
    arrays_.reset();
    (void)memory_.Cover(0);
  }

 private:
  using Names = SessionArrays::Names;

  static const Kind kKinds[];

  // The session's memory on each device is charged to a budget of its own.
  absl::Status Open(Place& home, Lane& lane, const Limits& limits) {
    std::vector<Place*> places = {&home};
    for (Place* place : devices_.offered())
      if (place != &home) places.push_back(place);
    if (!absl::c_linear_search(places, &devices_.host())) places.push_back(&devices_.host());
    std::vector<Scheduler::Place> own;
    std::shared_ptr<Allocator> host_memory;
    for (Place* place : places) {
      auto budget =
          std::make_shared<Budget>("the session", limits.max_session_bytes, "--max_session_bytes", Budget::PartOf(place->budget));
      budgets_.emplace_back(place->device, budget);
      ASSIGN_OR_RETURN(std::shared_ptr<Allocator> allocator, DeviceAllocator::Create(place->device, std::move(budget)));
      if (place == &devices_.host()) host_memory = allocator;
      if (place != &home) lanes_.push_back(place->lanes->Take());
      own.push_back({place->device, place == &home ? &lane : lanes_.back().get(), std::move(allocator)});
    }
    budgets_.emplace_back(devices_.host().device, budget_);
    const auto on_failure = [weak = std::weak_ptr(answers_)](const FailurePtr& failure) {
      if (const auto answers = weak.lock()) answers->Remember(failure);
    };
    imperative_.emplace(Scheduler::Create(std::move(own), on_failure), limits.max_session_arrays);
    arrays_.emplace(*imperative_, limits.max_session_arrays);
    gradients_.emplace(*imperative_, *arrays_, *answers_);
    optimizers_.emplace(*imperative_, *arrays_, *answers_, limits_, [this](int64_t nodes) { return PayForNodes(nodes); });
    exchange_ = std::make_shared<SessionExchange>(SessionExchange::Session{shared_, home, limits, budget_, std::move(host_memory),
                                                                           *imperative_, *arrays_, calls_, *answers_});
    return absl::OkStatus();
  }

  // Failures.

  void Note(const absl::Status& status) { answers_->Note(status, number_); }
  Array Poisoned(const absl::Status& status) {
    if (shared_failure_.first != number_) shared_failure_ = {number_, imperative_->scheduler().Failed(status, number_)};
    return {shared_failure_.second, {}, nullptr};
  }
  // A command without content. A client of a newer protocol may wait for the answer, which says what to do.
  void RefuseUnknown(const v1::Command& command) {
    const google::protobuf::UnknownFieldSet& unknown = command.GetReflection()->GetUnknownFields(command);
    if (unknown.empty()) {
      return Note(Invalid("command ", number_, " is without content; is the client's proto another one?"));
    }
    const std::string number = absl::StrCat(number_), field = absl::StrCat(unknown.field(0).number());
    answers_->Fail(
        WithInfo(absl::UnimplementedError(absl::StrCat("command ", number, " is of a kind, field ", field,
                                                       " of Command, that this server does not know: it is gluond ", kVersion,
                                                       " and speaks protocol ", kProtocol, "; use a newer server, or do without")),
                 reason::kUnknownCommand, {{"number", number}, {"field", field}, {"protocol", absl::StrCat(kProtocol)}}),
        number_);
  }
  void Set(uint64_t name, absl::StatusOr<Array> array) {
    arrays_->Set(name, array.ok() ? *std::move(array) : Poisoned(array.status()), number_);
  }
  // An error of a call is that of its outputs.
  void Poison(const Names& names, const absl::Status& status) {
    if (status.ok()) return;
    if (names.empty()) return Note(status);
    for (const uint64_t name : names) Set(name, status);
  }

  // Arrays, however small, calls and the tape take memory that no tensor's budget counts.
  absl::Status PayForObjects() {
    return Pay([this] {
      const int64_t nodes = imperative_->tape().size() + imperative_->planned();
      return memory_.Cover(kArrayBytes * arrays_->size() + kTapeBytes * nodes + calls_.bytes() + optimizers_->bytes());
    });
  }

  // The nodes of a graph's gradients, and of an optimizer's update, stay while anything has them: what is kept for the next time, the tape, or an executor.
  absl::StatusOr<std::shared_ptr<const void>> PayForNodes(int64_t nodes) {
    const auto paid = std::make_shared<Reservation>(budget_);
    RETURN_IF_ERROR(Pay([&] { return paid->Grow(kNodeBytes * nodes); }));
    // The graph is compiled next, beside the lane, where nothing of this can be let go of. Where there is no room, compiling says so.
    Reservation compiling(budget_);
    Pay([&] { return compiling.Grow(kCompilingBytes * nodes); }).IgnoreError();
    return paid;
  }

  // Charges, if need be after letting go of what is kept only for the next time.
  template <class Charge>
  absl::Status Pay(Charge charge) {
    absl::Status paid = charge();
    if (paid.ok()) return paid;
    imperative_->ForgetPlans();
    calls_.ForgetGradients();
    imperative_->scheduler().ForgetExecutors();
    return charge();
  }

  // Calls.

  bool HasLarge(const Names& graphs) const {
    return std::any_of(graphs.begin(), graphs.end(), [this](uint64_t graph) { return calls_.IsLarge(graph); });
  }

  // The device of that name; empty: the session's own.
  absl::StatusOr<Device> DeviceOf(const std::string& name) const {
    if (name.empty()) return imperative_->scheduler().home().device;
    ASSIGN_OR_RETURN(const Place* const place, devices_.Find(name));
    return place->device;
  }

  Imperative::Options OptionsOf(bool recording, bool training) const {
    return {.recording = recording, .training = training, .device = imperative_->scheduler().home().device, .command = number_};
  }

  absl::Status Invoke(const v1::Command::Invoke& invoke) {
    bool is_stale = false;
    if (invoke.when_fresh() != 0) {
      ASSIGN_OR_RETURN(const Array* const array, arrays_->Find(invoke.when_fresh()));
      is_stale = array->mark == nullptr || !array->mark->fresh;
    }
    ASSIGN_OR_RETURN(const PreparedOpPtr call, calls_.Find(invoke.call(), static_cast<size_t>(invoke.inputs_size())));
    Imperative::Options options = OptionsOf(invoke.recording(), invoke.training());
    ASSIGN_OR_RETURN(options.device, DeviceOf(invoke.device()));
    const auto run = [&](std::vector<Array> inputs) { return imperative_->Invoke(call, std::move(inputs), options); };
    return Run(invoke.inputs(), invoke.outputs(), call->facts(), options.recording, run, is_stale);
  }

  absl::Status RunGraph(const v1::Command::RunGraph& run) {
    ASSIGN_OR_RETURN(const std::shared_ptr<CachedGraph> graph, calls_.FindGraph(run.graph()));
    if (static_cast<size_t>(run.inputs_size()) != graph->inputs().size()) {
      return Invalid("the graph has ", graph->inputs().size(), " inputs, got ", run.inputs_size());
    }
    return Run(run.inputs(), run.outputs(), graph->plain()->facts(), run.recording(), [&](std::vector<Array> inputs) {
      return imperative_->InvokeGraph(*graph, std::move(inputs), OptionsOf(run.recording(), run.training()));
    });
  }

  // Arrays that are there stay as they are with `only_new`.
  template <class Call>
  absl::Status Run(const Names& inputs, const Names& outputs, const OpFacts& facts, bool recording, Call call,
                   bool only_new = false) {
    if (static_cast<uint32_t>(outputs.size()) > facts.num_visible) {
      return Invalid("the call has ", facts.num_visible, " outputs, got ", outputs.size(), " names for them");
    }
    // Most names are new.
    before_.clear();
    bool replaces = false, makes = false;
    for (const uint64_t name : outputs) {
      before_.push_back(arrays_->BeforeCall(name));
      (before_.back().is_new ? makes : replaces) = true;
    }
    if (only_new && !makes) return absl::OkStatus();
    static const std::vector<uint32_t> kNothing;  // An input that is not moved out is copied where the call writes it.
    ASSIGN_OR_RETURN(std::vector<Array> arrays, arrays_->Take(inputs, replaces && !only_new ? outputs : kNone,
                                                              only_new ? kNothing : facts.mutated, recording));
    Imperative::Results results = call(std::move(arrays));
    // A call's values become known together, those that it has written last.
    if (!results.outputs.empty()) answers_->Watch(results.outputs.back().value);
    if (!results.written.empty()) answers_->Watch(results.written.back().second);
    for (auto& [i, value] : results.written) {
      if (only_new) continue;
      arrays_->Set(inputs[static_cast<int>(i)], {std::move(value), {}, nullptr}, number_);
    }
    for (int i = 0; i < outputs.size(); ++i) {
      if (only_new && !before_[static_cast<size_t>(i)].is_new) continue;
      arrays_->Replace(outputs[i], before_[static_cast<size_t>(i)], std::move(results.outputs[static_cast<size_t>(i)]), number_);
    }
    return absl::OkStatus();
  }

  // Arrays.

  void Put(const v1::Command::Put& put, const Attachments& attachments) {
    if (put.array() == 0) return Note(absl::InvalidArgumentError("Put.array is 0; name it by another number"));
    Set(put.array(), Received(put, attachments));
  }

  // The array lies in memory of the session's own, since it will be written, and since a small array is not to keep a
  // large message.
  absl::StatusOr<Array> Received(const v1::Command::Put& put, const Attachments& attachments) {
    ASSIGN_OR_RETURN(const Device device, DeviceOf(put.device()));
    const Scheduler::Place& host = *imperative_->scheduler().Find(Device());
    ASSIGN_OR_RETURN(Tensor tensor, DecodeTensor(put.tensor(), attachments, *host.allocator));
    if (attachments.Find(put.tensor().raw()) != nullptr) {
      ASSIGN_OR_RETURN(tensor, gluond::CopyTo(tensor, host.lane->lanes(), *host.allocator));
    }
    return CopyTo({std::make_shared<Value>(std::move(tensor)), {}, nullptr}, device, /*recording=*/false);
  }

  Array CopyTo(Array array, Device device, bool recording) {
    Array copy = imperative_->CopyTo(std::move(array), device, OptionsOf(recording, false));
    answers_->Watch(copy.value);
    return copy;
  }

  void Initialize(const v1::Command::Initialize& initialize) {
    const auto fallback = [&]() -> absl::StatusOr<Spec> {
      ASSIGN_OR_RETURN(const Spec spec, SpecFromProto(initialize.initializer(), Initializers()));
      return spec.type.empty() ? InitializeOptions().initializer : spec;
    }();
    const absl::StatusOr<Device> device = DeviceOf(initialize.device());
    for (const v1::Command::Initialize::Target& target : initialize.targets()) {
      if (target.array() == 0) {
        Note(absl::InvalidArgumentError("Initialize names array 0; name it by another number"));
        continue;
      }
      Set(target.array(), [&]() -> absl::StatusOr<Array> {
        RETURN_IF_ERROR(fallback.status());
        RETURN_IF_ERROR(device.status());
        ASSIGN_OR_RETURN(Tensor value, InitialValue(target.variable(), *fallback, imperative_->random().seed,
                                                    *imperative_->scheduler().Find(Device())->allocator));
        return CopyTo({std::make_shared<Value>(std::move(value)), {}, nullptr}, *device, /*recording=*/false);
      }());
    }
  }

  void Assign(const v1::Command::Assign& assign) {
    if (assign.to() == 0) return Note(absl::InvalidArgumentError("Assign.to is 0; name it by another number"));
    Set(assign.to(), Assigned(assign));
  }

  absl::StatusOr<Array> Assigned(const v1::Command::Assign& assign) {
    ASSIGN_OR_RETURN(Array* const from, arrays_->Find(assign.from()));
    if (assign.recording()) imperative_->tape().Put(from);
    Array array = *from;
    array.mark = nullptr;
    if (!assign.recording()) array.entry = {};
    if (assign.device().empty()) return array;
    ASSIGN_OR_RETURN(const Place* const place, devices_.Find(assign.device()));
    return CopyTo(std::move(array), place->device, assign.recording());
  }

  void Free(const v1::Command::Free& free) {
    for (const uint64_t name : free.arrays()) arrays_->Erase(name);
    calls_.Free(free);
    optimizers_->Free(free);
    imperative_->scheduler().DropConstants();  // A freed parameter's memory is free now.
  }

  // Answers.

  void Fetch(const v1::Command::Fetch& fetch) {
    std::optional<ElementRange> range;
    if (fetch.has_end() || fetch.begin() != 0) range = {fetch.begin(), fetch.end()};
    SessionAnswers::Wanted wanted;
    for (const uint64_t name : fetch.arrays()) {
      const absl::StatusOr<Array*> array = arrays_->Find(name);
      wanted.Add(name, array.ok() ? CopyTo({(*array)->value, {}, nullptr}, Device(), /*recording=*/false).value
                                  : Poisoned(array.status()).value);
    }
    answers_->Values(std::move(wanted), range, number_);
  }

  void Describe(const v1::Command::Describe& describe) {
    SessionAnswers::Wanted wanted;
    std::vector<uint64_t> gradients;
    for (const uint64_t name : describe.arrays()) {
      const absl::StatusOr<Array*> array = arrays_->Find(name);
      wanted.Add(name, array.ok() ? (*array)->value : Poisoned(array.status()).value);
      gradients.push_back(array.ok() && (*array)->mark != nullptr ? (*array)->mark->gradient : 0);
    }
    answers_->Types(std::move(wanted), std::move(gradients), number_);
  }

  void InferGraph(const v1::Command::InferGraph& infer) {
    const absl::StatusOr<std::shared_ptr<CachedGraph>> graph = calls_.FindGraph(infer.graph());
    if (!graph.ok()) return answers_->Fail(graph.status(), number_);
    InferGraph(number_, *graph, std::make_shared<v1::Command::InferGraph>(infer));
  }

  // A rule may have to ask a client first.
  void InferGraph(uint64_t number, std::shared_ptr<CachedGraph> graph, std::shared_ptr<const v1::Command::InferGraph> infer) {
    absl::StatusOr<v1::GraphType> type = [&] {
      const CancellationScope scope(shared_.cancellation.get());  // A later call's, too.
      return server::InferGraph(*graph, *infer, budget_);
    }();
    const auto again = [weak = weak_from_this(), number, graph, infer, lane = imperative_->scheduler().home().lane] {
      lane->Post([weak, number, graph, infer, lane] {
        lane->ContinueAside([weak, number, graph, infer] {
          const auto program = weak.lock();
          if (program == nullptr || program->answers_->ended()) return;
          --program->inferring_;
          program->InferGraph(number, graph, infer);
        });
      });
    };
    ++inferring_;
    if (AwaitFact(type.status(), again)) return;
    --inferring_;
    answers_->Result(std::move(type), &v1::Reply::mutable_graph, number);
  }

  // Gradients.

  void Fresh(const v1::Command::Fresh& fresh) {
    absl::StatusOr<v1::Freshness> told = gradients_->Fresh(fresh);
    fresh.tell() ? answers_->Result(std::move(told), &v1::Reply::mutable_fresh, number_) : Note(told.status());
  }
  void Backward(const v1::Command::Backward& backward) {
    absl::StatusOr<v1::BackwardState> state = gradients_->Backward(backward, number_);
    if (backward.out_grads_size() > 0) return answers_->Result(std::move(state), &v1::Reply::mutable_backward, number_);
    Poison(backward.outputs(), state.status());
  }

  static const Names kNone;

  const Shared shared_;
  Devices& devices_;
  const Limits limits_;
  const CustomHostPtr custom_host_;
  Budgets budgets_;
  std::vector<std::shared_ptr<Lane>> lanes_;  // On other devices than home.
  const std::shared_ptr<SessionAnswers> answers_;
  absl::Status broken_;  // Each command has this error.
  std::optional<Imperative> imperative_;
  std::optional<SessionArrays> arrays_;
  std::optional<SessionGradients> gradients_;
  std::optional<SessionOptimizers> optimizers_;
  std::shared_ptr<SessionExchange> exchange_;
  const std::shared_ptr<Budget> budget_;  // The client's part of the budget of the process.
  Reservation memory_;
  const int64_t max_nodes_;
  SessionCalls calls_;

  int64_t inferring_ = 0;                         // Commands that wait for a client's rules.
  uint64_t number_ = 0;                           // The number of the command that is taken up.
  std::pair<uint64_t, ValuePtr> shared_failure_;  // The failure of that command.
  std::vector<SessionArrays::Before> before_;     // Used in Run alone.
};

const SessionArrays::Names ArrayProgram::kNone;

// A row's place is the command's number in the proto; row 0 is for commands without content, or with one that is unknown.
constexpr ArrayProgram::Kind ArrayProgram::kKinds[] = {
    {.number = v1::Command::COMMAND_NOT_SET, .run = [](auto& p, auto& c, auto&) { p.RefuseUnknown(c); }},
    {.number = v1::Command::kPrepare, .run = [](auto& p, auto& c, auto&) { p.Note(p.calls_.Prepare(c.prepare())); }},
    {.number = v1::Command::kInvoke,
     .names = [](auto& c) { return Longest(c.invoke().inputs(), c.invoke().outputs()); },
     .run = [](auto& p, auto& c, auto&) { p.Poison(c.invoke().outputs(), p.Invoke(c.invoke())); }},
    {.number = v1::Command::kPut,
     .takes_long = [](auto&, auto& c) { return IsLargeArray(c.put().tensor()); },
     .run = [](auto& p, auto& c, auto& attachments) { p.Put(c.put(), attachments); }},
    {.number = v1::Command::kFetch,
     .report = kAnswered,
     .names = [](auto& c) { return Longest(c.fetch().arrays()); },
     .run = [](auto& p, auto& c, auto&) { p.Fetch(c.fetch()); }},
    {.number = v1::Command::kDescribe,
     .report = kAnswered,
     .names = [](auto& c) { return Longest(c.describe().arrays()); },
     .run = [](auto& p, auto& c, auto&) { p.Describe(c.describe()); }},
    {.number = v1::Command::kFree,
     .most_names = kMostFreed,
     .names = [](auto& c) { return Longest(c.free().arrays(), c.free().calls(), c.free().graphs(), c.free().optimizers()); },
     .takes_long = [](auto& p, auto& c) { return p.HasLarge(c.free().graphs()); },
     .run = [](auto& p, auto& c, auto&) { p.Free(c.free()); }},
    {.number = v1::Command::kAssign, .run = [](auto& p, auto& c, auto&) { p.Assign(c.assign()); }},
    {.number = v1::Command::kMark,
     .names = [](auto& c) { return Longest(c.mark().arrays()); },
     .run = [](auto& p, auto& c, auto&) { p.Note(p.gradients_->Mark(c.mark(), p.number_)); }},
    {.number = v1::Command::kBackward,
     .report = kWhereAsked,
     .names =
         [](auto& c) {
           const auto& b = c.backward();
           return Longest(b.heads(), b.head_gradients(), b.variables(), b.outputs(), b.out_grads());
         },
     .takes_long = [](auto& p, auto&) { return p.imperative_.has_value() && p.imperative_->tape().size() > kLongTape; },
     .run = [](auto& p, auto& c, auto&) { p.Backward(c.backward()); }},
    {.number = v1::Command::kFresh,
     .report = kWhereAsked,
     .names = [](auto& c) { return Longest(c.fresh().variables()); },
     .run = [](auto& p, auto& c, auto&) { p.Fresh(c.fresh()); }},
    {.number = v1::Command::kDefineGraph,
     .takes_long =
         [](auto& p, auto& c) {
           const auto& define = c.define_graph();
           return define.definition().nodes_size() > SessionCalls::kLargeNodes || p.calls_.IsLarge(define.graph());
         },
     .run = [](auto& p, auto& c, auto&) { p.Note(p.calls_.Define(c.define_graph())); }},
    {.number = v1::Command::kRunGraph,
     .names = [](auto& c) { return Longest(c.run_graph().inputs(), c.run_graph().outputs()); },
     .takes_long = [](auto& p, auto& c) { return c.run_graph().recording() && p.calls_.IsLarge(c.run_graph().graph()); },
     .run = [](auto& p, auto& c, auto&) { p.Poison(c.run_graph().outputs(), p.RunGraph(c.run_graph())); }},
    {.number = v1::Command::kInferGraph,
     .report = kAnswered,
     .takes_long = [](auto& p, auto& c) { return p.calls_.IsLarge(c.infer_graph().graph()); },
     .run = [](auto& p, auto& c, auto&) { p.InferGraph(c.infer_graph()); }},
    {.number = v1::Command::kDescribeCall,
     .report = kAnswered,
     .run = [](auto& p, auto& c,
               auto&) { p.answers_->Result(DescribeCall(c.describe_call()), &v1::Reply::mutable_call, p.number_); }},
    {.number = v1::Command::kWaitAll, .report = kAnswered, .run = [](auto& p, auto&, auto&) { p.answers_->All(p.number_); }},
    {.number = v1::Command::kSeed, .run = [](auto& p, auto& c, auto&) { p.imperative_->Seed(c.seed().seed()); }},
    {.number = v1::Command::kContinueBackward,
     .report = kAnswered,
     .names = [](auto& c) { return Longest(c.continue_backward().gradients(), c.continue_backward().out_grads()); },
     .run =
         [](auto& p, auto& c, auto&) {
           p.answers_->Result(p.gradients_->Continue(c.continue_backward(), p.number_), &v1::Reply::mutable_backward, p.number_);
         }},
    {.number = v1::Command::kSaveAsModel,
     .report = kAudited,
     .names =
         [](auto& c) {
           const auto& save = c.save_as_model();
           return Longest(save.inputs(), save.parameters(), save.outputs(), save.states(), save.updates());
         },
     .run = [](auto& p, auto& c, auto&) { p.exchange_->SaveAsModel(c.save_as_model(), p.number_); }},
    {.number = v1::Command::kOpenModel,
     .report = kAudited,
     .names = [](auto& c) { return Longest(c.open_model().arrays()); },
     .run = [](auto& p, auto& c, auto&) { p.exchange_->OpenModel(c.open_model(), p.number_); }},
    {.number = v1::Command::kStoreToModel,
     .report = kAudited,
     .names = [](auto& c) { return Longest(c.store_to_model().arrays()); },
     .run = [](auto& p, auto& c, auto&) { p.exchange_->StoreToModel(c.store_to_model(), p.number_); }},
    {.number = v1::Command::kSaveSession,
     .report = kAudited,
     .names = [](auto& c) { return Longest(c.save_session().arrays()); },
     .run = [](auto& p, auto& c, auto&) { p.exchange_->SaveSession(c.save_session(), p.number_); }},
    {.number = v1::Command::kOpenSaved,
     .report = kAudited,
     .names = [](auto& c) { return Longest(c.open_saved().arrays()); },
     .run = [](auto& p, auto& c, auto&) { p.exchange_->OpenSaved(c.open_saved(), p.number_); }},
    {.number = v1::Command::kDefineOptimizer,
     .names = [](auto& c) { return Longest(c.define_optimizer().weights()); },
     .run = [](auto& p, auto& c, auto&) { p.Note(p.optimizers_->Define(c.define_optimizer())); }},
    {.number = v1::Command::kStepOptimizer,
     .names = [](auto& c) { return Longest(c.step_optimizer().gradients(), c.step_optimizer().weights()); },
     .takes_long = [](auto& p,
                      auto& c) { return p.optimizers_.has_value() && p.optimizers_->IsLong(c.step_optimizer().optimizer()); },
     .run = [](auto& p, auto& c, auto&) { p.Note(p.optimizers_->Step(c.step_optimizer(), p.number_)); }},
    {.number = v1::Command::kExpand,
     .report = kAnswered,
     .takes_long = [](auto&, auto&) { return true; },
     .run = [](auto& p, auto& c, auto&) { p.answers_->Result(Expand(c, p.max_nodes_), &v1::Reply::mutable_expansion, p.number_); }},
    {.number = v1::Command::kInitialize,
     .names = [](auto& c) { return Longest(c.initialize().targets()); },
     .takes_long = [](auto&, auto& c) { return server::TakesLong(c); },
     .run = [](auto& p, auto& c, auto&) { p.Initialize(c.initialize()); }},
};

const ArrayProgram::Kind& ArrayProgram::KindOf(const v1::Command& command) {
  static_assert([] {
    for (size_t i = 0; i < std::size(kKinds); ++i) {
      if (kKinds[i].number != static_cast<int>(i)) return false;
    }
    return true;
  }());
  const auto number = static_cast<size_t>(command.command_case());
  return kKinds[number < std::size(kKinds) ? number : 0];
}

}  // namespace

bool SessionProgram::IsAnswered(const v1::Command& command) {
  const ArrayProgram::Report report = ArrayProgram::KindOf(command).report;
  return report == ArrayProgram::kWhereAsked ? command.backward().out_grads_size() > 0 || command.fresh().tell()
                                             : report >= ArrayProgram::kAnswered;
}

std::shared_ptr<SessionProgram> SessionProgram::Create(const Shared& shared, Place& home, Lane& lane, const Limits& limits,
                                                       Answer answer) {
  return std::make_shared<ArrayProgram>(shared, home, lane, limits, std::move(answer));
}

}  // namespace gluond::server
