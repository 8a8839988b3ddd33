// WithTensors: the server reads the same message as if protobuf had copied the tensors.

#include "client/cpp/tensor_message.h"

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
    (*whole.mutable_inputs())[name] = tensor.ToProto();
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
  EXPECT_EQ(*Tensor::FromProto(Received(buffer).inputs().at("x"))->Values<float>(), std::vector<float>(1000, 0.5f));
}

}  // namespace
}  // namespace gluond::client
