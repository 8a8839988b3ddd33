// Tensors as messages, raw and typed. WithTensors: the server reads the same message as if protobuf had copied the tensors.

#include "client/cpp/tensor_message.h"

#include <limits>

#include "gluond/v1/training.pb.h"
#include "google/protobuf/util/message_differencer.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "gtest/gtest.h"

namespace gluond::client {
namespace {

v1::TrainStepRequest Received(grpc::ByteBuffer buffer) {
  v1::TrainStepRequest request;
  grpc::ProtoBufferReader reader(&buffer);
  EXPECT_TRUE(request.ParseFromZeroCopyStream(&reader));
  return request;
}

class WithTensorsTest : public testing::TestWithParam<Tensors> {};

TEST_P(WithTensorsTest, ReadsAsTheMessageThatHoldsThem) {
  v1::TrainStepRequest request;
  request.set_model("m");
  request.mutable_call()->set_sequence(7);
  v1::TrainStepRequest whole = request;
  for (const auto& [name, tensor] : GetParam()) {
    (*whole.mutable_inputs())[name] = ToProto(tensor);
  }
  const v1::TrainStepRequest received = Received(WithTensors(request, v1::TrainStepRequest::kInputsFieldNumber, GetParam()));
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(received, whole)) << received.ShortDebugString() << "\n"
                                                                                   << whole.ShortDebugString();
}

INSTANTIATE_TEST_SUITE_P(Tensors, WithTensorsTest,
                         testing::Values(Tensors{}, Tensors{{"x", Tensor::Of<float>({2}, {1, 2})}},
                                         Tensors{{"x", Tensor()}, {"", Tensor::Of<uint8_t>({}, {3})}},
                                         Tensors{{"data", Tensor::Of<float>({100, 100}, std::vector<float>(10000, 0.5f))},
                                                 {std::string(300, 'n'), Tensor::Of<int64_t>({2, 0}, {})},
                                                 {"label", Tensor::Of<double>({200}, std::vector<double>(200, 3))}}));

TEST(WithTensorsTest, KeepsTheBytesAndDoesNotCopyThem) {
  const void* bytes = nullptr;
  grpc::ByteBuffer buffer;
  {
    const Tensor x = Tensor::Of<float>({1000}, std::vector<float>(1000, 0.5f));
    bytes = x.bytes().data();
    buffer = WithTensors(v1::TrainStepRequest(), v1::TrainStepRequest::kInputsFieldNumber, {{"x", x}});
  }
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(buffer.Dump(&slices).ok());
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(slices[1].begin(), bytes);
  EXPECT_EQ(*FromProto(Received(buffer).inputs().at("x"))->Values<float>(), std::vector<float>(1000, 0.5f));
}

TEST(TensorMessageTest, TravelsAsRawBytes) {
  const Tensor x = Tensor::Of<int64_t>({3}, {-1, 0, std::numeric_limits<int64_t>::max()});
  const v1::Tensor proto = ToProto(x);
  EXPECT_EQ(proto.raw().size(), 24u);
  EXPECT_EQ(*FromProto(proto), x);
}

struct TypedCase {
  const char* name;
  DType dtype;
  void (*fill)(v1::Tensor*);
  std::string bytes;
};

class TypedReplyTest : public testing::TestWithParam<TypedCase> {};

TEST_P(TypedReplyTest, BecomesBytes) {
  v1::Tensor proto;
  proto.set_dtype(ToProto(GetParam().dtype));
  proto.add_shape(2);
  GetParam().fill(&proto);
  const auto tensor = FromProto(proto);
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
        {"Float32", DType::kFloat32, AddFloats, BytesOf<float>(1, -0.5)},
        {"Float16", DType::kFloat16, AddFloats, BytesOf<uint16_t>(0x3c00, 0xb800)},
        {"Bfloat16", DType::kBfloat16, AddFloats, BytesOf<uint16_t>(0x3f80, 0xbf00)},
        {"Float64", DType::kFloat64, [](v1::Tensor* t) { t->add_double_data(1), t->add_double_data(2); }, BytesOf<double>(1, 2)},
        {"Int8", DType::kInt8, AddInts, BytesOf<int8_t>(1, -2)},
        {"Int32", DType::kInt32, AddInts, BytesOf<int32_t>(1, -2)},
        {"Int64", DType::kInt64, [](v1::Tensor* t) { t->add_int64_data(1), t->add_int64_data(-2); }, BytesOf<int64_t>(1, -2)},
        {"Bool", DType::kBool, [](v1::Tensor* t) { t->add_bool_data(true), t->add_bool_data(false); }, BytesOf<uint8_t>(1, 0)},
    }),
    [](const auto& info) { return info.param.name; });

TEST(TensorMessageTest, StatisticsAreNoValues) {
  v1::Tensor proto;
  proto.mutable_statistics()->set_mean(1);
  EXPECT_EQ(FromProto(proto).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond::client
