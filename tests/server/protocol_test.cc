#include "server/start/protocol.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <string>

#include "absl/strings/string_view.h"
#include "engine/core/error_info.h"
#include "gtest/gtest.h"
#include "server/codec/describe_operator.h"

namespace gluond::server {
namespace {

TEST(ProtocolTest, PresentAndNewerClientsAreSpokenWith) {
  EXPECT_TRUE(CheckProtocol(kLowestProtocol).ok());
  EXPECT_TRUE(CheckProtocol(kProtocol).ok());
  EXPECT_TRUE(CheckProtocol(kProtocol + 1).ok()) << "a newer client decides for itself";
}

TEST(ProtocolTest, AnOldClientLearnsWhatToDo) {
  for (const uint32_t old : {0u, 1u}) {
    const absl::Status status = CheckProtocol(old);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(InfoOf(status)->reason, "CLIENT_TOO_OLD");
    EXPECT_NE(status.message().find("it speaks protocol 1"), std::string::npos) << status;
    EXPECT_NE(status.message().find("install the client"), std::string::npos) << status;
  }
}

TEST(ProtocolTest, FeaturesAreSorted) {
  EXPECT_TRUE(
      std::is_sorted(std::begin(kFeatures), std::end(kFeatures), [](absl::string_view a, absl::string_view b) { return a < b; }));
}

TEST(RegistryHashTest, ItDependsOnEachPartAndOnTheOrder) {
  v1::Operator a, b;
  a.set_name("a");
  b.set_name("b");
  const auto of = [](std::initializer_list<v1::Operator> all) {
    OperatorHash hash;
    for (const v1::Operator& op : all) hash.Add(op);
    return hash.Digits();
  };
  EXPECT_EQ(of({a, b}), of({a, b}));
  EXPECT_EQ(of({a, b}).size(), 16u);
  EXPECT_NE(of({a, b}), of({b, a}));
  EXPECT_NE(of({a}), of({a, b}));
  v1::Operator changed = a;
  changed.add_parameters()->set_default_value("0.5");
  EXPECT_NE(of({changed, b}), of({a, b}));
  EXPECT_EQ(of({}), "cbf29ce484222325") << "it is the same everywhere";
}

}  // namespace
}  // namespace gluond::server
