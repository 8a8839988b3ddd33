#include "client/cpp/tensor.h"

#include <limits>

#include "gtest/gtest.h"

namespace gluond::client {
namespace {

constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

TEST(TensorTest, KeepsShapeTypeAndValues) {
  const Tensor x = Tensor::Of<float>({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(x.dtype(), v1::Tensor::FLOAT32);
  EXPECT_EQ(x.shape(), (Shape{2, 2}));
  EXPECT_EQ(x.size(), 4);
  EXPECT_EQ(*x.Values<float>(), (std::vector<float>{1, 2, 3, 4}));
}

TEST(TensorTest, TravelsAsRawBytes) {
  const Tensor x = Tensor::Of<int64_t>({3}, {-1, 0, kHuge});
  const v1::Tensor proto = x.ToProto();
  EXPECT_EQ(proto.raw().size(), 24u);
  EXPECT_EQ(*Tensor::FromProto(proto), x);
}

TEST(TensorTest, ReadsAsNoOtherType) {
  EXPECT_EQ(Tensor::Of<float>({1}, {1}).Values<double>().status().message(), "Tensor: holds FLOAT32, read as FLOAT64");
}

TEST(TensorTest, HoldsScalarsAndNothing) {
  EXPECT_EQ(Tensor::Of<float>({}, {7}).size(), 1);
  EXPECT_EQ(Tensor::Of<float>({2, 0}, {}).size(), 0);
  EXPECT_EQ(Tensor().size(), 0);
  EXPECT_TRUE(Tensor::FromBytes(v1::Tensor::FLOAT32, {0, kHuge, kHuge}, "").ok());
}

struct BadCase {
  const char* name;
  Shape shape;
  size_t bytes;
};

class BadShapeTest : public testing::TestWithParam<BadCase> {};

TEST_P(BadShapeTest, IsRefused) {
  const auto tensor = Tensor::FromBytes(v1::Tensor::FLOAT32, GetParam().shape, std::string(GetParam().bytes, 'x'));
  EXPECT_EQ(tensor.status().code(), absl::StatusCode::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(Tensor, BadShapeTest,
                         testing::ValuesIn<BadCase>({
                             {"Negative", {2, -1}, 8},
                             {"TooFewBytes", {3}, 8},
                             {"TooManyBytes", {1}, 8},
                             {"SizeWrapsToSmall", {int64_t{1} << 62, 4}, 0},
                             {"Huge", {kHuge}, 4},
                         }),
                         [](const auto& info) { return info.param.name; });

struct TypedCase {
  const char* name;
  DType dtype;
  void (*fill)(v1::Tensor*);
  std::string bytes;
};

class TypedReplyTest : public testing::TestWithParam<TypedCase> {};

TEST_P(TypedReplyTest, BecomesBytes) {
  v1::Tensor proto;
  proto.set_dtype(GetParam().dtype);
  proto.add_shape(2);
  GetParam().fill(&proto);
  const auto tensor = Tensor::FromProto(proto);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(std::string(tensor->bytes()), GetParam().bytes);
}

template <class T>
std::string BytesOf(T a, T b) {
  const T values[] = {a, b};
  return std::string(reinterpret_cast<const char*>(values), sizeof(values));
}

void AddFloats(v1::Tensor* t) { t->add_float_data(1), t->add_float_data(-0.5); }
void AddInts(v1::Tensor* t) { t->add_int_data(1), t->add_int_data(-2); }

INSTANTIATE_TEST_SUITE_P(
    Tensor, TypedReplyTest,
    testing::ValuesIn<TypedCase>({
        {"Float32", v1::Tensor::FLOAT32, AddFloats, BytesOf<float>(1, -0.5)},
        {"Float16", v1::Tensor::FLOAT16, AddFloats, BytesOf<uint16_t>(0x3c00, 0xb800)},
        {"Bfloat16", v1::Tensor::BFLOAT16, AddFloats, BytesOf<uint16_t>(0x3f80, 0xbf00)},
        {"Float64", v1::Tensor::FLOAT64, [](v1::Tensor* t) { t->add_double_data(1), t->add_double_data(2); },
         BytesOf<double>(1, 2)},
        {"Int8", v1::Tensor::INT8, AddInts, BytesOf<int8_t>(1, -2)},
        {"Int32", v1::Tensor::INT32, AddInts, BytesOf<int32_t>(1, -2)},
        {"Int64", v1::Tensor::INT64, [](v1::Tensor* t) { t->add_int64_data(1), t->add_int64_data(-2); }, BytesOf<int64_t>(1, -2)},
        {"Bool", v1::Tensor::BOOL, [](v1::Tensor* t) { t->add_bool_data(true), t->add_bool_data(false); }, BytesOf<uint8_t>(1, 0)},
    }),
    [](const auto& info) { return info.param.name; });

TEST(TensorTest, StatisticsAreNoValues) {
  v1::Tensor proto;
  proto.mutable_statistics()->set_mean(1);
  EXPECT_EQ(Tensor::FromProto(proto).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond::client
