// Structs of gluond/types.h: each field of each message comes and goes, and those that are absent stay so.

#include "client/cpp/type_messages.h"

#include <string>

#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace gluond::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Sets each field to something, to a depth that trees end at.
void Fill(Message* message, int depth) {
  const auto* const type = message->GetDescriptor();
  const Reflection* const reflection = message->GetReflection();
  if (type->full_name() == "google.protobuf.Value") {
    message->MergeFromString(std::string("\x1a\x01v", 3));  // The text "v".
    return;
  }
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* const field = type->field(i);
    const bool many = field->is_repeated();
    switch (field->cpp_type()) {
#define GLUOND_SET(TYPE, NAME, value)                                                                   \
  case FieldDescriptor::CPPTYPE_##TYPE:                                                                 \
    many ? reflection->Add##NAME(message, field, value) : reflection->Set##NAME(message, field, value); \
    break;
      GLUOND_SET(INT32, Int32, 3)
      GLUOND_SET(INT64, Int64, 5)
      GLUOND_SET(UINT32, UInt32, 7)
      GLUOND_SET(UINT64, UInt64, 9)
      GLUOND_SET(DOUBLE, Double, 0.1)
      GLUOND_SET(BOOL, Bool, true)
      GLUOND_SET(STRING, String, "text")
      GLUOND_SET(ENUM, EnumValue, field->enum_type()->value(field->enum_type()->value_count() - 1)->number())
#undef GLUOND_SET
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (many && depth > 0) Fill(reflection->AddMessage(message, field), depth - 1);
        if (!many && depth > 0) Fill(reflection->MutableMessage(message, field), depth - 1);
        break;
      default: FAIL() << field->full_name();
    }
  }
}

template <class T>
class TypeMessagesTest : public testing::Test {};

using Messages = testing::Types<v1::Block, v1::Checkpoint, v1::CheckGradientResponse, v1::Component, v1::Dataset,
                                v1::EvaluateResponse, v1::ExplainRequest, v1::ExplainResponse, v1::GetGroupResponse,
                                v1::GetServerInfoResponse, v1::Graph, v1::Model, v1::Operator, v1::RouteVersionsRequest, v1::Rows,
                                v1::SavedSession, v1::ServedVersion, v1::StepReport, v1::TrainProgress, v1::TrainRequest,
                                v1::TrainStepResponse, v1::Trainer, v1::Variable, inference::ModelMetadataResponse>;
TYPED_TEST_SUITE(TypeMessagesTest, Messages);

TYPED_TEST(TypeMessagesTest, EachFieldComesAndGoes) {
  TypeParam message;
  Fill(&message, 4);
  const TypeParam again = ToProto(FromProto(message));
  if constexpr (std::is_same_v<TypeParam, v1::TrainRequest>) {  // Fields that the client sets itself.
    message.clear_model();
    message.clear_call();
  }
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(message, again)) << message.DebugString() << "is not\n"
                                                                                      << again.DebugString();
}

TYPED_TEST(TypeMessagesTest, AbsentFieldsStayAbsent) {
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equivalent(ToProto(FromProto(TypeParam())), TypeParam()))
      << ToProto(FromProto(TypeParam())).DebugString();
}

TEST(ValueMessageTest, EachKindComesAndGoes) {
  for (const Value& value :
       {Value(), Value(true), Value(2.5), Value("text"), Value({1, 2}), Value(Named("sgd", {{"momentum", 0.9}}))}) {
    EXPECT_EQ(FromProto(ToProto(value)), value);
  }
  EXPECT_EQ(ToProto(Value(int64_t{1} << 53)).string_value(), "9007199254740992");
  EXPECT_EQ(ToProto(Value(1 << 30)).number_value(), 1 << 30);
}

TEST(ValueMessageTest, TimesBeforeTheirOriginsComeAndGo) {
  const absl::Time time = absl::FromUnixNanos(-1'500'000'001);
  EXPECT_EQ(FromProto(ToProto(time)), time);
  EXPECT_GE(ToProto(time).nanos(), 0);
  EXPECT_EQ(FromProto(ToProto(absl::Nanoseconds(-1'500'000'001))), absl::Nanoseconds(-1'500'000'001));
}

}  // namespace
}  // namespace gluond::client
