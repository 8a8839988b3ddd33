#include "engine/train/metric.h"

#include <array>
#include <cmath>

#include "gmock/gmock.h"
#include "tests/engine/train/trainer_fixture.h"

namespace gluond {
namespace {

using testing::HasSubstr;

class MetricTest : public TrainerTest {
 protected:
  absl::StatusOr<double> Mean(const Spec& spec, const Tensor& prediction, const Tensor& label, const Tensor& loss = {}) {
    ASSIGN_OR_RETURN(auto metric, Metrics().Make(spec.type, spec.attrs));
    MetricSum sum;
    RETURN_IF_ERROR(metric->Add(prediction, label, loss, &sum));
    return metric->Value(sum);
  }
  // The value over two batches, whose predictions and labels these are.
  double OfTwo(const Spec& spec, const std::array<std::pair<Tensor, Tensor>, 2>& batches) {
    const auto metric = *Metrics().Make(spec.type, spec.attrs);
    MetricSum sum;
    EXPECT_EQ(metric->Value(sum), 0) << "before the first batch";
    for (const auto& [prediction, label] : batches) EXPECT_OK(metric->Add(prediction, label, {}, &sum));
    return metric->Value(sum);
  }
  // Scores that choose these classes.
  Tensor Choosing(const std::vector<int>& chosen, int classes) {
    std::vector<float> scores(chosen.size() * static_cast<size_t>(classes));
    for (size_t i = 0; i < chosen.size(); ++i) scores[i * static_cast<size_t>(classes) + chosen[i]] = 1;
    return Make<float>({static_cast<int64_t>(chosen.size()), classes}, scores);
  }
  std::string ErrorOf(const Spec& spec, const Tensor& prediction, const Tensor& label) {
    const absl::Status status = Mean(spec, prediction, label).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
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

TEST_F(MetricTest, ClassesHaveAnAxis) {
  const Tensor p = Make<float>({1, 2, 3}, {1, 2, 3, 6, 5, 4});
  EXPECT_EQ(*Mean({"acc", {{"axis", "-1"}}}, p, Make<float>({1, 2}, {2, 0})), 1);
  EXPECT_EQ(*Mean({"acc", {{"axis", "2"}}}, p, Make<float>({1, 2}, {2, 1})), 0.5);
  EXPECT_THAT(ErrorOf({"acc", {{"axis", "3"}}}, p, Make<float>({1, 2}, {2, 1})), HasSubstr("axis 3 is none"));
}

// Labels 1 0 1 1 | 0 1 and predictions 1 1 0 1 | 0 0: each batch has a value of its own.
TEST_F(MetricTest, BinaryScoresAreOfBatchesOrOfAllSamples) {
  const std::array<std::pair<Tensor, Tensor>, 2> batches = {std::pair(Choosing({1, 1, 0, 1}, 2), Make<float>({4}, {1, 0, 1, 1})),
                                                            std::pair(Choosing({0, 0}, 2), Make<int64_t>({2}, {0, 1}))};
  // True positives 2, false ones 1, false negatives 1, then 0, 0, 1: 2 tp / (2 tp + fp + fn).
  EXPECT_NEAR(OfTwo({"f1", {}}, batches), (4.0 / 6 + 0) / 2, 1e-12);
  EXPECT_NEAR(OfTwo({"f1", {{"average", "micro"}}}, batches), 4.0 / 7, 1e-12);
  // (tp tn - fp fn) / sqrt((tp + fp) (tp + fn) (tn + fp) (tn + fn)) without factors of 0.
  EXPECT_NEAR(OfTwo({"mcc", {}}, batches), ((2 * 0 - 1 * 1) / std::sqrt(3 * 3 * 1 * 1) + 0) / 2, 1e-12);
  EXPECT_NEAR(OfTwo({"MCC", {{"average", "micro"}}}, batches), (2 * 1 - 1 * 2) / std::sqrt(3 * 4 * 2 * 3), 1e-12);
  EXPECT_THAT(ErrorOf({"f1", {}}, Choosing({0, 1, 0}, 3), Make<float>({3}, {0, 1, 2})), HasSubstr("labels 0 and 2 beside 1"));
}

TEST_F(MetricTest, PccOfTwoClassesIsMcc) {
  const Tensor p = Choosing({1, 1, 0, 1, 0, 0, 1}, 2), y = Make<float>({7}, {1, 0, 1, 1, 0, 0, 0});
  EXPECT_NEAR(*Mean({"pcc", {}}, p, y), *Mean({"mcc", {}}, p, y), 1e-12);
  EXPECT_NEAR(*Mean({"pcc", {}}, Choosing({0, 1, 2, 1}, 3), Make<float>({4}, {0, 1, 2, 1})), 1, 1e-12);
  EXPECT_THAT(ErrorOf({"pcc", {}}, Choosing({0}, 3), Make<float>({1}, {3})), HasSubstr("label 3 of sample 0 is no class"));
  EXPECT_THAT(ErrorOf({"pcc", {}}, Choosing({0}, 257), Make<float>({1}, {3})), HasSubstr("257 classes; want 256"));
}

TEST_F(MetricTest, LikelihoodsAreOfTheLabels) {
  const Tensor p = Make<float>({3, 2}, {0.25, 0.75, 0.5, 0.5, 1, 0}), y = Make<float>({3}, {1, 0, 1});
  EXPECT_NEAR(*Mean({"ce", {}}, p, y), -(std::log(0.75) + std::log(0.5) + std::log(1e-12)) / 3, 1e-6);
  EXPECT_NEAR(*Mean({"nll_loss", {{"eps", "0.25"}}}, p, y), -(std::log(1) + std::log(0.75) + std::log(0.25)) / 3, 1e-6);
  EXPECT_NEAR(*Mean({"perplexity", {}}, p, y), std::pow(0.75 * 0.5 * 1e-10, -1.0 / 3), 1e-3);
  EXPECT_NEAR(*Mean({"perplexity", {{"ignore_label", "1"}}}, p, y), 2, 1e-6);
  EXPECT_NEAR(*Mean({"perplexity", {{"axis", "0"}}}, p, Make<float>({2}, {1, 7})), std::sqrt(1 / (0.5 * 1e-10)), 1);
  EXPECT_THAT(ErrorOf({"cross-entropy", {}}, p, Make<float>({3}, {1, 2, 1})),
              HasSubstr("label 2 of sample 1 is no class; want 0 to 1"));
}

TEST_F(MetricTest, DistancesAreMeansOverBatches) {
  const std::array<std::pair<Tensor, Tensor>, 2> batches = {std::pair(Make<float>({2, 1}, {1, 2}), Make<float>({2}, {3, 2})),
                                                            std::pair(Make<double>({1}, {5}), Make<float>({1}, {4}))};
  EXPECT_NEAR(OfTwo({"mae", {}}, batches), (1.0 + 1) / 2, 1e-12);
  EXPECT_NEAR(OfTwo({"mse", {}}, batches), (2.0 + 1) / 2, 1e-12);
  EXPECT_NEAR(OfTwo({"rmse", {}}, batches), (std::sqrt(2.0) + 1) / 2, 1e-12);
  EXPECT_THAT(ErrorOf({"mae", {}}, Make<float>({2}, {1, 2}), Make<float>({1}, {1})), HasSubstr("one label for each"));
}

TEST_F(MetricTest, PearsonsCorrelation) {
  const std::array<std::pair<Tensor, Tensor>, 2> batches = {std::pair(Make<float>({3}, {1, 2, 3}), Make<float>({3}, {2, 4, 6})),
                                                            std::pair(Make<float>({2}, {0, 1}), Make<float>({2}, {1, 0}))};
  EXPECT_NEAR(OfTwo({"pearsonr", {}}, batches), (1.0 - 1) / 2, 1e-12);
  // The pairs (1,2) (2,4) (3,6) (0,1) (1,0) have the means 1.4 and 2.6, covariance sum 9.8, variances 5.2 and 23.2.
  EXPECT_NEAR(OfTwo({"pearsonr", {{"average", "micro"}}}, batches), 9.8 / std::sqrt(5.2 * 23.2), 1e-6);
}

TEST_F(MetricTest, LossIsTheMean) { EXPECT_EQ(*Mean({"loss", {}}, {}, {}, Make<double>({4}, {1, 2, 3, 6})), 3); }

TEST_F(MetricTest, ShapesMustFit) {
  const Tensor p = Make<float>({2, 2}, {1, 0, 1, 0});
  EXPECT_EQ(Mean({"accuracy", {}}, p, Make<float>({3}, {0, 0, 0})).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Mean({"accuracy", {}}, p, {}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Mean({"acuracy", {}}, p, p).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gluond
