// Metrics of the C++ client: each of the server's, against the server's own code.

#include "gluond/metric.h"

#include <cmath>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "engine/train/metric.h"
#include "gluond/gluond.h"
#include "gtest/gtest.h"

namespace gluond::client {
namespace {

struct MetricBatch {
  Shape label_shape;
  std::vector<float> label;
  Shape prediction_shape;
  std::vector<float> prediction;
};

class MetricTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("GLUOND_SERVER", "server/gluond-server", 0);
    if (session_ == nullptr) session_ = new Session(Session::StartServer().value());
    Session::SetDefault(*session_);
  }
  static void TearDownTestSuite() {
    delete session_;
    session_ = nullptr;
  }

  gluond::Tensor Engine(const Shape& shape, const std::vector<float>& values) const {
    gluond::Tensor tensor = *gluond::Tensor::Empty(*memory_, *gluond::Shape::FromDims(shape), gluond::DType::kFloat32);
    std::copy(values.begin(), values.end(), tensor.data<float>());
    return tensor;
  }

  // The value by the server's code.
  absl::StatusOr<double> Expected(const std::string& name, const gluond::AttrDict& attributes,
                                  const std::vector<MetricBatch>& batches) const {
    const auto metric = gluond::Metrics().Find(name).value()->make(attributes);
    if (!metric.ok()) return metric.status();
    gluond::MetricSum sum;
    for (const MetricBatch& each : batches) {
      const gluond::Tensor prediction = Engine(each.prediction_shape, each.prediction);
      const gluond::Tensor label = each.label_shape.empty() ? gluond::Tensor() : Engine(each.label_shape, each.label);
      const absl::Status status = (*metric)->Add(prediction, label, prediction, &sum);
      if (!status.ok()) return status;
    }
    return (*metric)->Value(sum);
  }

  static absl::StatusOr<double> Got(metric::Metric metric, const std::vector<MetricBatch>& batches) {
    for (const MetricBatch& each : batches) {
      const NDArray label = each.label_shape.empty() ? NDArray() : NDArray::Of<float>(each.label_shape, each.label);
      metric.Update(label, NDArray::Of<float>(each.prediction_shape, each.prediction));
    }
    return metric.Get();
  }

  void Check(const std::string& name, const gluond::AttrDict& attributes, const std::vector<MetricBatch>& batches) const {
    Attributes given;
    for (const auto& [key, value] : attributes) given.emplace_back(key, value);
    const absl::StatusOr<double> expected = Expected(name, attributes, batches), got = Got(metric::Metric(name, given), batches);
    SCOPED_TRACE(name);
    EXPECT_EQ(got.status().code(), expected.status().code()) << got.status() << " instead of " << expected.status();
    if (!got.ok() || !expected.ok()) return;
    EXPECT_TRUE(std::isfinite(*expected));
    EXPECT_NEAR(*got, *expected, 1e-6 * (1 + std::abs(*expected)));
  }

  static Session* session_;
  const std::shared_ptr<gluond::Allocator> memory_ =
      *gluond::DeviceAllocator::Create(gluond::Device(), std::make_shared<gluond::Budget>("the test", int64_t{1} << 30, "--none"));
};

Session* MetricTest::session_ = nullptr;

// Probabilities of classes, many of them equal, and labels, in batches of several sizes. behind: sizes of axes behind the classes'.
std::vector<MetricBatch> Classes(int64_t classes, const Shape& behind = {}) {
  std::mt19937 random(3);
  std::vector<MetricBatch> batches;
  for (const int64_t samples : {7, 1, 64}) {
    MetricBatch batch = {{samples}, {}, {samples, classes}, {}};
    int64_t inner = 1;
    for (const int64_t size : behind) {
      batch.label_shape.push_back(size), batch.prediction_shape.push_back(size);
      inner *= size;
    }
    for (int64_t i = 0; i < samples * inner; ++i)
      batch.label.push_back(static_cast<float>(random() % static_cast<uint32_t>(classes)));
    for (int64_t i = 0; i < samples * inner * classes; ++i) {
      batch.prediction.push_back(static_cast<float>(random() % 9 + 1) / 10);
    }
    batches.push_back(batch);
  }
  return batches;
}

std::vector<MetricBatch> Pairs() {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::vector<MetricBatch> batches;
  for (const int64_t samples : {7, 3, 64}) {
    MetricBatch batch = {{samples, 2}, {}, {2 * samples}, {}};
    for (int64_t i = 0; i < 2 * samples; ++i) batch.label.push_back(normal(random)), batch.prediction.push_back(normal(random));
    batches.push_back(batch);
  }
  return batches;
}

using Texts = gluond::AttrDict;

TEST_F(MetricTest, ClassMetricsAreTheServers) {
  Check("accuracy", {}, Classes(5));
  Check("accuracy", {}, Classes(5, {2, 3}));
  Check("accuracy", Texts{{"axis", "-1"}}, Classes(5));
  Check("accuracy", {}, Classes(1));
  for (const char* const k : {"1", "2", "4"}) Check("top_k_accuracy", Texts{{"top_k", k}}, Classes(5));
  Check("perplexity", {}, Classes(5));
  Check("perplexity", Texts{{"axis", "1"}, {"ignore_label", "2"}}, Classes(5, {3}));
  for (const char* const name : {"cross-entropy", "nll-loss"}) {
    Check(name, {}, Classes(5));
    Check(name, Texts{{"eps", "0.01"}}, Classes(5, {4}));
  }
  Check("pcc", {}, Classes(5));
  Check("pcc", {}, Classes(2, {3}));
  for (const char* const name : {"f1", "mcc"}) {
    Check(name, {}, Classes(2));
    Check(name, Texts{{"average", "micro"}}, Classes(2, {3}));
  }
}

TEST_F(MetricTest, MetricsOfNumbersAreTheServers) {
  for (const char* const name : {"mae", "mse", "rmse", "pearsonr", "loss", "accuracy"}) Check(name, {}, Pairs());
  Check("pearsonr", Texts{{"average", "micro"}}, Pairs());
}

TEST_F(MetricTest, PredictionsMayBeClasses) {
  Check("accuracy", {}, {{{4}, {0, 1, 2, 1}, {4}, {0, 1, 1, 1}}, {{2}, {1, 1}, {2, 2}, {0.5f, 0.5f, 0.1f, 0.9f}}});
}

TEST_F(MetricTest, ErrorsAreTheServers) {
  const std::vector<MetricBatch> no_class = {{{2}, {0, 5}, {2, 3}, {1, 2, 3, 4, 5, 6}}};
  for (const char* const name : {"accuracy", "perplexity", "cross-entropy", "pcc"}) Check(name, {}, no_class);
  const std::vector<MetricBatch> three = {{{3}, {0, 1, 2}, {3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}}};
  for (const char* const name : {"f1", "mcc"}) Check(name, {}, three);
  const std::vector<MetricBatch> other_size = {{{3}, {0, 1, 0}, {2, 2}, {1, 2, 3, 4}}}, no_label = {{{}, {}, {2, 2}, {1, 2, 3, 4}}};
  for (const char* const name : {"accuracy", "f1", "pcc", "perplexity", "cross-entropy", "mae", "pearsonr"}) {
    Check(name, {}, other_size);
    Check(name, {}, no_label);
  }
  Check("accuracy", Texts{{"axis", "2"}}, Classes(3));
}

TEST_F(MetricTest, EachOfTheServersHasAFormula) {
  for (const auto& entry : gluond::Metrics().entries()) {
    EXPECT_TRUE(metric::Metric(entry.name).Get().ok()) << entry.name << ": write its row in client/cpp/gluon/metric_rows.cc";
  }
}

TEST_F(MetricTest, NoBatchesAreZeroAndResetForgets) {
  metric::MAE mae;
  EXPECT_EQ(*mae.Get(), 0);
  mae.Update(NDArray::Of<float>({2}, {1, 2}), NDArray::Of<float>({2}, {2, 4}));
  EXPECT_EQ(*mae.Get(), 1.5);
  EXPECT_EQ(*mae.Get(), 1.5);
  const metric::MAE same = mae;
  mae.Update(NDArray::Of<float>({1}, {0}), NDArray::Of<float>({1}, {0}));
  EXPECT_EQ(*same.Get(), 0.75);
  mae.Reset();
  EXPECT_EQ(*same.Get(), 0);
}

TEST_F(MetricTest, OptionsComeFromTheServersLists) {
  metric::TopKAccuracy top({2});
  EXPECT_EQ(top.component().name, "top_k_accuracy");
  top.Update(NDArray::Of<float>({2}, {2, 0}), NDArray::Of<float>({2, 3}, {0, 2, 1, 0, 2, 1}));
  EXPECT_EQ(*top.Get(), 0.5);
  metric::PerplexityOptions options;
  options.ignore_label = 0;
  metric::Perplexity perplexity(options);
  perplexity.Update(NDArray::Of<float>({2}, {1, 0}), NDArray::Of<float>({2, 2}, {0.5f, 0.5f, 1, 0}));
  EXPECT_NEAR(*perplexity.Get(), 2, 1e-6);
  metric::Loss loss;
  loss.Update({}, NDArray::Of<float>({2}, {1, 2}));
  EXPECT_EQ(*loss.Get(), 1.5);
}

TEST_F(MetricTest, ManyBatchesAndRecordsOfAutograd) {
  metric::Metric f1("f1"), accuracy("accuracy");
  NDArray prediction = NDArray::Of<float>({2, 2}, {1, 0, 0, 1});
  prediction.AttachGrad();
  const NDArray label = NDArray::Of<float>({2}, {0, 1});
  NDArray loss;
  {
    const autograd::Record record;
    loss = (prediction * prediction).Sum();
    for (int i = 0; i < 1500; ++i) {
      f1.Update(label, prediction);
      accuracy.Update(label, prediction);
    }
  }
  loss.Backward();
  EXPECT_EQ(*prediction.grad().Values<float>(), (std::vector<float>{2, 0, 0, 2}));
  prediction.Assign(0);  // Too late for the batches.
  EXPECT_EQ(*f1.Get(), 1);
  EXPECT_EQ(*accuracy.Get(), 1);
}

TEST_F(MetricTest, AnErrorStaysUntilResetAndNamesTheLine) {
  metric::Accuracy accuracy;
  const NDArray bad = NDArray::Ones({2, 2}) + NDArray::Ones({3, 3});
  accuracy.Update(NDArray::Ones({2}), bad);
  EXPECT_TRUE(absl::IsInvalidArgument(accuracy.Get().status()));
  accuracy.Update(NDArray::Ones({2}), NDArray::Ones({2}));
  EXPECT_FALSE(accuracy.Get().ok());
  accuracy.Reset();
  const int line = __LINE__ + 1;
  accuracy.Update({}, NDArray::Ones({2, 2}));
  const absl::Status status = accuracy.Get().status();
  EXPECT_NE(status.message().find("metric_test.cc:" + std::to_string(line)), absl::string_view::npos) << status;
  const absl::Status unknown = metric::Metric("acuracy").Get().status();
  EXPECT_TRUE(absl::IsInvalidArgument(unknown)) << unknown;
  EXPECT_NE(unknown.message().find("there are: accuracy, top_k_accuracy"), absl::string_view::npos) << unknown;
  for (const Attributes& wrong : {Attributes{{"axes", 1}}, Attributes{{"average", "nano"}}, Attributes{{"axis", "one"}}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(metric::Metric("f1", wrong).Get().status()));
  }
}

}  // namespace
}  // namespace gluond::client
