// Tensors from and to the wire: every form, every dtype, and refusals.

#include "server/codec/tensor_codec.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "engine/runtime/budget.h"
#include "engine/runtime/device_allocator.h"
#include "engine/store/crc32c.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "server/codec/tensor_statistics.h"

namespace gluond::server {
namespace {

class TensorCodec : public testing::Test {
 protected:
  absl::StatusOr<Tensor> Decode(const std::string& text) {
    v1::Tensor proto;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &proto)) << text;
    return DecodeTensor(proto, attachments_, *memory_);
  }
  template <class T>
  std::vector<T> Values(const std::string& text) {
    const absl::StatusOr<Tensor> tensor = Decode(text);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    if (!tensor.ok()) return {};
    EXPECT_EQ(tensor->dtype(), DTypeOf<T>);
    return std::vector<T>(tensor->data<T>(), tensor->data<T>() + tensor->Size());
  }
  void ExpectRefused(const std::string& text, const std::string& part) {
    const absl::StatusOr<Tensor> tensor = Decode(text);
    EXPECT_EQ(tensor.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(std::string(tensor.status().message()).find(part), std::string::npos) << tensor.status();
  }

  std::shared_ptr<Budget> budget_ = std::make_shared<Budget>("the test", 1 << 20, "--max_tensor_bytes");
  std::unique_ptr<DeviceAllocator> memory_ = *DeviceAllocator::Create(Device(), budget_);
  Attachments attachments_;
};

TEST_F(TensorCodec, TypedValuesBecomeTheDtypeThatIsAsked) {
  EXPECT_EQ(Values<float>("shape: 3 float_data: [1, 2.5, -3]"), (std::vector<float>{1, 2.5, -3}));
  EXPECT_EQ(Values<int32_t>("shape: 2 dtype: INT32 int_data: [7, -7]"), (std::vector<int32_t>{7, -7}));
  EXPECT_EQ(Values<int64_t>("shape: 1 dtype: INT64 int64_data: 9007199254740993"), (std::vector<int64_t>{9007199254740993}));
  EXPECT_EQ(Values<uint8_t>("shape: 2 dtype: UINT8 float_data: [0, 255]"), (std::vector<uint8_t>{0, 255}));
  EXPECT_EQ(Values<double>("shape: 1 dtype: FLOAT64 double_data: 0.1"), (std::vector<double>{0.1}));
  EXPECT_EQ(Values<bool>("shape: 2 dtype: BOOL bool_data: [true, false]"), (std::vector<bool>{true, false}));
  EXPECT_EQ(Values<float>("float_data: 4"), (std::vector<float>{4})) << "a scalar of rank 0";
  EXPECT_TRUE(Values<float>("shape: 0").empty());
}

TEST_F(TensorCodec, HalfTypesRoundToNearest) {
  const absl::StatusOr<Tensor> half = Decode("shape: 1 dtype: FLOAT16 float_data: 1.0009765625");
  ASSERT_TRUE(half.ok());
  EXPECT_EQ(half->data<Half>()[0].bits, 0x3c01);
  const absl::StatusOr<Tensor> brain = Decode("shape: 1 dtype: BFLOAT16 float_data: 3.140625");
  ASSERT_TRUE(brain.ok());
  EXPECT_EQ(brain->data<BFloat16>()[0].bits, 0x4049);
}

TEST_F(TensorCodec, FillsAreMadeByTheServer) {
  EXPECT_EQ(Values<float>("shape: 2 fill {}"), (std::vector<float>{0, 0}));
  EXPECT_EQ(Values<int32_t>("shape: 2 dtype: INT32 fill { constant: 5 }"), (std::vector<int32_t>{5, 5}));
  EXPECT_EQ(Values<float>("shape: 3 fill { arange { start: 1 step: 0.5 } }"), (std::vector<float>{1, 1.5, 2}));
  EXPECT_EQ(Values<int8_t>("shape: 3 dtype: INT8 fill { arange {} }"), (std::vector<int8_t>{0, 1, 2}));
  EXPECT_EQ(Values<float>("shape: 2 fill { arange { start: 3 step: 0 } }"), (std::vector<float>{3, 3}));
  EXPECT_EQ(Values<float>("shape: 2 fill { normal { mean: 3 sigma: 0 } }"), (std::vector<float>{3, 3}));
  const auto below_1 = Values<float>("shape: 1000 fill { uniform { low: -1 } }");
  EXPECT_GT(*std::max_element(below_1.begin(), below_1.end()), 0.9f) << "the upper end that is left out is 1";
  const auto below_0 = Values<float>("shape: 1000 fill { uniform { low: -1 high: 0 } }");
  EXPECT_LE(*std::max_element(below_0.begin(), below_0.end()), 0);
  const auto uniform = Values<float>("shape: 1000 fill { uniform { low: 2 high: 4 seed: 1 } }");
  EXPECT_TRUE(std::all_of(uniform.begin(), uniform.end(), [](float x) { return x >= 2 && x < 4; }));
  EXPECT_EQ(uniform, Values<float>("shape: 1000 fill { uniform { low: 2 high: 4 seed: 1 } }"));
  EXPECT_NE(uniform, Values<float>("shape: 1000 fill { uniform { low: 2 high: 4 seed: 2 } }"));
  const auto normal = Values<double>("shape: 20000 dtype: FLOAT64 fill { normal { mean: 3 sigma: 2 seed: 1 } }");
  double mean = 0, square = 0;
  for (double x : normal) mean += x / 20000, square += (x - 3) * (x - 3) / 20000;
  EXPECT_NEAR(mean, 3, 0.05);
  EXPECT_NEAR(square, 4, 0.1);
}

TEST_F(TensorCodec, RawBytesAreTakenAsTheyLie) {
  const float values[] = {1, 2, 3};
  v1::Tensor proto;
  proto.add_shape(3);
  proto.set_raw(values, sizeof(values));
  const absl::StatusOr<Tensor> tensor = DecodeTensor(proto, attachments_, *memory_);
  ASSERT_TRUE(tensor.ok());
  EXPECT_EQ(tensor->data<float>()[2], 3);
}

TEST_F(TensorCodec, AnAlignedAttachmentIsNotCopied) {
  grpc::Slice slice(8192);
  v1::Tensor proto;
  proto.add_shape(2048);
  const void* data = slice.begin();
  proto.set_raw(attachments_.Add(std::move(slice)));
  const absl::StatusOr<Tensor> tensor = DecodeTensor(proto, attachments_, *memory_);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->data(), data);
  attachments_ = Attachments();
  tensor->data<float>()[0] = 1;  // The tensor keeps the slice.
}

TEST_F(TensorCodec, PiecesAndBadlyAlignedBytesAreCopied) {
  std::string bytes(8193, 'x');
  v1::Tensor proto;
  proto.add_shape(2048);
  proto.set_raw(attachments_.Add(Slices{grpc::Slice(bytes.substr(0, 1000)), grpc::Slice(bytes.substr(0, 7192))}));
  ASSERT_TRUE(DecodeTensor(proto, attachments_, *memory_).ok());
  const grpc::Slice whole(bytes);
  const grpc_slice raw = whole.c_slice();
  grpc::Slice odd(grpc_slice_sub(raw, 1, 8193), grpc::Slice::STEAL_REF);
  grpc_slice_unref(raw);
  const void* data = odd.begin();
  proto.set_raw(attachments_.Add(std::move(odd)));
  const absl::StatusOr<Tensor> tensor = DecodeTensor(proto, attachments_, *memory_);
  ASSERT_TRUE(tensor.ok());
  EXPECT_NE(tensor->data(), data);
}

TEST_F(TensorCodec, WhatIsWrongIsSaid) {
  ExpectRefused("shape: [2, 3] float_data: [1, 2]", "shape [2,3] has 6 elements, but float_data has 2");
  ExpectRefused("shape: 2 raw: 'abc'", "takes 8 bytes, but raw has 3");
  ExpectRefused("shape: 2", "got none");
  ExpectRefused("shape: 1 float_data: 1 int_data: 1", "got float_data and int_data");
  ExpectRefused("shape: -1 float_data: 1", "negative dimension");
  ExpectRefused("shape: -9223372036854775808 float_data: 1", "has dimension -9223372036854775808");
  ExpectRefused("shape: [9223372036854775807, 2] fill {}", "more than 2^48 elements");
  ExpectRefused("shape: [4294967296, 4294967296] raw: ''", "more than 2^48 elements");
  ExpectRefused("shape: [1, 1, 1, 1, 1, 1, 1, 1, 1] float_data: 1", "rank 9");
  ExpectRefused("shape: 1 dtype: UINT8 int_data: 300", "int_data[0] is 300, which uint8 cannot hold");
  ExpectRefused("shape: 1 dtype: INT32 float_data: 0.5", "float_data[0] is 0.5, which int32 cannot hold");
  ExpectRefused("shape: 1 dtype: INT64 double_data: 9223372036854775808", "int64 cannot hold");
  ExpectRefused("shape: 1 dtype: INT32 float_data: nan", "int32 cannot hold");
  ExpectRefused("shape: 1 dtype: BOOL raw: '\\002'", "want 0 or 1");
  ExpectRefused("shape: 1 fill { uniform { low: 2 high: 1 } }", "low < high");
  ExpectRefused("shape: 1 fill { uniform { low: nan high: 1 } }", "low < high");
  ExpectRefused("shape: 1 fill { uniform { low: 0 high: 0 } }", "low < high");
  ExpectRefused("shape: 1 fill { normal { sigma: -1 } }", "sigma");
  ExpectRefused("shape: 300 dtype: UINT8 fill { arange {} }", "do not fit uint8");
  ExpectRefused("shape: 1 dtype: INT32 fill { constant: 1e300 }", "do not fit int32");
  ExpectRefused("shape: 1 dtype: INT32 fill { arange { step: inf } }", "do not fit int32");
  ExpectRefused("shape: 1 dtype: INT32 fill { arange { start: nan } }", "do not fit int32");
  ExpectRefused("shape: 1 statistics {}", "statistics are for replies");
  v1::Tensor proto;
  proto.set_dtype(static_cast<v1::Tensor::DType>(99));
  EXPECT_EQ(DecodeTensor(proto, attachments_, *memory_).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(TensorCodec, MemoryIsChargedBeforeItIsUsed) {
  const absl::StatusOr<Tensor> tensor = Decode("shape: 1000000000 fill {}");
  EXPECT_EQ(tensor.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(tensor.status().message().find("--max_tensor_bytes"), absl::string_view::npos) << tensor.status();
  EXPECT_EQ(budget_->used(), 0);
}

TEST_F(TensorCodec, EveryDtypeComesBackFromItsOwnForms) {
  for (const DType dtype : kAllDTypes) {
    const std::string name = v1::Tensor::DType_Name(ToProto(dtype));
    const std::string values = dtype == DType::kBool ? "int_data: [0, 1, 1]" : "int_data: [0, 1, 2]";
    const absl::StatusOr<Tensor> tensor = Decode("shape: 3 dtype: " + name + " " + values);
    ASSERT_TRUE(tensor.ok()) << tensor.status();
    for (const v1::Tensor::Encoding form : {v1::Tensor::RAW, v1::Tensor::TYPED}) {
      v1::Tensor proto;
      int64_t left = 1 << 20;
      EXPECT_TRUE(EncodeTensor(*tensor, form, &left, &proto, &attachments_).ok());
      const absl::StatusOr<Tensor> back = DecodeTensor(proto, attachments_, *memory_);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_EQ(back->dtype(), dtype);
      EXPECT_EQ(std::memcmp(back->data(), tensor->data(), tensor->bytes()), 0) << name;
    }
  }
}

TEST_F(TensorCodec, LargeRepliesReferToTheTensor) {
  const absl::StatusOr<Tensor> tensor = Decode("shape: 2000 fill { arange {} }");
  v1::Tensor proto;
  int64_t left = 0;  // Nothing is copied.
  EXPECT_TRUE(EncodeTensor(*tensor, v1::Tensor::RAW, &left, &proto, &attachments_).ok());
  EXPECT_EQ(proto.raw().size(), Attachments::kPlaceholderSize);
  EXPECT_EQ(attachments_.Get(proto.raw()).contiguous(), static_cast<const char*>(tensor->data()));
}

TEST_F(TensorCodec, StatisticsLeaveOutWhatIsNotFinite) {
  const absl::StatusOr<Tensor> tensor = Decode("shape: 4 float_data: [1, 3, nan, inf]");
  v1::Tensor proto;
  int64_t left = 0;
  EXPECT_TRUE(EncodeTensor(*tensor, v1::Tensor::STATISTICS, &left, &proto, &attachments_).ok());
  EXPECT_EQ(proto.statistics().min(), 1);
  EXPECT_EQ(proto.statistics().max(), 3);
  EXPECT_EQ(proto.statistics().mean(), 2);
  EXPECT_EQ(proto.statistics().std(), 1);
  EXPECT_EQ(proto.statistics().nonfinite(), 2);
  EXPECT_TRUE(proto.raw().empty());
}

TEST(Crc32c, IsCastagnolis) {
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c("6789", Crc32c("12345")), 0xe3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

}  // namespace
}  // namespace gluond::server
