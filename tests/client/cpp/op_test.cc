// Functions of gluond/op.h against a real server.

#include <cstdlib>
#include <string>
#include <vector>

#include "gluond/gluond.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gluond::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Test;
using Values = std::vector<float>;

class OpTest : public Test {
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

Session* OpTest::session_ = nullptr;

NDArray Matrix() { return NDArray::Of<float>({2, 2}, {1, -2, 3, -4}); }

TEST_F(OpTest, CallsAnOperator) {
  EXPECT_EQ(*op::Relu(Matrix()).Values<float>(), (Values{1, 0, 3, 0}));
  EXPECT_EQ(*op::BroadcastAdd(Matrix(), NDArray::Of<float>({1, 2}, {10, 20})).Values<float>(), (Values{11, 18, 13, 16}));
}

TEST_F(OpTest, SendsAttributes) {
  EXPECT_EQ(*op::Clip(Matrix(), {.a_min = -2.5, .a_max = 2}).Values<float>(), (Values{1, -2, 2, -2.5}));
  EXPECT_EQ(*op::Sum(Matrix()).Values<float>(), (Values{-2}));
  EXPECT_EQ(*op::Sum(Matrix(), {.axis = 1, .keepdims = true}).shape(), (Shape{2, 1}));
  EXPECT_EQ(*op::Slice(Matrix(), {.begin = {std::nullopt, 1}, .end = {std::nullopt, 2}}).Values<float>(), (Values{-2, -4}));
  EXPECT_EQ(*op::Cast(Matrix(), {.dtype = DType::kInt32}).Values<int32_t>(), (std::vector<int32_t>{1, -2, 3, -4}));
  EXPECT_EQ(*op::Activation(Matrix(), {.act_type = op::ActivationType::kRelu}).Values<float>(), (Values{1, 0, 3, 0}));
}

TEST_F(OpTest, InputsMayBeLeftOut) {
  const NDArray weight = NDArray::Of<float>({1, 2}, {1, 1}), bias = NDArray::Of<float>({1}, {5});
  EXPECT_EQ(*op::FullyConnected(Matrix(), weight, bias, {.num_hidden = 1}).Values<float>(), (Values{4, 4}));
  EXPECT_EQ(*op::FullyConnected(Matrix(), weight, {.num_hidden = 1, .no_bias = true}).Values<float>(), (Values{-1, -1}));
  const NDArray lengths = NDArray::Of<float>({2}, {1, 2});
  EXPECT_EQ(*op::SequenceMask(Matrix(), lengths, {.use_sequence_length = true, .value = 9}).Values<float>(),
            (Values{1, -2, 9, -4}));
}

TEST_F(OpTest, TakesAnyNumberOfInputs) {
  const std::vector<NDArray> several{Matrix(), Matrix(), Matrix()};
  EXPECT_EQ(*op::Concat(several, {.dim = 0}).shape(), (Shape{6, 2}));
  EXPECT_EQ(*op::AddN({Matrix(), Matrix()}).Values<float>(), (Values{2, -4, 6, -8}));
}

TEST_F(OpTest, HasAsManyOutputsAsItsAttributesSay) {
  const auto parts = op::Split(Matrix(), {.num_outputs = 2});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(*parts[1].Values<float>(), (Values{-2, -4}));
  EXPECT_EQ(op::Topk(Matrix(), {.ret_typ = op::TopkRetTyp::kBoth}).size(), 2u);
  const NDArray places = op::Topk(Matrix());
  EXPECT_EQ(*places.Values<float>(), (Values{0, 0}));
  EXPECT_EQ(op::Moments(Matrix(), {.axes = {0}}).size(), 2u);
}

TEST_F(OpTest, SeveralOutputsAreNotOneArray) {
  const NDArray both = op::Split(Matrix(), {.num_outputs = 2});
  EXPECT_THAT(both.Wait().message(), HasSubstr("the call has 2 outputs; take one of them by its index"));
}

TEST_F(OpTest, MakesArraysOnADevice) {
  EXPECT_EQ(*op::Ones({.shape = {2}, .ctx = "cpu", .dtype = DType::kFloat64}).Values<double>(), (std::vector<double>{1, 1}));
  EXPECT_EQ(*op::random::Uniform({.low = 2, .high = 3, .shape = {3, 4}}).shape(), (Shape{3, 4}));
  EXPECT_FALSE(op::Ones({.shape = {2}, .ctx = "moon"}).Wait().ok());
}

TEST_F(OpTest, AMissingAttributeIsAnErrorOfTheLineThatCalls) {
  op::FullyConnectedOptions options;
  options.no_bias = true;
  const NDArray y = op::FullyConnected(Matrix(), Matrix(), options);
  const std::string line = "op_test.cc:" + std::to_string(__LINE__ - 1);
  const absl::Status status = op::Relu(y).Wait();
  EXPECT_THAT(status.message(), HasSubstr("num_hidden"));
  EXPECT_THAT(status.message(), HasSubstr(line));
}

TEST_F(OpTest, AttributesAreTextsOfCallsByName) {
  const Attributes attributes = op::ToAttributes(op::SgdUpdateOptions{.lr = 0.5});
  EXPECT_EQ(attributes, (Attributes{{"lr", "0.5"}}));
  const NDArray weight = Matrix();
  InvokeInto("sgd_update", {weight, Matrix()}, attributes, {weight});
  EXPECT_EQ(*weight.Values<float>(), (Values{0.5, -1, 1.5, -2}));
}

struct Net : gluon::HybridBlock<Net> {
  template <class X>
  X Forward(const X& x) {
    const X y = op::Concat({op::Relu(x), op::Topk(x, {.k = 2, .ret_typ = op::TopkRetTyp::kBoth})[0]}, {.dim = 0});
    return op::BroadcastAdd(op::Split(y, {.num_outputs = 2})[1], op::Ones<X>({.shape = {1, 1}}));
  }
};

TEST_F(OpTest, SymbolsHaveTheSameFunctions) {
  Net net;
  const Values expected = *net(Matrix()).Values<float>();
  EXPECT_EQ(expected, (Values{1, 1, -1, -3}));
  net.Hybridize();
  EXPECT_EQ(*net(Matrix()).Values<float>(), expected);
}

struct Both : gluon::HybridBlock<Both> {
  template <class X>
  X Forward(const X& x) {
    return op::Split(x, {.num_outputs = 2});
  }
};

TEST_F(OpTest, SeveralOutputsAreNotOneSymbol) {
  Both both;
  both.Hybridize();
  EXPECT_THAT(both(Matrix()).Wait().message(), HasSubstr("the call has 2 outputs"));
}

TEST_F(OpTest, OperatorsOfTheServerAloneAreCalledByName) {
  EXPECT_EQ(*Invoke("_rminus_scalar", {Matrix()}, {{"scalar", 1}})[0].Values<float>(), (Values{0, 3, -2, 5}));
}

}  // namespace
}  // namespace gluond::client
