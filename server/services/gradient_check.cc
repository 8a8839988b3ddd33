#include "server/services/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/core/convert.h"
#include "engine/core/op.h"
#include "engine/core/op_facts.h"
#include "engine/core/status_macros.h"
#include "engine/nn/node_spec.h"
#include "engine/passes/gradient.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/random_stream.h"
#include "engine/runtime/task.h"

namespace gluond::server {
namespace {

// The operator is run twice for each element of its inputs, and all of its outputs are summed each time.
constexpr int64_t kMostInputElements = 10'000, kMostOutputElements = 1'000'000;
using Response = absl::StatusOr<v1::CheckGradientResponse>;

absl::Status CheckElements(const char* what, int64_t elements, int64_t most) {
  if (elements <= most) return absl::OkStatus();
  return Invalid(what, " have ", elements, " elements; want at most ", most, ": check a smaller case");
}

// A copy in float64, or of the same type when that is not a floating one.
absl::StatusOr<Tensor> ToDouble(const Tensor& from, Allocator& allocator) {
  const DType type = IsFloating(from.dtype()) ? DType::kFloat64 : from.dtype();
  ASSIGN_OR_RETURN(Tensor to, Tensor::Empty(allocator, from.shape(), type));
  ConvertValues(from.data(), from.dtype(), to.data(), type, from.Size());
  return to;
}

// A graph of one application of an operator.
struct OneCall {
  Graph graph;  // The visible outputs.
  NodePtr node;
  std::vector<std::string> inputs;  // The variables that it reads, in the operator's order.
};

// NOT_FOUND: no such operator. INVALID_ARGUMENT: attributes, or the number of inputs.
absl::StatusOr<OneCall> MakeOneCall(const std::string& op_name, const AttrDict& attrs, size_t num_inputs) {
  ASSIGN_OR_RETURN(const Op* op, OfferedOp(op_name));
  NodeAttrs parsed;
  parsed.op = op;
  parsed.name = op_name;
  parsed.dict = attrs;
  RETURN_IF_ERROR(op->ParseAttrs(&parsed, num_inputs));
  const uint32_t want = op->num_inputs(parsed);
  if (want != kVarg && want != num_inputs) return Invalid("operator '", op_name, "' takes ", want, " inputs, got ", num_inputs);
  OneCall call;
  call.inputs = op->input_names(parsed, static_cast<uint32_t>(num_inputs));
  std::vector<NodeEntry> entries;
  for (const std::string& input : call.inputs) entries.push_back(MakeVariable(input));
  ASSIGN_OR_RETURN(call.node, TryMakeNode(op_name, op_name, std::move(entries), parsed.dict));
  for (uint32_t i = 0; i < call.node->facts().num_visible; ++i) call.graph.outputs.push_back({call.node, i});
  return call;
}

class GradientCheck {
 public:
  GradientCheck(Place& place, GradientCheckOptions options) : place_(place), options_(std::move(options)) {}

  // Runs the gradient once, then the operator twice for each element, each run started by the end of the one before.
  Task<Response> Run() {
    CO_RETURN_IF_ERROR(Prepare());
    CO_RETURN_IF_ERROR(co_await RunOn(*gradient_, gradient_->NewRun()));
    const std::vector<Tensor> gradients = gradient_->TakeRun().outputs;  // One for each differentiated input.
    v1::CheckGradientResponse response;
    response.set_passed(true);
    size_t differentiated = 0;
    for (const Input& input : inputs_) {
      if (!input.differentiated) continue;
      const double* const analytic = gradients[differentiated++].data<double>();
      for (int64_t i = 0; i < input.value.Size(); ++i) {
        double* const x = input.value.data<double>() + i;
        const double original = *x;
        *x = original + options_.epsilon;
        CO_ASSIGN_OR_RETURN(const double plus, co_await Evaluate());
        *x = original - options_.epsilon;
        CO_ASSIGN_OR_RETURN(const double minus, co_await Evaluate());
        *x = original;
        const double numeric = (plus - minus) / (2 * options_.epsilon);
        double error = std::fabs(analytic[i] - numeric) / std::max(1.0, std::fabs(numeric));
        if (std::isnan(error)) error = HUGE_VAL;
        if (error > options_.tolerance) response.set_passed(false);
        if (i == 0) response.add_inputs()->set_error(-1);
        auto& worst = *response.mutable_inputs(response.inputs_size() - 1);
        if (error <= worst.error()) continue;
        worst.set_input(input.name);
        worst.set_element(i);
        worst.set_analytic(analytic[i]);
        worst.set_numeric(numeric);
        worst.set_error(error);
      }
    }
    co_return response;
  }

 private:
  struct Input {
    std::string name;
    Tensor value;
    bool differentiated = false;
  };

  absl::Status Prepare() {
    const double epsilon = options_.epsilon, tolerance = options_.tolerance;
    if (!(epsilon > 0 && epsilon < 1) || !(tolerance >= 0) || !std::isfinite(tolerance)) {
      return Invalid("want 0 < epsilon < 1 and a finite tolerance of 0 or more, got ", epsilon, " and ", tolerance);
    }
    ASSIGN_OR_RETURN(OneCall call, MakeOneCall(options_.op, options_.attrs, options_.inputs.size()));
    if (!call.node->op()->HasAttr("FGradient")) {
      return FailedPrecondition("operator '", options_.op, "' has no gradient");
    }
    RETURN_IF_ERROR(PrepareInputs(call));
    Signatures known;
    for (const Input& input : inputs_) known[input.name] = {input.value.shape(), input.value.dtype()};
    ASSIGN_OR_RETURN(forward_, Executor::Compile(call.graph, known, {.is_train = true}, *lane_, *place_.allocator));
    RETURN_IF_ERROR(PrepareHeads());
    std::vector<NodeEntry> xs, heads;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (inputs_[i].differentiated) xs.push_back(call.node->inputs[i]);
    }
    for (size_t i = 0; i < heads_.size(); ++i) {
      heads.push_back(MakeVariable(HeadName(i)));
      known[HeadName(i)] = {heads_[i].shape(), heads_[i].dtype()};
    }
    ASSIGN_OR_RETURN(Gradients gradients, BuildGradient(call.graph.outputs, xs, heads));
    ASSIGN_OR_RETURN(gradient_, Executor::Compile(Graph{gradients}, known, {.is_train = true}, *lane_, *place_.allocator));
    return absl::OkStatus();
  }

  absl::Status PrepareInputs(const OneCall& call) {
    int64_t elements = 0;
    for (const Tensor& input : options_.inputs) elements += input.Size();
    RETURN_IF_ERROR(CheckElements("the inputs", elements, kMostInputElements));
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      ASSIGN_OR_RETURN(Tensor value, ToDouble(options_.inputs[i], *place_.allocator));
      inputs_.push_back({call.inputs[i], value, value.dtype() == DType::kFloat64});
    }
    return absl::OkStatus();
  }

  // Unequal head gradients, since with equal ones many a wrong gradient passes.
  absl::Status PrepareHeads() {
    int64_t elements = 0;
    for (const Signature& output : forward_->outputs()) elements += output.shape.Size();
    RETURN_IF_ERROR(CheckElements("the outputs", elements, kMostOutputElements));
    const Philox random = RandomStream(options_.seed, RandomDomain::kTensor, 1);
    uint64_t at = 0;
    for (const Signature& output : forward_->outputs()) {
      if (output.dtype != DType::kFloat64) {
        return FailedPrecondition("operator '", options_.op, "' does not give float64");
      }
      ASSIGN_OR_RETURN(Tensor head, Tensor::Empty(*place_.allocator, output.shape, DType::kFloat64));
      for (int64_t i = 0; i < head.Size(); ++i) head.data<double>()[i] = 2 * Philox::ToUniform(random.Word(at++)) - 1;
      heads_.push_back(std::move(head));
    }
    return absl::OkStatus();
  }

  static std::string HeadName(size_t i) { return absl::StrCat("dy:", i); }

  Callback<absl::Status> RunOn(Executor& executor, gluond::Run run) const {
    for (const Input& input : inputs_) {
      if (const int at = executor.input_index(input.name); at >= 0) run.inputs[at] = input.value;
    }
    for (size_t i = 0; i < heads_.size(); ++i) {
      if (const int at = executor.input_index(HeadName(i)); at >= 0) run.inputs[at] = heads_[i];
    }
    run.seed = options_.seed;
    run.cancellation = options_.cancellation;
    return Callback<absl::Status>(
        [&executor, run = std::move(run)](auto done) mutable { executor.Start(std::move(run), std::move(done)); });
  }

  // sum_i dy[i] y[i].
  Task<absl::StatusOr<double>> Evaluate() const {
    gluond::Run run = forward_->TakeRun();
    run.inputs.resize(forward_->inputs().size());
    run.outputs.assign(forward_->outputs().size(), Tensor());
    CO_RETURN_IF_ERROR(co_await RunOn(*forward_, std::move(run)));
    double sum = 0;
    for (size_t i = 0; i < heads_.size(); ++i) {
      const Tensor& y = forward_->run().outputs[i];
      for (int64_t j = 0; j < y.Size(); ++j) sum += y.data<double>()[j] * heads_[i].data<double>()[j];
    }
    co_return sum;
  }

  Place& place_;
  const std::shared_ptr<Lane> lane_ = place_.lanes->Take();
  const GradientCheckOptions options_;
  std::vector<Input> inputs_;
  std::vector<Tensor> heads_;
  std::unique_ptr<Executor> forward_;
  std::unique_ptr<Executor> gradient_;
};

}  // namespace

void StartGradientCheck(Place& place, GradientCheckOptions options, std::function<void(Response)> done) {
  const auto check = std::make_shared<GradientCheck>(place, std::move(options));
  RunTask<Response>([check] { return check->Run(); }, std::move(done));
}

}  // namespace gluond::server
