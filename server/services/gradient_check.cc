#include "server/services/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/core/convert.h"
#include "engine/core/op.h"
#include "engine/core/status_macros.h"
#include "engine/passes/gradient.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/random_stream.h"
#include "server/services/one_call.h"

namespace gluond::server {
namespace {

// The operator is run twice for each element of its inputs, and all of its outputs are summed each time.
constexpr int64_t kMostInputElements = 10'000, kMostOutputElements = 1'000'000;
using Done = std::function<void(absl::StatusOr<v1::CheckGradientResponse>)>;

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

// One check under way: runs the gradient once, then the operator twice for each element, each run started by the end of
// the one before. Owned by the callback of the run that goes on.
class Check : public std::enable_shared_from_this<Check> {
 public:
  Check(Place& place, GradientCheckOptions options, Done done)
      : place_(place), options_(std::move(options)), done_(std::move(done)) {}

  void Start() {
    if (absl::Status status = Prepare(); !status.ok()) return done_(status);
    Run run = gradient_->NewRun();
    Bind(*gradient_, &run);
    gradient_->Start(std::move(run), [self = shared_from_this()](absl::Status status) {
      if (!status.ok()) return self->done_(std::move(status));
      self->gradients_ = self->gradient_->TakeRun().outputs;
      self->input_ = 0;
      self->NextElement();
    });
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
      return absl::FailedPreconditionError(absl::StrCat("operator '", options_.op, "' has no gradient"));
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
        return absl::FailedPreconditionError(absl::StrCat("operator '", options_.op, "' does not give float64"));
      }
      ASSIGN_OR_RETURN(Tensor head, Tensor::Empty(*place_.allocator, output.shape, DType::kFloat64));
      for (int64_t i = 0; i < head.Size(); ++i) head.data<double>()[i] = 2 * Philox::ToUniform(random.Word(at++)) - 1;
      heads_.push_back(std::move(head));
    }
    return absl::OkStatus();
  }

  static std::string HeadName(size_t i) { return absl::StrCat("dy:", i); }

  void Bind(const Executor& executor, Run* run) {
    for (const Input& input : inputs_) {
      if (const int at = executor.input_index(input.name); at >= 0) run->inputs[at] = input.value;
    }
    for (size_t i = 0; i < heads_.size(); ++i) {
      if (const int at = executor.input_index(HeadName(i)); at >= 0) run->inputs[at] = heads_[i];
    }
    run->seed = options_.seed;
    run->cancellation = options_.cancellation;
  }

  // Goes to the next element that is to be checked, or ends.
  void NextElement() {
    while (input_ < inputs_.size() && (!inputs_[input_].differentiated || element_ >= inputs_[input_].value.Size())) {
      if (inputs_[input_].differentiated) ++gradient_index_;
      ++input_;
      element_ = 0;
    }
    if (input_ == inputs_.size()) return Finish();
    original_ = inputs_[input_].value.data<double>()[element_];
    Evaluate(original_ + options_.epsilon, [self = shared_from_this()](double plus) {
      self->Evaluate(self->original_ - self->options_.epsilon, [self, plus](double minus) { self->Compare(plus, minus); });
    });
  }

  // sum_i dy[i] y[i] with the current element at `x`.
  void Evaluate(double x, std::function<void(double)> then) {
    inputs_[input_].value.data<double>()[element_] = x;
    Run run = forward_->TakeRun();
    run.inputs.resize(forward_->inputs().size());
    run.outputs.assign(forward_->outputs().size(), Tensor());
    Bind(*forward_, &run);
    forward_->Start(std::move(run), [self = shared_from_this(), then = std::move(then)](absl::Status status) {
      if (!status.ok()) return self->done_(std::move(status));
      double sum = 0;
      for (size_t i = 0; i < self->heads_.size(); ++i) {
        const Tensor& y = self->forward_->run().outputs[i];
        for (int64_t j = 0; j < y.Size(); ++j) sum += y.data<double>()[j] * self->heads_[i].data<double>()[j];
      }
      then(sum);
    });
  }

  void Compare(double plus, double minus) {
    inputs_[input_].value.data<double>()[element_] = original_;
    const double numeric = (plus - minus) / (2 * options_.epsilon);
    const double analytic = gradients_[gradient_index_].data<double>()[element_];
    double error = std::fabs(analytic - numeric) / std::max(1.0, std::fabs(numeric));
    if (std::isnan(error)) error = HUGE_VAL;
    if (element_ == 0) response_.add_inputs()->set_error(-1);
    auto& worst = *response_.mutable_inputs(response_.inputs_size() - 1);
    if (error > worst.error()) {
      worst.set_input(inputs_[input_].name);
      worst.set_element(element_);
      worst.set_analytic(analytic);
      worst.set_numeric(numeric);
      worst.set_error(error);
    }
    ++element_;
    NextElement();
  }

  void Finish() {
    response_.set_passed(true);
    for (const auto& input : response_.inputs()) {
      if (input.error() > options_.tolerance) response_.set_passed(false);
    }
    done_(std::move(response_));
  }

  Place& place_;
  const std::shared_ptr<Lane> lane_ = place_.lanes->Take();
  const GradientCheckOptions options_;
  const Done done_;
  std::vector<Input> inputs_;
  std::vector<Tensor> heads_;
  std::unique_ptr<Executor> forward_;
  std::unique_ptr<Executor> gradient_;
  std::vector<Tensor> gradients_;  // One for each differentiated input.

  size_t input_ = 0;  // The element that is being checked.
  int64_t element_ = 0;
  size_t gradient_index_ = 0;
  double original_ = 0;
  v1::CheckGradientResponse response_;
};

}  // namespace

void StartGradientCheck(Place& place, GradientCheckOptions options, Done done) {
  std::make_shared<Check>(place, std::move(options), std::move(done))->Start();
}

}  // namespace gluond::server
