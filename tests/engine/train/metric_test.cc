#include "engine/train/metric.h"

#include <cmath>

#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

class MetricTest : public TrainerTest {
 protected:
  absl::StatusOr<double> Mean(const Spec& spec, const Tensor& prediction, const Tensor& label,
                              const Tensor& loss = {}) {
    ASSIGN_OR_RETURN(auto metric, Metrics().Make(spec.type, spec.attrs));
    MetricSum sum;
    RETURN_IF_ERROR(metric->Add(prediction, label, loss, &sum));
    return sum.mean();
  }
};

TEST_F(MetricTest, AccuracyCountsTheLargest) {
  const Tensor p = Make<float>({4, 3}, {1, 2, 3, 3, 2, 1, 0, 9, 0, 5, 5, 1});
  EXPECT_EQ(*Mean({"accuracy", {}}, p, Make<float>({4}, {2, 0, 0, 1})), 0.5);  // Ties go to the lower class.
  EXPECT_EQ(*Mean({"accuracy", {}}, p, Make<int64_t>({4}, {2, 0, 1, 0})), 1);
}

TEST_F(MetricTest, TopKCountsTheBest) {
  const Tensor p = Make<float>({2, 4}, {4, 3, 2, 1, 1, 2, 3, 4});
  const Tensor y = Make<float>({2}, {1, 0});
  EXPECT_EQ(*Mean({"top_k_accuracy", {{"top_k", "1"}}}, p, y), 0);
  EXPECT_EQ(*Mean({"top_k_accuracy", {{"top_k", "2"}}}, p, y), 0.5);
  EXPECT_EQ(*Mean({"top_k_accuracy", {{"top_k", "4"}}}, p, y), 1);
}

TEST_F(MetricTest, WrongLabelsAreWrongAnswers) {
  const Tensor p = Make<float>({4, 2}, {1, 0, 1, 0, 1, 0, NAN, NAN});
  EXPECT_EQ(*Mean({"accuracy", {}}, p, Make<float>({4}, {-1, 2, NAN, 0})), 0);
}

TEST_F(MetricTest, PixelsHaveLabelsToo) {
  const Tensor p = Make<float>({1, 2, 3}, {1, 0, 1, 0, 1, 0});
  EXPECT_NEAR(*Mean({"accuracy", {}}, p, Make<float>({1, 3}, {0, 1, 1})), 2.0 / 3, 1e-12);
}

TEST_F(MetricTest, LossIsTheMean) {
  EXPECT_EQ(*Mean({"loss", {}}, {}, {}, Make<double>({4}, {1, 2, 3, 6})), 3);
}

TEST_F(MetricTest, ShapesMustFit) {
  const Tensor p = Make<float>({2, 2}, {1, 0, 1, 0});
  EXPECT_EQ(Mean({"accuracy", {}}, p, Make<float>({3}, {0, 0, 0})).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Mean({"accuracy", {}}, p, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Mean({"acuracy", {}}, p, p).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gluond
