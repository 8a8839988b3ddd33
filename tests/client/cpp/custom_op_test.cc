// Custom operators of the C++ client against a real server.

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "client/cpp/custom/callbacks.h"
#include "gluond/gluond.h"
#include "gtest/gtest.h"

namespace gluond::client {
namespace {

using Floats = std::vector<float>;

class CustomOpTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("GLUOND_SERVER", "server/gluond-server", 0);
    session_ = new Session(Session::StartServer().value());
  }
  static void TearDownTestSuite() {
    delete session_;
    session_ = nullptr;
  }

  static Session* session_;
};

Session* CustomOpTest::session_ = nullptr;

// Computes with values: no command is sent.
struct Sigmoid : CustomOp {
  absl::Status Forward(const ForwardCall& call) override {
    Floats x = *call.in_data[0].Values<float>();
    for (float& each : x) each = 1 / (1 + std::exp(-each));
    Assign(call.out_data[0], call.req[0], NDArray::Of<float>(*call.in_data[0].shape(), x));
    return absl::OkStatus();
  }
  absl::Status Backward(const BackwardCall& call) override {
    const Floats y = *call.out_data[0].Values<float>(), dy = *call.out_grad[0].Values<float>();
    Floats dx(y.size());
    for (size_t i = 0; i < y.size(); ++i) dx[i] = dy[i] * y[i] * (1 - y[i]);
    Assign(call.in_grad[0], call.req[0], NDArray::Of<float>(*call.out_data[0].shape(), dx));
    return absl::OkStatus();
  }
};
struct SigmoidProp : CustomOpProp {
  std::unique_ptr<CustomOp> CreateOperator(const OperatorContext&) override { return std::make_unique<Sigmoid>(); }
};

// The same by operators on the server.
struct ServerSigmoid : CustomOp {
  absl::Status Forward(const ForwardCall& call) override {
    Assign(call.out_data[0], call.req[0], 1 / (1 + op::Exp(-call.in_data[0])));
    return absl::OkStatus();
  }
  absl::Status Backward(const BackwardCall& call) override {
    const NDArray& y = call.out_data[0];
    Assign(call.in_grad[0], call.req[0], call.out_grad[0] * y * (1 - y));
    return absl::OkStatus();
  }
};
struct ServerSigmoidProp : CustomOpProp {
  std::unique_ptr<CustomOp> CreateOperator(const OperatorContext&) override { return std::make_unique<ServerSigmoid>(); }
};

TEST_F(CustomOpTest, ForwardAndBackward) {
  ASSERT_TRUE(Register<SigmoidProp>("sigmoid_here").ok());
  ASSERT_TRUE(Register<ServerSigmoidProp>("sigmoid_there").ok());
  for (const char* name : {"sigmoid_here", "sigmoid_there"}) {
    NDArray x = NDArray::Of<float>({2, 2}, {-1, 0, 1, 2});
    x.AttachGrad();
    NDArray y;
    {
      const autograd::Record record;
      y = Custom({x}, name);
    }
    y.Backward(NDArray::Of<float>({2, 2}, {1, 2, 3, 4}));
    const Floats values = *y.Values<float>(), gradients = *x.grad().Values<float>();
    for (int i = 0; i < 4; ++i) {
      const double expected = 1 / (1 + std::exp(1 - i));
      EXPECT_NEAR(values[i], expected, 1e-6) << name;
      EXPECT_NEAR(gradients[i], (i + 1) * expected * (1 - expected), 1e-6) << name;
    }
  }
}

// y = x W' + b, with an attribute, shapes of its own, two outputs and a state that counts calls.
struct Affine : CustomOp {
  explicit Affine(float bias) : bias(bias) {}
  absl::Status Forward(const ForwardCall& call) override {
    const NDArray y = op::Dot(call.in_data[0], call.in_data[1].T()) + bias;
    Assign(call.out_data[0], call.req[0], y);
    Assign(call.out_data[1], call.req[1], y * 2);
    if (call.is_train) call.aux[0] += 1;
    return absl::OkStatus();
  }
  absl::Status Backward(const BackwardCall& call) override {
    const NDArray dy = call.out_grad[0] + call.out_grad[1] * 2;
    Assign(call.in_grad[0], call.req[0], op::Dot(dy, call.in_data[1]));
    Assign(call.in_grad[1], call.req[1], op::Dot(dy.T(), call.in_data[0]));
    return absl::OkStatus();
  }
  const float bias;
};
struct AffineProp : CustomOpProp {
  explicit AffineProp(const KeywordArguments& arguments) {
    const auto units_text = arguments.find("units");
    const auto bias_text = arguments.find("bias");
    if (units_text == arguments.end() || !absl::SimpleAtoi(units_text->second, &units)) {
      throw std::invalid_argument("affine wants units");
    }
    if (bias_text != arguments.end() && !absl::SimpleAtof(bias_text->second, &bias)) throw std::invalid_argument("bias");
  }
  std::vector<std::string> ListArguments() const override { return {"data", "weight"}; }
  std::vector<std::string> ListOutputs() const override { return {"y", "twice"}; }
  std::vector<std::string> ListAuxiliaryStates() const override { return {"calls"}; }
  absl::StatusOr<Shapes> InferShape(const std::vector<MaybeShape>& arguments) const override {
    if (!arguments[0].has_value()) return absl::InvalidArgumentError("the shape of data is wanted");
    const Shape& x = *arguments[0];
    return Shapes{{x, Shape{units, x[1]}}, {Shape{x[0], units}, Shape{x[0], units}}, {Shape{1}}};
  }
  std::vector<int> DeclareBackwardDependency(const std::vector<int>& out_grad, const std::vector<int>& in_data,
                                             const std::vector<int>&) const override {
    return {out_grad[0], out_grad[1], in_data[0], in_data[1]};
  }
  std::unique_ptr<CustomOp> CreateOperator(const OperatorContext& context) override {
    EXPECT_EQ(context.shapes.size(), 3u);
    EXPECT_EQ(context.device, "cpu");
    return std::make_unique<Affine>(bias);
  }
  int64_t units = 0;
  float bias = 0;
};

struct AffineNet : gluon::HybridBlock<AffineNet> {
  gluon::Parameter weight = params().Get("weight", {{0, 0}});
  gluon::Parameter calls = params().Get("calls", {{1}, DType::kFloat32, Named("Zero"), GradReq::kNull});
  template <class X>
  X Forward(const X& x) {
    const std::vector<X> outputs =
        CustomAll({x, weight.template Get<X>(), calls.template Get<X>()}, "affine", {{"units", 3}, {"bias", 0.5}});
    return outputs[0] + outputs[1];
  }
};

TEST_F(CustomOpTest, InABlockWithRulesAttributesAndStates) {
  ASSERT_TRUE(Register<AffineProp>("affine").ok());
  AffineNet net;
  net.Initialize(Named("One"));
  const NDArray x = NDArray::Of<float>({2, 2}, {1, 2, 3, 4});
  for (const bool hybrid : {false, true}) {
    net.Hybridize(hybrid);
    NDArray y;
    {
      const autograd::Record record;
      y = net(x);
    }
    y.Backward();
    EXPECT_EQ(*y.Values<float>(), (Floats{10.5, 10.5, 10.5, 22.5, 22.5, 22.5}));
    EXPECT_EQ(*net.weight.grad().Values<float>(), (Floats{12, 18, 12, 18, 12, 18}));
    EXPECT_EQ(*net.calls.data().Item(), hybrid ? 2 : 1);
  }
  EXPECT_EQ(*net(x).Sum().Item(), 99);
  EXPECT_EQ(*net.calls.data().Item(), 2);  // Predictions leave it.
  EXPECT_EQ(net.weight.shape(), (Shape{3, 2}));
  const absl::Status status = Custom({x, x, x}, "affine").Wait();
  EXPECT_NE(status.message().find("affine wants units"), absl::string_view::npos) << status;
}

// A loss: it begins a gradient.
struct SoftmaxLoss : CustomOp {
  absl::Status Forward(const ForwardCall& call) override {
    Assign(call.out_data[0], call.req[0], op::Softmax(call.in_data[0]));
    return absl::OkStatus();
  }
  absl::Status Backward(const BackwardCall& call) override {
    EXPECT_TRUE(absl::IsFailedPrecondition(call.out_grad[0].Wait()));  // It was not declared.
    Assign(call.in_grad[0], call.req[0], call.out_data[0] - op::OneHot(call.in_data[1], {.depth = 2}));
    return absl::OkStatus();
  }
};
struct SoftmaxLossProp : CustomOpProp {
  SoftmaxLossProp() : CustomOpProp(/*need_top_grad=*/false) {}
  std::vector<std::string> ListArguments() const override { return {"data", "label"}; }
  absl::StatusOr<Shapes> InferShape(const std::vector<MaybeShape>& arguments) const override {
    if (!arguments[0].has_value()) return absl::InvalidArgumentError("the shape of data is wanted");
    return Shapes{{arguments[0], Shape{(*arguments[0])[0]}}, {arguments[0]}, {}};
  }
  std::unique_ptr<CustomOp> CreateOperator(const OperatorContext&) override { return std::make_unique<SoftmaxLoss>(); }
};

TEST_F(CustomOpTest, ALossBeginsAGradient) {
  ASSERT_TRUE(Register<SoftmaxLossProp>("softmax_loss").ok());
  NDArray x = NDArray::Zeros({2, 2});
  x.AttachGrad();
  NDArray y;
  {
    const autograd::Record record;
    y = Custom({x, NDArray::Of<float>({2}, {0, 1})}, "softmax_loss");
  }
  y.Backward();
  EXPECT_EQ(*x.grad().Values<float>(), (Floats{-0.5, 0.5, 0.5, -0.5}));
}

struct Failing : CustomOp {
  explicit Failing(std::string how) : how(std::move(how)) {}
  absl::Status Forward(const ForwardCall& call) override {
    if (how == "status") return absl::ResourceExhaustedError("no more of it");
    if (how == "exception") throw std::runtime_error("thrown within");
    if (how == "shape") Assign(call.out_data[0], call.req[0], NDArray::Zeros({7}));
    if (how == "poison") Assign(call.out_data[0], call.req[0], NDArray::Zeros({2}) + NDArray::Zeros({3}));
    return absl::OkStatus();
  }
  const std::string how;
};
struct FailingProp : CustomOpProp {
  explicit FailingProp(const KeywordArguments& arguments) : how(arguments.at("how")) {}
  std::unique_ptr<CustomOp> CreateOperator(const OperatorContext&) override { return std::make_unique<Failing>(how); }
  std::string how;
};

TEST_F(CustomOpTest, FailuresAreToldWithTheirTextAndHarmNothingElse) {
  ASSERT_TRUE(Register<FailingProp>("failing").ok());
  const NDArray x = NDArray::Ones({2});
  const std::pair<const char*, const char*> cases[] = {
      {"status", "no more of it"}, {"exception", "thrown within"}, {"shape", "float32[7]"}, {"poison", "[3]"}};
  for (const auto& [how, text] : cases) {
    const absl::Status status = Custom({x}, "failing", {{"how", how}}).Wait();
    EXPECT_FALSE(status.ok()) << how;
    EXPECT_NE(status.message().find(text), absl::string_view::npos) << how << ": " << status;
    EXPECT_NE(status.message().find("custom_op_test.cc:"), absl::string_view::npos) << status;
  }
  EXPECT_EQ(*Custom({x}, "failing", {{"how", "not"}}).Sum().Item(), 0);  // An output that is not assigned is zeros.
  const absl::Status unknown = Custom({x}, "nobody_has_it").Wait();
  EXPECT_NE(unknown.message().find("nobody_has_it"), absl::string_view::npos) << unknown;
}

// Descriptions that no operator can have.
struct MisdescribedProp : CustomOpProp {
  explicit MisdescribedProp(const KeywordArguments& arguments) : how(arguments.at("how")) {}
  std::vector<std::string> ListArguments() const override {
    if (how == "throws") throw std::runtime_error("no names today");
    return {"data"};
  }
  std::vector<std::string> ListAuxiliaryStates() const override {
    return how == "twice" ? std::vector<std::string>{"data"} : std::vector<std::string>{};
  }
  std::vector<int> DeclareBackwardDependency(const std::vector<int>& out_grad, const std::vector<int>& in_data,
                                             const std::vector<int>& out_data) const override {
    if (how == "dependency") throw std::runtime_error("no dependencies today");
    if (how == "number") return {9};
    return CustomOpProp::DeclareBackwardDependency(out_grad, in_data, out_data);
  }
  std::unique_ptr<CustomOp> CreateOperator(const OperatorContext&) override { return std::make_unique<Sigmoid>(); }
  std::string how;
};

TEST_F(CustomOpTest, AWrongDescriptionPoisonsTheResult) {
  ASSERT_TRUE(Register<MisdescribedProp>("misdescribed").ok());
  const std::pair<const char*, const char*> cases[] = {{"throws", "no names today"},
                                                       {"twice", "several inputs of the name 'data'"},
                                                       {"dependency", "no dependencies today"},
                                                       {"number", "must give numbers of those that it was given, 0 to 2"}};
  for (const auto& [how, text] : cases) {
    const NDArray one = NDArray::Ones({2});
    const std::vector<NDArray> inputs(std::string(how) == "twice" ? 2 : 1, one);
    NDArray y;
    EXPECT_NO_THROW(y = Custom(inputs, "misdescribed", {{"how", how}})) << how;
    const absl::Status status = y.Wait();
    EXPECT_FALSE(status.ok()) << how;
    EXPECT_NE(status.message().find(text), absl::string_view::npos) << how << ": " << status;
  }
  EXPECT_EQ(*Custom({NDArray::Zeros({1})}, "misdescribed", {{"how", "not"}}).Item(), 0.5);
}

// Each call waits for another one of this program.
struct Nested : CustomOp {
  explicit Nested(int depth) : depth(depth) {}
  absl::Status Forward(const ForwardCall& call) override {
    NDArray y = call.in_data[0] + 1;
    if (depth > 1) y = Custom({y}, "nested", {{"depth", depth - 1}});
    const absl::StatusOr<Floats> values = y.Values<float>();
    if (!values.ok()) return values.status();
    Assign(call.out_data[0], call.req[0], NDArray::Of<float>({1}, *values));
    return absl::OkStatus();
  }
  const int depth;
};
struct NestedProp : CustomOpProp {
  explicit NestedProp(const KeywordArguments& arguments) { EXPECT_TRUE(absl::SimpleAtoi(arguments.at("depth"), &depth)); }
  std::unique_ptr<CustomOp> CreateOperator(const OperatorContext&) override { return std::make_unique<Nested>(depth); }
  int depth = 0;
};

struct ThrowingProp : CustomOpProp {
  std::vector<std::string> ListOutputs() const override { throw std::out_of_range("no outputs today"); }
  std::unique_ptr<CustomOp> CreateOperator(const OperatorContext&) override { return nullptr; }
};

TEST_F(CustomOpTest, AListThatThrowsWhileShapesAreUnknownIsTheCallsError) {
  ASSERT_TRUE(Register<ThrowingProp>("throwing").ok());
  v1::Callback call;
  call.set_op_type("throwing");
  call.mutable_infer_shape()->add_arguments();
  Callbacks callbacks;
  const v1::CallbackResult result = callbacks.Answer(call, session_->core());
  EXPECT_EQ(result.failure().type(), "std::out_of_range");
  EXPECT_EQ(result.failure().message(), "no outputs today");
}

TEST_F(CustomOpTest, OperatorsCallOperators) {
  ASSERT_TRUE(Register<NestedProp>("nested").ok());
  EXPECT_EQ(*Custom({NDArray::Zeros({1})}, "nested", {{"depth", 20}}).Item(), 20);
}

// A body waits for the server with the only thread. A call within a call has none, and is refused.
TEST_F(CustomOpTest, OneThreadComputesBodiesThatCallOperators) {
  const Session session = Session::StartServer({.callback_threads = 1}).value();
  Session::SetDefault(*session_);
  const SessionScope scope(session);
  ASSERT_TRUE(Register<NestedProp>("nested").ok());
  ASSERT_TRUE(Register<ServerSigmoidProp>("sigmoid_there").ok());
  EXPECT_EQ(*Custom({NDArray::Zeros({1})}, "nested", {{"depth", 1}}).Item(), 1);
  std::vector<NDArray> all;
  for (int i = 0; i < 20; ++i) all.push_back(Custom({NDArray::Full({2}, i)}, "sigmoid_there"));
  for (int i = 0; i < 20; ++i) EXPECT_NEAR((*all[i].Values<float>())[1], 1 / (1 + std::exp(-static_cast<float>(i))), 1e-6);
  const absl::Status nested = Custom({NDArray::Zeros({1})}, "nested", {{"depth", 2}}).Wait();
  EXPECT_NE(nested.message().find("1 calls of custom operators are under way in this process"), std::string::npos) << nested;
  EXPECT_EQ(*Custom({NDArray::Zeros({1})}, "nested", {{"depth", 1}}).Item(), 1) << "the next one is computed";
}

TEST_F(CustomOpTest, ManyCallsAtOnce) {
  ASSERT_TRUE(Register<SigmoidProp>("sigmoid_here").ok());
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&right, t] {
      for (int i = 0; i < 25; ++i) {
        const NDArray x = NDArray::Full({3}, t);
        const absl::StatusOr<Floats> y = Custom({x}, "sigmoid_here").Values<float>();
        if (y.ok() && std::abs((*y)[1] - 1 / (1 + std::exp(-static_cast<float>(t)))) < 1e-6) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 200);
}

struct AddOneProp : CustomOpProp {
  struct AddOne : CustomOp {
    absl::Status Forward(const ForwardCall& call) override {
      Assign(call.out_data[0], call.req[0], call.in_data[0] + 1);
      return absl::OkStatus();
    }
  };
  std::unique_ptr<CustomOp> CreateOperator(const OperatorContext&) override { return std::make_unique<AddOne>(); }
};

TEST_F(CustomOpTest, AnotherRegistrationReplacesTheFirst) {
  ASSERT_TRUE(Register<SigmoidProp>("replaced").ok());
  EXPECT_EQ(*Custom({NDArray::Zeros({1})}, "replaced").Item(), 0.5);
  ASSERT_TRUE(Register<AddOneProp>("replaced").ok());
  EXPECT_EQ(*Custom({NDArray::Zeros({1})}, "replaced").Item(), 1);
}

TEST_F(CustomOpTest, FunctionsHaveADerivativeByEachArgument) {
  const Function scaled([](const std::vector<NDArray>& x) { return x[0] * x[1]; }, "scaled");
  scaled.DefGrad([](const NDArray& g, const NDArray&, const std::vector<NDArray>& x) { return g * x[1]; });
  NDArray x = NDArray::Of<float>({2}, {1, 2}), factor = NDArray::Of<float>({1}, {3});
  const auto run = [&] {
    const autograd::Record record;
    return scaled({x, factor});
  };
  x.AttachGrad();
  NDArray y = run();
  y.Backward();
  EXPECT_EQ(*y.Values<float>(), (Floats{3, 6}));
  EXPECT_EQ(*x.grad().Values<float>(), (Floats{3, 3}));
  factor.AttachGrad();
  y = run();
  y.Backward();
  const absl::Status missing = factor.grad().Wait();
  EXPECT_NE(missing.message().find("scaled has no derivative by its argument 1"), absl::string_view::npos) << missing;
  scaled.DefGrad([](const NDArray& g, const NDArray&, const std::vector<NDArray>& x) { return (g * x[0]).Sum(); }, 1);
  factor.AttachGrad();
  y = run();
  y.Backward(NDArray::Of<float>({2}, {1, 10}));
  EXPECT_EQ(*factor.grad().Item(), 21);
}

TEST_F(CustomOpTest, ASharedNameServesOthers) {
  ASSERT_TRUE(Register<AddOneProp>("shared_one", /*shared=*/true).ok());
  const Client client = session_->client().value();
  Graph graph;
  Node node;
  node.name = "y";
  node.op = "Custom";
  node.inputs = {"data"};
  node.attributes = {{"op_type", "shared_one"}};
  graph.nodes = {node};
  const Model model = client.DefineModel("of_shared", graph, {Input("data", {-1})}).value();
  EXPECT_EQ(*model.Predict({{"data", Tensor::Of<float>({2}, {1, 2})}})->at("y").Values<float>(), (Floats{2, 3}));
  EXPECT_TRUE(absl::IsNotFound(Share("never_registered")));
}

}  // namespace
}  // namespace gluond::client
