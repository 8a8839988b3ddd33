#include "client/cli/load_shot.h"

#include <gmock/gmock.h>

#include <cstring>

#include "google/protobuf/util/json_util.h"

namespace gluond::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

inference::ModelMetadataResponse Metadata(const std::string& inputs) {
  inference::ModelMetadataResponse metadata;
  EXPECT_TRUE(google::protobuf::util::JsonStringToMessage("{\"inputs\": [" + inputs + "]}", &metadata).ok());
  return metadata;
}

template <class T>
std::vector<T> Values(const std::string& datatype, int64_t max_integer = 1) {
  const auto request = RandomRequest(Metadata(R"({"name": "x", "datatype": ")" + datatype + R"(", "shape": [-1, 50]})"),
                                     {.model = "m", .batch = 4, .max_integer = max_integer});
  EXPECT_TRUE(request.ok()) << request.status();
  std::vector<T> values(200);
  EXPECT_EQ(request->raw_input_contents(0).size(), values.size() * sizeof(T)) << datatype;
  std::memcpy(values.data(), request->raw_input_contents(0).data(), values.size() * sizeof(T));
  return values;
}

template <class T>
void ExpectAll(const std::string& datatype, int64_t max_integer, T least, T most) {
  const std::vector<T> values = Values<T>(datatype, max_integer);
  EXPECT_THAT(values, testing::Each(testing::AllOf(testing::Ge(least), testing::Le(most)))) << datatype;
  EXPECT_NE(*std::min_element(values.begin(), values.end()), *std::max_element(values.begin(), values.end()));
}

TEST(RandomRequestTest, ValuesAreOfTheInputsTypeAndWithinItsBounds) {
  ExpectAll<float>("FP32", 1, 0, 1);
  ExpectAll<double>("FP64", 1, 0, 1);
  ExpectAll<uint16_t>("FP16", 1, 0x3800, 0x3bff);  // 0.5 to 0.9995.
  ExpectAll<uint16_t>("BF16", 1, 0x3f00, 0x3f7f);
  ExpectAll<uint8_t>("BOOL", 1000, 0, 1);
  ExpectAll<int8_t>("INT8", 1000, 0, 127);
  ExpectAll<uint8_t>("UINT8", 1000, 0, 255);
  ExpectAll<int16_t>("INT16", 7, 0, 7);
  ExpectAll<uint32_t>("UINT32", 7, 0, 7);
  ExpectAll<int32_t>("INT32", 1000, 0, 1000);
  ExpectAll<int64_t>("INT64", int64_t{1} << 40, 0, int64_t{1} << 40);
}

TEST(RandomRequestTest, TheBatchIsTheSizeOfOpenAxes) {
  const auto request = RandomRequest(Metadata(R"({"name": "a", "datatype": "FP32", "shape": [-1, 4]},
                                                 {"name": "b", "datatype": "INT64", "shape": [2]})"),
                                     {.model = "m", .version = "stable", .batch = 3});
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->model_name() + request->model_version(), "mstable");
  EXPECT_THAT(request->inputs(0).shape(), ElementsAre(3, 4));
  EXPECT_THAT(request->inputs(1).shape(), ElementsAre(2));
  EXPECT_EQ(request->raw_input_contents(1).size(), 16u);
}

TEST(RandomRequestTest, TheSeedChoosesTheValues) {
  const auto metadata = Metadata(R"({"name": "a", "datatype": "FP32", "shape": [8]})");
  const auto values = [&](int64_t seed) { return RandomRequest(metadata, {.seed = seed})->raw_input_contents(0); };
  EXPECT_EQ(values(1), values(1));
  EXPECT_NE(values(1), values(2));
}

TEST(RandomRequestTest, WhatCannotBeMadeIsTold) {
  const auto error = [](const std::string& inputs, int64_t batch) {
    return std::string(RandomRequest(Metadata(inputs), {.batch = batch}).status().message());
  };
  EXPECT_THAT(error(R"({"name": "t", "datatype": "BYTES", "shape": [1]})", 1), HasSubstr("'t' takes BYTES"));
  const char* const wide = R"({"name": "w", "datatype": "FP64", "shape": [-1, -1, 2]})";
  EXPECT_THAT(error(wide, 1 << 20), HasSubstr("more than 1 GiB"));
  EXPECT_THAT(error(wide, INT64_MAX), HasSubstr("more than 1 GiB"));
}

}  // namespace
}  // namespace gluond::cli
