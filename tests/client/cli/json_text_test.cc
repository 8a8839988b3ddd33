// JsonText: protobuf reads it as the message that the struct comes from.

#include "client/cli/json_text.h"

#include <limits>

#include "client/cpp/type_messages.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace gluond::cli {
namespace {

template <class Message>
void ExpectRead(const Message& message) {
  const std::string json = JsonText(client::FromProto(message));
  Message read;
  const auto status = google::protobuf::util::JsonStringToMessage(json, &read);
  ASSERT_TRUE(status.ok()) << status.ToString() << "\n" << json;
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(message, read)) << json;
}

TEST(JsonTextTest, ProtobufReadsTheSameModel) {
  v1::Model model;
  model.set_name("a \"name\"\\ with\n\x01 all");
  model.set_tensor_bytes(int64_t{1} << 60);
  model.mutable_created()->set_seconds(1'700'000'000);
  model.mutable_created()->set_nanos(120'000'000);
  model.mutable_placement()->set_virtual_shards(8);
  v1::Variable& input = *model.add_inputs();
  input.set_kind(v1::Variable::INPUT);
  input.add_shape(-1);
  input.set_dtype(v1::Tensor::BFLOAT16);
  input.set_lr_mult(0.1);
  auto& attributes = *input.mutable_initializer()->mutable_attributes();
  attributes["scale"].set_number_value(1e-30);
  attributes["none"].set_null_value(google::protobuf::NULL_VALUE);
  attributes["tuple"].mutable_list_value()->add_values()->set_bool_value(true);
  attributes["inner"].mutable_struct_value();
  ExpectRead(model);
}

TEST(JsonTextTest, ProtobufReadsTimesAndMaps) {
  v1::GetGroupResponse group;
  group.mutable_pause()->set_nanos(250'000'001);
  group.set_steps_per_second(std::numeric_limits<double>::infinity());
  group.add_members()->set_place(v1::GroupMember::RANK);
  ExpectRead(group);
  v1::RouteVersionsRequest routes;
  (*routes.mutable_labels())["stable"] = 3;
  (*routes.mutable_weights())[2] = 95;
  ExpectRead(routes);
}

TEST(JsonTextTest, DefaultsAreThereAndAbsentOnesAreNot) {
  const std::string json = JsonText(client::Checkpoint());
  EXPECT_NE(json.find(R"("step":"0")"), std::string::npos) << json;
  EXPECT_NE(json.find(R"("has_trainer":false)"), std::string::npos) << json;
  EXPECT_EQ(json.find("created"), std::string::npos) << json;
  EXPECT_NE(JsonText(client::Dataset()).find(R"("columns":[])"), std::string::npos);
}

}  // namespace
}  // namespace gluond::cli
