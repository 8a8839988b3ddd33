// The memory that a message takes when it is parsed is known before, and is no more than a factor of its bytes.

#include "server/wire/wire_message.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <latch>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gluond/v1/graph.pb.h"
#include "gluond/v1/model.pb.h"
#include "gluond/v1/operator.pb.h"
#include "gluond/v1/session.pb.h"
#include "gluond/v1/training.pb.h"
#include "google/protobuf/arena.h"
#include "gtest/gtest.h"
#include "server/wire/wire_check.h"

namespace gluond::server {
namespace {

using google::protobuf::Message;

std::string Repeated(const std::string& what, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += what;
  return text;
}

std::string Graph(int nodes) {
  v1::DefineModelRequest request;
  for (int i = 0; i < nodes; ++i) {
    v1::Node* node = request.mutable_graph()->add_nodes();
    node->set_name(absl::StrCat("a_node_of_some_length_", i));
    node->set_op("FullyConnected");
    node->add_inputs("x");
    node->add_inputs(absl::StrCat("another_node_of_some_length_", i));
    (*node->mutable_attributes())["num_hidden"].set_number_value(i);
    (*node->mutable_attributes())["flatten"].set_string_value("a text of more than sixteen bytes");
  }
  return request.SerializeAsString();
}

template <class Values>
std::string Typed(const Values& set) {
  v1::InvokeRequest request;
  set(request.add_inputs());
  return request.SerializeAsString();
}

struct Case {
  const char* name;
  const Message& type;
  std::string text;
};

std::vector<Case> Cases() {
  const auto& invoke = v1::InvokeRequest::default_instance();
  return {
      {"EmptyTensors", invoke, Repeated(std::string("\x12\0", 2), 50'000)},
      {"Graph", v1::DefineModelRequest::default_instance(), Graph(5'000)},
      {"Floats", invoke, Typed([](v1::Tensor* t) {
         for (int i = 0; i < 100'000; ++i) t->add_float_data(1);
       })},
      {"SmallNumbers", invoke, Typed([](v1::Tensor* t) {
         for (int i = 0; i < 100'000; ++i) t->add_int64_data(1);
       })},
      {"LargeNumbers", invoke, Typed([](v1::Tensor* t) {
         for (int i = 0; i < 100'000; ++i) t->add_int64_data(-1);
       })},
      {"Flags", invoke, Typed([](v1::Tensor* t) {
         for (int i = 0; i < 100'000; ++i) t->add_bool_data(true);
       })},
      {"Names", v1::GetParametersRequest::default_instance(), Repeated(std::string("\x12\x01x", 3), 50'000)},
      {"LongNames", v1::GetParametersRequest::default_instance(),
       Repeated(std::string("\x12\x40", 2) + std::string(64, 'x'), 5'000)},
      {"UnknownFields", invoke, Repeated(std::string("\xf8\x7f\x01", 3), 50'000)},
      {"UnknownTexts", invoke, Repeated(std::string("\xfa\x7f\x01x", 4), 50'000)},
  };
}

// An estimate from below: the arena's blocks, and the objects that strings and unknown fields have outside of it.
int64_t Taken(const Case& c, google::protobuf::Arena* arena) {
  Message* const message = c.type.New(arena);
  EXPECT_TRUE(message->ParseFromString(c.text)) << c.name;
  return std::max(static_cast<int64_t>(arena->SpaceUsed()), static_cast<int64_t>(message->SpaceUsedLong()));
}

TEST(ParsedBytes, AreAboutWhatAnArenaTakes) {
  for (const Case& c : Cases()) {
    google::protobuf::Arena arena;
    const int64_t taken = Taken(c, &arena), estimated = ParsedBytes(c.text, *c.type.GetDescriptor());
    EXPECT_GE(estimated, taken) << c.name;
    EXPECT_LE(estimated, 5 * taken) << c.name;
    RecordProperty(c.name, absl::StrCat(c.text.size(), " -> ", taken, ", estimated ", estimated));
  }
}

absl::Status Parse(const std::string& text, const Message& type, const ChargeParsed& charge = nullptr) {
  const std::unique_ptr<Message> message(type.New());
  Attachments attachments;
  return ParseMessage({grpc::Slice(text)}, message.get(), &attachments, charge);
}

TEST(ParseMessage, ManySmallMessagesAreRefusedBeforeTheyTakeMemory) {
  const absl::Status status = Parse(Repeated(std::string("\x12\0", 2), 100'000), v1::InvokeRequest::default_instance());
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "200000 bytes hold so many messages")) << status;
}

TEST(ParseMessage, SensibleMessagesPass) {
  for (const Case& c : Cases()) {
    if (std::string(c.name) == "EmptyTensors") continue;
    EXPECT_TRUE(Parse(c.text, c.type).ok()) << c.name;
  }
}

TEST(ParseMessage, AsksForWhatItWillTakeBeforeItParses) {
  int64_t asked = 0;
  const std::string text = Graph(1000);
  const auto refuse = [&asked](int64_t bytes) {
    asked = bytes;
    return absl::ResourceExhaustedError("no memory");
  };
  const absl::Status status = Parse(text, v1::DefineModelRequest::default_instance(), refuse);
  EXPECT_EQ(status, absl::ResourceExhaustedError("no memory"));
  EXPECT_EQ(asked, static_cast<int64_t>(text.size()) + ParsedBytes(text, *v1::DefineModelRequest::descriptor()));
  EXPECT_TRUE(Parse(Graph(1), v1::DefineModelRequest::default_instance(), refuse).ok()) << "a short one is not asked for";
}

TEST(ParseMessage, LongOnesAreParsedTwoAtATimeAndOthersMeanwhile) {
  const std::string text = Graph(12'000);
  ASSERT_GT(text.size(), kLongText);
  std::mutex mu;
  int now = 0, most = 0;
  std::latch two_are_in(2), they_may_go(1);
  const auto parse = [&](const std::function<void()>& meanwhile) {
    const absl::Status status = Parse(text, v1::DefineModelRequest::default_instance(), [&](int64_t) {
      {
        std::lock_guard lock(mu);
        most = std::max(most, ++now);
      }
      meanwhile();
      std::lock_guard lock(mu);
      --now;
      return absl::OkStatus();
    });
    EXPECT_TRUE(status.ok()) << status;
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      parse([&] {
        two_are_in.count_down();
        they_may_go.wait();
      });
    });
  }
  two_are_in.wait();
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { parse([] {}); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // They may come in, if they do not wait.
  EXPECT_TRUE(Parse(Graph(100), v1::DefineModelRequest::default_instance()).ok());
  they_may_go.count_down();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(most, 2);
}

}  // namespace
}  // namespace gluond::server
