#include "gluond/network.h"

#include "client/cpp/type_messages.h"
#include "google/protobuf/util/json_util.h"
#include "google/protobuf/util/message_differencer.h"
#include "gtest/gtest.h"

namespace gluond::client {
namespace {

// Whether the server would read `message` from the JSON.
template <class T>
testing::AssertionResult Says(const T& value, const std::string& json) {
  const auto message = ToProto(value);
  std::decay_t<decltype(message)> expected;
  if (!google::protobuf::util::JsonStringToMessage(json, &expected).ok()) {
    return testing::AssertionFailure() << "bad JSON: " << json;
  }
  if (google::protobuf::util::MessageDifferencer::Equals(message, expected)) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << message.DebugString() << "is not " << json;
}

TEST(NetworkTest, AttributesAreNumbersBooleansTextsTuplesAndComponents) {
  BlockTree block;
  block.attributes = {
      {"kernel_size", {5, 3}}, {"use_bias", false}, {"alpha", 0.5}, {"weight_initializer", Named("Xavier", {{"magnitude", 2}})}};
  EXPECT_EQ(*Find(block.attributes, "kernel_size"), Value({5, 3}));
  EXPECT_EQ(*Find(block.attributes, "use_bias"), Value(false));
  EXPECT_EQ(*Find(block.attributes, "alpha"), Value(0.5));
  EXPECT_EQ(Find(block.attributes, "beta"), nullptr);
  EXPECT_TRUE(Says(*Find(block.attributes, "weight_initializer"), R"({"attributes":{"magnitude":2},"name":"Xavier"})"));
}

TEST(NetworkTest, InputsDeclareWhatVaries) {
  EXPECT_TRUE(Says(Input("data", {-1, 3}), R"({"name":"data","kind":"INPUT","shape":["-1","3"],"dtype":"FLOAT32"})"));
}

}  // namespace
}  // namespace gluond::client
