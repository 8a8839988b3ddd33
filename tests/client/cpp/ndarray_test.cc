// NDArrays and autograd of the C++ client against a real server.

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "gluond/gluond.h"
#include "gtest/gtest.h"

namespace gluond::client {
namespace {

using ::testing::Test;

class NDArrayTest : public Test {
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

Session* NDArrayTest::session_ = nullptr;

using Floats = std::vector<float>;

NDArray Floats2x2() { return NDArray::Of<float>({2, 2}, {1, 2, 3, 4}); }

TEST_F(NDArrayTest, ValuesComeBack) {
  const NDArray x = Floats2x2();
  EXPECT_EQ(*x.Values<float>(), (Floats{1, 2, 3, 4}));
  EXPECT_EQ(*x.shape(), (Shape{2, 2}));
  EXPECT_EQ(*x.dtype(), DType::kFloat32);
  EXPECT_EQ(*NDArray::Of({3}, std::vector<bool>{true, false, true}).Values<bool>(), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(*NDArray::Of<int64_t>({1}, {int64_t{1} << 60}).Values<int64_t>(), (std::vector<int64_t>{int64_t{1} << 60}));
  EXPECT_EQ(float(NDArray::Of<Float16>({1}, {Float16(0.5f)}).Values<Float16>()->front()), 0.5f);
  EXPECT_EQ(*NDArray::Of<float>({0, 3}, {}).shape(), (Shape{0, 3}));
}

TEST_F(NDArrayTest, Arithmetic) {
  const NDArray x = Floats2x2();
  EXPECT_EQ(*(2 * x + 1).Values<float>(), (Floats{3, 5, 7, 9}));
  EXPECT_EQ(*(1 - x).Values<float>(), (Floats{0, -1, -2, -3}));
  EXPECT_EQ(*(12 / x).Values<float>(), (Floats{12, 6, 4, 3}));
  EXPECT_EQ(*(x * NDArray::Of<float>({2}, {1, 10})).Values<float>(), (Floats{1, 20, 3, 40}));
  EXPECT_EQ(*(-x).Values<float>(), (Floats{-1, -2, -3, -4}));
  EXPECT_EQ(*(x > 2).Values<float>(), (Floats{0, 0, 1, 1}));
  EXPECT_EQ(*(x == NDArray::Of<float>({2, 2}, {1, 0, 3, 0})).Values<float>(), (Floats{1, 0, 1, 0}));
  NDArray y = x.Copy();
  const NDArray same = y;
  y += x;
  y *= 2;
  EXPECT_EQ(*same.Values<float>(), (Floats{4, 8, 12, 16}));
  EXPECT_EQ(*x.Values<float>(), (Floats{1, 2, 3, 4}));
}

TEST_F(NDArrayTest, Parts) {
  NDArray x = NDArray::Arange(0, 12).Reshape({3, 4});
  EXPECT_EQ(*x[1].Values<float>(), (Floats{4, 5, 6, 7}));
  EXPECT_EQ(*x[1].shape(), (Shape{4}));
  EXPECT_EQ(*x[-1].Values<float>(), (Floats{8, 9, 10, 11}));
  EXPECT_EQ(*(x[Range{1, {}}]).shape(), (Shape{2, 4}));
  EXPECT_EQ(*x.At({Range{}, 2}).Values<float>(), (Floats{2, 6, 10}));
  EXPECT_EQ(*x.At({Range{{}, {}, -2}, Range{0, 2}}).Values<float>(), (Floats{8, 9, 0, 1}));
  x.Set({1}, NDArray::Of<float>({4}, {0, 0, 0, 1}));
  x.Set({Range{}, 0}, -1);
  EXPECT_EQ(*x.Values<float>(), (Floats{-1, 1, 2, 3, -1, 0, 0, 1, -1, 9, 10, 11}));
  x.Assign(7);
  EXPECT_EQ(*x[2].Values<float>(), (Floats{7, 7, 7, 7}));
  x.Assign(NDArray::Ones({3, 4}));
  EXPECT_EQ(*x.Sum().Item(), 12);
  EXPECT_EQ(*x.AsType(DType::kInt32).dtype(), DType::kInt32);
}

TEST_F(NDArrayTest, Gradients) {
  NDArray x = Floats2x2();
  x.AttachGrad();
  NDArray y;
  {
    const autograd::Record record;
    EXPECT_TRUE(autograd::IsTraining());
    y = x * x * 2;
  }
  EXPECT_FALSE(autograd::IsRecording());
  y.Backward(NDArray::Of<float>({2, 2}, {1, 10, 100, 1000}));
  EXPECT_EQ(*x.grad().Values<float>(), (Floats{4, 80, 1200, 16000}));

  x.AttachGrad(GradReq::kAdd);
  for (int i = 0; i < 3; ++i) {
    const autograd::Record record;
    (x * 2).Backward();
  }
  EXPECT_EQ(*x.grad().Values<float>(), (Floats{6, 6, 6, 6}));

  std::vector<NDArray> second;
  {
    const autograd::Record record;
    autograd::GradOptions options;
    options.create_graph = true;
    const NDArray first = autograd::Grad({x * x * x}, {x}, options)[0];
    second = autograd::Grad({first}, {x});
  }
  EXPECT_EQ(*second[0].Values<float>(), (Floats{6, 12, 18, 24}));
}

TEST_F(NDArrayTest, ErrorsComeWithTheValueAndNameTheLine) {
  const NDArray x = Floats2x2();
  const int line = __LINE__ + 1;
  const NDArray bad = x + NDArray::Ones({3, 3});
  const absl::Status status = (bad * 2).Wait();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("ndarray_test.cc:" + std::to_string(line)), absl::string_view::npos) << status;
  EXPECT_EQ(*x.Sum().Item(), 10);  // All else goes on.

  const absl::Status unknown = Invoke1("no_such_operator", {x}).Wait();
  EXPECT_NE(unknown.message().find("no_such_operator"), absl::string_view::npos) << unknown;
  EXPECT_TRUE(absl::IsInvalidArgument(NDArray().Wait()));
  EXPECT_TRUE(absl::IsInvalidArgument(NDArray::Of<float>({3}, {1, 2}).Wait()));
  EXPECT_TRUE(absl::IsInvalidArgument(x.Item().status()));
  EXPECT_TRUE(absl::IsInvalidArgument(x.Values<int32_t>().status()));
}

TEST_F(NDArrayTest, WhatIsRecordedIsNotWritten) {
  NDArray x = Floats2x2();
  x.AttachGrad();
  const autograd::Record record;
  x += 1;
  EXPECT_TRUE(absl::IsFailedPrecondition(x.Wait())) << x.Wait();
}

TEST_F(NDArrayTest, BackwardOfNothingIsToldByWaitAll) {
  EXPECT_TRUE(session_->WaitAll().ok());
  Floats2x2().Backward();
  EXPECT_FALSE(session_->WaitAll().ok());
  EXPECT_TRUE(session_->WaitAll().ok());
}

TEST_F(NDArrayTest, LargeArraysTravelInPieces) {
  std::vector<float> values((40 << 20) / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 1000);
  const NDArray x = NDArray::Of<float>({5, static_cast<int64_t>(values.size()) / 5}, values);
  EXPECT_EQ(*x.shape(), (Shape{5, static_cast<int64_t>(values.size()) / 5}));
  EXPECT_TRUE(*(x + 0).Values<float>() == values);
}

TEST_F(NDArrayTest, ManyThreadsShareASession) {
  std::vector<std::thread> threads;
  std::vector<float> sums(8);
  for (size_t t = 0; t < sums.size(); ++t) {
    threads.emplace_back([t, &sums] {
      NDArray x = NDArray::Full({4}, static_cast<double>(t));
      for (int i = 0; i < 200; ++i) {
        x = x + 1;
        if (i % 50 == 0) {
          EXPECT_TRUE(x.Wait().ok());
        }
      }
      sums[t] = *x.Sum().Item();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t t = 0; t < sums.size(); ++t) EXPECT_EQ(sums[t], 4 * (200 + static_cast<float>(t)));
}

TEST_F(NDArrayTest, TheSeedDecides) {
  const auto draw = [] { return *Create("_random_uniform", {{"shape", Value::Tuple{Value(5)}}}).Values<float>(); };
  session_->Seed(7);
  const Floats first = draw();
  session_->Seed(7);
  EXPECT_EQ(draw(), first);
  EXPECT_NE(draw(), first);
}

TEST_F(NDArrayTest, TwoServersInOneProgram) {
  const Session other = Session::StartServer().value();
  Session::SetDefault(*session_);
  const NDArray here = Floats2x2();
  NDArray there;
  {
    const SessionScope scope(other);
    there = Floats2x2();
  }
  EXPECT_EQ(*(there * 2).Sum().Item(), 20);
  const absl::Status status = (here + there).Wait();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(*(here + NDArray(*there.ToTensor())).Sum().Item(), 20);
}

}  // namespace
}  // namespace gluond::client
