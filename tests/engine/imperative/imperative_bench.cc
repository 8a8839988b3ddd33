#include "tests/engine/imperative/imperative_bench.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "engine/core/elementwise.h"
#include "engine/core/op.h"

namespace gluond {
namespace {

constexpr Device kElsewhere = {DeviceType::kCpu, 1};

template <class T>
T OrDie(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "%s\n", value.status().ToString().c_str());
  std::abort();
}

GLUOND_REGISTER_OP(t_wait)
    .describe("See imperative_bench.h.")
    .set_num_inputs(1)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FInferType>("FInferType", ElemwiseType<1, 1>)
    .set_attr<FExecType>("FExecType", [](const NodeAttrs&) { return ExecType::kAsync; })
    .set_attr<FGradient>("FGradient",
                         [](const NodePtr&, const Gradients& dy) -> Gradients {
                           return {MakeNode("t_wait", "t_wait_backward", {dy[0]})};
                         })
    .set_attr<FCompute>("FCompute<cpu>", [](const NodeAttrs&, const OpContext& ctx, absl::Span<const TBlob> in,
                                            absl::Span<const OpReqType>, absl::Span<const TBlob> out) {
      WaitingCalls::Get().Add({in[0], out[0], ctx.on_complete});
      return absl::OkStatus();
    });

GLUOND_REGISTER_OP(t_no_gradient)
    .describe("See imperative_bench.h.")
    .set_num_inputs(1)
    .set_attr<FInferShape>("FInferShape", ElemwiseShape<1, 1>)
    .set_attr<FInferType>("FInferType", ElemwiseType<1, 1>)
    .set_attr<FCompute>("FCompute<cpu>", [](const NodeAttrs&, const OpContext&, absl::Span<const TBlob> in,
                                            absl::Span<const OpReqType>, absl::Span<const TBlob> out) {
      std::memcpy(out[0].data, in[0].data, in[0].bytes());
      return absl::OkStatus();
    });

}  // namespace

void WaitingCall::Complete() {
  for (int64_t i = 0; i < in.Size(); ++i) out.dptr<float>()[i] = 2 * in.dptr<float>()[i];
  std::exchange(completion, {})(absl::OkStatus());
}

WaitingCalls& WaitingCalls::Get() {
  static WaitingCalls& calls = *new WaitingCalls;
  return calls;
}

void WaitingCalls::Add(WaitingCall call) {
  std::lock_guard lock(mu_);
  calls_.push_back(std::move(call));
  added_.notify_all();
}

WaitingCall WaitingCalls::Next() {
  std::unique_lock lock(mu_);
  added_.wait(lock, [this] { return !calls_.empty(); });
  WaitingCall call = std::move(calls_.front());
  calls_.pop_front();
  return call;
}

bool WaitingCalls::empty() {
  std::lock_guard lock(mu_);
  return calls_.empty();
}

ImperativeBench::ImperativeBench(int64_t budget, int64_t most_nodes)
    : budget_(std::make_shared<Budget>("the test", budget, "--max_tensor_bytes")),
      allocator_(OrDie(DeviceAllocator::Create(Device(), budget_))),
      elsewhere_(OrDie(DeviceAllocator::Create(kElsewhere, budget_))),
      lane_(OrDie(Lane::Create(Device(), {.threads = 1}, *allocator_))),
      other_lane_(OrDie(Lane::Create(kElsewhere, {.threads = 1}, *elsewhere_))),
      scheduler_(Scheduler::Create({{Device(), lane_.get(), allocator_}, {kElsewhere, other_lane_.get(), elsewhere_}},
                                   [this](const FailurePtr& failure) { failures_.push_back(failure); })),
      imperative_(std::make_unique<Imperative>(scheduler_, most_nodes)) {}

ImperativeBench::~ImperativeBench() {
  OnLane([this] { scheduler_->Cancel(); });
  while (!WaitingCalls::Get().empty()) WaitingCalls::Get().Next();
  Settle();
  OnLane([this] { imperative_.reset(), scheduler_.reset(); });
}

void ImperativeBench::Settle() {
  while (OnLane([this] { return scheduler_->pending(); }) > 0) std::this_thread::yield();
}

Tensor ImperativeBench::TensorOf(const std::vector<float>& values, Shape shape, bool elsewhere) {
  if (!shape.rank_known()) shape = Shape{static_cast<int64_t>(values.size())};
  Tensor tensor = OrDie(Tensor::Empty(elsewhere ? *elsewhere_ : *allocator_, shape, DType::kFloat32));
  if (tensor.bytes() > 0) std::memcpy(tensor.data(), values.data(), tensor.bytes());
  return tensor;
}

Array ImperativeBench::Of(const std::vector<float>& values, Shape shape, bool elsewhere) {
  return {std::make_shared<Value>(TensorOf(values, shape, elsewhere)), {}, nullptr};
}

Array ImperativeBench::Marked(Array array, uint64_t gradient) {
  array.mark = std::make_shared<Mark>();
  array.mark->gradient = gradient;
  array.entry = {};
  OnLane([&] { imperative_->tape().Put(&array); });
  return array;
}

std::vector<Array> ImperativeBench::Outputs(const std::string& op, const AttrDict& attrs, std::vector<Array> inputs,
                                            std::vector<std::pair<uint32_t, ValuePtr>>* written) {
  return OnLane([&] {
    absl::StatusOr<PreparedOpPtr> call = PrepareOp(op, attrs, inputs.size());
    if (!call.ok()) {
      ADD_FAILURE() << call.status();
      return std::vector<Array>(1);
    }
    Imperative::Results results = imperative_->Invoke(*call, std::move(inputs), options);
    if (written != nullptr) *written = std::move(results.written);
    return std::move(results.outputs);
  });
}

std::vector<Array> ImperativeBench::Graph(CachedGraph& graph, std::vector<Array> inputs,
                                          std::vector<std::pair<uint32_t, ValuePtr>>* written) {
  return OnLane([&] {
    Imperative::Results results = imperative_->InvokeGraph(graph, std::move(inputs), options);
    if (written != nullptr) *written = std::move(results.written);
    return std::move(results.outputs);
  });
}

ImperativeBench::Gradients ImperativeBench::Differentiate(std::vector<Array> heads, std::vector<Array> variables,
                                                          std::vector<Array> head_gradients) {
  return OnLane([&] {
    Gradients gradients = imperative_->Backward(heads, head_gradients, variables, backward_options);
    heads.clear(), variables.clear(), head_gradients.clear();
    return gradients;
  });
}

std::vector<Array> ImperativeBench::Grad(std::vector<Array> heads, std::vector<Array> variables,
                                         std::vector<Array> head_gradients) {
  const size_t n = variables.size();
  Gradients gradients = Differentiate(std::move(heads), std::move(variables), std::move(head_gradients));
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  std::vector<Array> arrays;
  if (gradients.ok())
    for (Imperative::Gradient& one : *gradients) arrays.push_back(std::move(one.array));
  arrays.resize(n);
  return arrays;
}

std::map<uint64_t, Array> ImperativeBench::Backward(std::vector<Array> heads, std::vector<Array> head_gradients) {
  Gradients gradients = Differentiate(std::move(heads), {}, std::move(head_gradients));
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  std::map<uint64_t, Array> arrays;
  if (gradients.ok())
    for (Imperative::Gradient& one : *gradients) arrays[one.mark->gradient] = std::move(one.array);
  return arrays;
}

absl::Status ImperativeBench::BackwardStatus(std::vector<Array> heads, std::vector<Array> variables,
                                             std::vector<Array> head_gradients) {
  return Differentiate(std::move(heads), std::move(variables), std::move(head_gradients)).status();
}

void ImperativeBench::Await(const ValuePtr& value) {
  std::promise<void> known;
  OnLane([&] { WhenKnown({value}, [&known] { known.set_value(); }); });
  known.get_future().wait();
  OnLane([] {});  // What set it is through with it.
}

absl::Status ImperativeBench::Status(const ValuePtr& value) {
  if (value == nullptr) return absl::NotFoundError("no array");
  Await(value);
  return value->failure() == nullptr ? absl::OkStatus() : value->failure()->status;
}

std::vector<float> ImperativeBench::Values(const ValuePtr& value) {
  const absl::Status status = Status(value);
  EXPECT_TRUE(status.ok()) << status;
  if (!status.ok()) return {};
  const Tensor& tensor = value->tensor();
  EXPECT_EQ(tensor.dtype(), DType::kFloat32);
  return std::vector<float>(tensor.data<float>(), tensor.data<float>() + tensor.Size());
}

Shape ImperativeBench::ShapeOf(const Array& array) {
  EXPECT_TRUE(Status(array).ok());
  return array.value->tensor().shape();
}

const void* ImperativeBench::Address(const Array& array) {
  EXPECT_TRUE(Status(array).ok());
  return array.value->tensor().data();
}

}  // namespace gluond
