// Bad answers of clients that compute operators, most as a table. Each row fails the one run that needs it, with its code and a
// message that says what is wrong.

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/custom_stream_fixture.h"

namespace gluond::server {
namespace {

// A bad provider's way to answer a callback of its operator, which takes one float array of shape [2, 3].
struct BadAnswer {
  const char* name;
  std::function<void(const v1::Callback&, v1::CallbackResult*)> change;  // Changes a good answer.
  StatusCode code;                                                       // The code of the run that needs it.
  const char* says;
};

using Change = std::function<void(const v1::Callback&, v1::CallbackResult*)>;

Change InShape(std::function<void(v1::CallbackResult*)> change) {
  return [change](const v1::Callback& callback, v1::CallbackResult* result) {
    if (callback.has_infer_shape()) change(result);
  };
}
Change InType(std::function<void(v1::CallbackResult*)> change) {
  return [change](const v1::Callback& callback, v1::CallbackResult* result) {
    if (callback.has_infer_type()) change(result);
  };
}
Change InForward(std::function<void(v1::CallbackResult*)> change) {
  return [change](const v1::Callback& callback, v1::CallbackResult* result) {
    if (callback.has_forward()) change(result);
  };
}
// The output of the forward pass.
Change InOutput(std::function<void(v1::Tensor*)> change) {
  return InForward([change](v1::CallbackResult* result) { change(result->mutable_computed()->mutable_outputs(0)); });
}
Change InOutputShape(std::vector<int64_t> dims) {
  return InShape([dims](v1::CallbackResult* result) {
    v1::ArrayType* output = result->mutable_inferred()->mutable_outputs(0);
    output->mutable_shape()->Assign(dims.begin(), dims.end());
  });
}
Change InDims(std::vector<int64_t> dims) {
  return InOutput([dims](v1::Tensor* output) { output->mutable_shape()->Assign(dims.begin(), dims.end()); });
}

constexpr auto kInvalid = StatusCode::INVALID_ARGUMENT;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

const BadAnswer kBadAnswers[] = {
    // Answers about shapes and types.
    {"ShapeAsComputed", InShape([](auto* r) { r->mutable_computed(); }), kInvalid, "did not answer with `inferred`"},
    {"ShapeAsNothing", InShape([](auto* r) { r->clear_result(); }), kInvalid, "did not answer with `inferred`"},
    {"NoOutputs", InShape([](auto* r) { r->mutable_inferred()->clear_outputs(); }), kInvalid, "0 outputs"},
    {"ManyOutputs", InShape([](auto* r) {
       for (int i = 0; i < 100'000; ++i) r->mutable_inferred()->add_outputs();
     }),
     kInvalid, "at most 1000"},
    {"UnexpectedAuxiliary", InShape([](auto* r) { r->mutable_inferred()->add_auxiliary(); }), kInvalid, "1 auxiliary states"},
    {"OtherArguments", InShape([](auto* r) { r->mutable_inferred()->mutable_arguments(0)->set_shape(0, 7); }), kInvalid,
     "Shape inconsistent"},
    {"NegativeOutput", InOutputShape({-5, 3}), kInvalid, "-5"},
    {"HugeOutput", InOutputShape({int64_t{1} << 40, int64_t{1} << 40}), kInvalid, "2^48"},
    {"LargeOutput", InOutputShape({1'000'000, 1'000'000}), StatusCode::RESOURCE_EXHAUSTED, "--max_tensor_bytes"},
    {"UnknownOutput", InShape([](auto* r) { r->mutable_inferred()->mutable_outputs(0)->clear_has_shape(); }),
     StatusCode::FAILED_PRECONDITION, "not fully known: output 0"},
    {"UnknownDtype",
     InType([](auto* r) { r->mutable_inferred()->mutable_outputs(0)->set_dtype(static_cast<v1::Tensor::DType>(77)); }), kInvalid,
     "dtype 77"},
    {"OtherDtypeOfArgument", InType([](auto* r) { r->mutable_inferred()->mutable_arguments(0)->set_dtype(v1::Tensor::FLOAT64); }),
     kInvalid, "Type inconsistent"},
    // Answers with values.
    {"ForwardAsInferred", InForward([](auto* r) { r->mutable_inferred(); }), kInvalid, "did not answer with `computed`"},
    {"ForwardAsNothing", InForward([](auto* r) { r->clear_result(); }), kInvalid, "did not answer with `computed`"},
    {"NoValues", InForward([](auto* r) { r->mutable_computed()->clear_outputs(); }), kInvalid, "gave 0 outputs, expected 1"},
    {"TwoValues", InForward([](auto* r) { *r->mutable_computed()->add_outputs() = r->computed().outputs(0); }), kInvalid,
     "gave 2 outputs, expected 1"},
    {"OtherShape", InDims({3, 2}), kInvalid, "gave float32[3,2], expected float32[2,3]"},
    {"OtherDtype", InOutput([](auto* t) { t->set_dtype(v1::Tensor::INT32); }), kInvalid, "gave int32[2,3], expected float32[2,3]"},
    {"ShortValue", InOutput([](auto* t) { t->mutable_raw()->resize(23); }), kInvalid, "takes 24 bytes, but raw has 23"},
    {"LongValue", InOutput([](auto* t) { t->mutable_raw()->resize(1 << 20); }), kInvalid, "takes 24 bytes, but raw has 1048576"},
    {"EmptyValue", InOutput([](auto* t) { t->clear_raw(); }), kInvalid, "output 0"},
    {"NegativeDimension", InDims({-2, -3}), kInvalid, "has dimension -2"},
    {"HugeDimension", InDims({std::numeric_limits<int64_t>::max(), 3}), kInvalid, "2^48"},
    {"LargeDimension", InDims({1'000'000, 1'000'000}), kInvalid, "output 0"},
    {"Fill", InOutput([](auto* t) { t->clear_raw(), t->mutable_fill(); }), kInvalid, "`fill`"},
    {"UnexpectedState", InForward([](auto* r) { *r->mutable_computed()->add_auxiliary() = r->computed().outputs(0); }), kInvalid,
     "gave 1 auxiliary states, expected 0"},
    // Other answers. Some of these do no harm.
    {"NanSeconds", InForward([](auto* r) { r->set_seconds(kNan); }), StatusCode::OK, ""},
    {"InfiniteSeconds", InForward([](auto* r) { r->set_seconds(kInfinity); }), StatusCode::OK, ""},
    {"NegativeSeconds", InForward([](auto* r) { r->set_seconds(-1e300); }), StatusCode::OK, ""},
    {"EmptyFailure", InForward([](auto* r) { r->mutable_failure(); }), StatusCode::FAILED_PRECONDITION, "failed in its client"},
    {"LongFailure", InForward([](v1::CallbackResult* r) {
       r->mutable_failure()->set_type(std::string(1 << 20, 'T'));
       std::string text;
       for (int i = 0; i < 200'000; ++i) text += "\xE2\x82\xAC";  // Cut between characters.
       r->mutable_failure()->set_message(text);
       r->mutable_failure()->set_traceback(text + "\n" + text + "\nlast line\n");
     }),
     StatusCode::FAILED_PRECONDITION, "failed in its client: TTT"},
    {"FailureOfShapes", InShape([](auto* r) { r->mutable_failure()->set_message("no idea"); }), StatusCode::FAILED_PRECONDITION,
     "infer_shape of custom operator 'bad FailureOfShapes' failed in its client: : no idea"},
};

class CustomAnswerTest : public CustomStreamTest {};

TEST_F(CustomAnswerTest, ABadAnswerFailsTheRunThatNeedsItAndNothingElse) {
  WhileOthersTrain([&] {
    for (const BadAnswer& bad : kBadAnswers) {
      std::atomic<bool> is_bad = true;
      const std::string op = std::string("bad ") + bad.name;
      Provider provider(address(), {op}, [&](const v1::Callback& callback) {
        v1::Callback as_square = callback;
        as_square.set_op_type("square");
        v1::CallbackResult result = RightAnswer(as_square);
        if (is_bad) bad.change(callback, &result);
        return result;
      });
      Expect(Invoke(op), bad.code, bad.says, bad.name);
      ExpectHealthy(bad.name);
      // The next run works.
      is_bad = false;
      Expect(Invoke(op, R"(, "version": "2")"), StatusCode::OK, "", bad.name);
      EXPECT_FALSE(provider.ended()) << bad.name;
    }
  });
}

TEST_F(CustomAnswerTest, AnswersThatNobodyWaitsForAreDropped) {
  WhileOthersTrain([&] {
    Provider* self = nullptr;
    std::atomic<bool> ready = false;
    Provider provider(address(), {"bad"}, [&](const v1::Callback& callback) {
      while (!ready) std::this_thread::yield();
      v1::Callback as_square = callback;
      as_square.set_op_type("square");
      v1::CallbackResult result = RightAnswer(as_square);
      // Others' calls, and calls that never existed.
      for (uint64_t call = callback.call() > 50 ? callback.call() - 50 : 1; call < callback.call() + 50; ++call) {
        if (call == callback.call()) continue;
        v1::CallbackResult wrong = result;
        wrong.set_call(call);
        self->stream().Answer(wrong);
      }
      self->stream().Answer(result);
      return result;  // Twice.
    });
    self = &provider;
    ready = true;
    for (int i = 0; i < 20; ++i) Expect(Invoke("bad"), StatusCode::OK, "", "dropped");
    EXPECT_FALSE(provider.ended());
    ExpectHealthy("dropped");
  });
}

TEST_F(CustomAnswerTest, AProviderHasSoManyCalls) {
  Limits limits;
  limits.max_callbacks = 3;
  StartServer(limits);
  Provider good(address(), {"square"});
  Provider provider(address(), {"bad"}, [](const v1::Callback& callback) {
    return callback.has_forward() ? v1::CallbackResult() : RightAnswer(callback);
  });
  std::vector<std::unique_ptr<Started>> calls;
  for (size_t i = 1; i <= 3; ++i) {
    calls.push_back(StartInvoke("bad"));
    provider.WaitFor(i, &v1::Callback::has_forward);
  }
  Expect(Invoke("bad"), StatusCode::RESOURCE_EXHAUSTED, "not answered 3 calls, the limit of --max_callbacks", "calls");
  ExpectHealthy("calls");
  provider.stream().Cancel();
  for (const auto& call : calls) Expect(call->Wait(), StatusCode::UNAVAILABLE, "has gone", "calls");
}

TEST_F(CustomAnswerTest, ACallOverTheMessageLimitFailsAlone) {
  Provider provider(address(), {"square"});
  v1::InvokeRequest request = Json<v1::InvokeRequest>(R"({"op": "Custom", "attributes": {"op_type": "square"}, "encoding":
      "STATISTICS", "inputs": [{"shape": [2000000], "fill": {"constant": 1}}]})");
  Call(operators_, &v1::OperatorService::Stub::Invoke, request, StatusCode::RESOURCE_EXHAUSTED);
  ExpectMessage("more than the 4194304 of --max_message_bytes");
  EXPECT_FALSE(provider.ended());
  EXPECT_TRUE(Invoke("square").ok());
}

}  // namespace
}  // namespace gluond::server
