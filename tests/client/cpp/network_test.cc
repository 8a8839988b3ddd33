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

TEST(NetworkTest, BlocksNestLikeGluons) {
  EXPECT_TRUE(Says(Sequential({Dense(64, {{"activation", "relu"}}), WithName(Dense(10), "head")}),
                   R"({"block":"HybridSequential","children":[)"
                   R"({"block":"Dense","attributes":{"activation":"relu","units":64}},)"
                   R"({"block":"Dense","attributes":{"units":10},"name":"head"}]})"));
}

TEST(NetworkTest, AttributesAreNumbersBooleansTextsTuplesAndComponents) {
  const BlockTree block = Block(
      "Conv2D",
      {{"kernel_size", {5, 3}}, {"use_bias", false}, {"alpha", 0.5}, {"weight_initializer", Named("Xavier", {{"magnitude", 2}})}});
  EXPECT_EQ(*Find(block.attributes, "kernel_size"), Value({5, 3}));
  EXPECT_EQ(*Find(block.attributes, "use_bias"), Value(false));
  EXPECT_EQ(*Find(block.attributes, "alpha"), Value(0.5));
  EXPECT_EQ(Find(block.attributes, "beta"), nullptr);
  EXPECT_TRUE(Says(*Find(block.attributes, "weight_initializer"), R"({"attributes":{"magnitude":2},"name":"Xavier"})"));
}

TEST(NetworkTest, NodesReadEachOtherByReference) {
  GraphBuilder graph;
  const std::string fc1 = graph.Add("FullyConnected", {"data"}, {{"num_hidden", 4}});
  const std::string fc2 = graph.Add("FullyConnected", {fc1}, {{"num_hidden", 2}});
  const std::string out = graph.Add("softmax", {fc2}, {}, "out");
  EXPECT_EQ(fc1, "fullyconnected0");
  EXPECT_EQ(fc2, "fullyconnected1");
  EXPECT_TRUE(Says(graph.Outputs({out}), R"({"nodes":[)"
                                         R"({"name":"fullyconnected0","op":"FullyConnected","attributes":{"num_hidden":4},)"
                                         R"("inputs":["data"]},)"
                                         R"({"name":"fullyconnected1","op":"FullyConnected","attributes":{"num_hidden":2},)"
                                         R"("inputs":["fullyconnected0"]},)"
                                         R"({"name":"out","op":"softmax","inputs":["fullyconnected1"]}],"outputs":["out"]})"));
}

TEST(NetworkTest, InputsDeclareWhatVaries) {
  EXPECT_TRUE(Says(Input("data", {-1, 3}), R"({"name":"data","kind":"INPUT","shape":["-1","3"],"dtype":"FLOAT32"})"));
}

}  // namespace
}  // namespace gluond::client
