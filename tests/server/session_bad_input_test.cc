// Frames that no client of ours makes, written by hand. Each ends its stream with a Status that says what is wrong, or
// is answered with a Failure; the session, and the work of another one that goes on all the while, are not touched.

#include "grpcpp/generic/generic_stub.h"
#include "tests/server/session_fixture.h"

namespace gluond::server {
namespace {

using grpc::StatusCode;

// Parts of the wire format.
std::string Number(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}
std::string Field(int number, const std::string& bytes) {
  return Number(static_cast<uint64_t>(number) << 3 | 2) + Number(bytes.size()) + bytes;
}
std::string Field(int number, uint64_t value) { return Number(static_cast<uint64_t>(number) << 3) + Number(value); }
std::string Repeated(const std::string& what, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += what;
  return text;
}
// A message of one command, numbered `first`.
std::string OneCommand(const std::string& command, uint64_t first = 1) { return Field(2, first) + Field(3, command); }

struct BadFrame {
  const char* name;
  std::string frame;  // The second message, after `open`.
  StatusCode code;    // OK: answered with a Failure.
  const char* says;
};

constexpr auto kInvalid = StatusCode::INVALID_ARGUMENT;

const BadFrame kBadFrames[] = {
    {"RandomBytes", "\xff\xff\xff\xff\xff\xff", kInvalid, "not a gluond.v1.SessionRequest"},
    {"Truncated", std::string("\x1a\x7fno"), kInvalid, "commands is longer than what holds it"},
    {"TruncatedLarge", Field(3, std::string(9000, 'x')).substr(0, 8000), kInvalid, "longer than its message"},
    {"TruncatedTensor", Field(3, Field(3, Field(2, Field(3, std::string(9000, 'x'))).substr(0, 8000))), kInvalid, "longer than"},
    {"EndlessNumber", std::string("\x10") + std::string(11, '\xff'), kInvalid, "not a gluond.v1.SessionRequest"},
    {"NumberCutShort", std::string("\x10\xff"), kInvalid, "first_number"},
    {"FieldZero", std::string("\x02\x01x"), kInvalid, "not a gluond.v1.SessionRequest"},
    {"GroupOfOldTimes", std::string("\x1b"), kInvalid, "not a gluond.v1.SessionRequest"},
    {"WireTypeSeven", std::string("\x1f"), kInvalid, "not a gluond.v1.SessionRequest"},
    {"CommandIsANumber", Field(2, 1) + Field(3, 7), StatusCode::OK, nullptr},  // An unknown field: ignored.
    {"NotUtf8", OneCommand(Field(1, Field(2, "\xc3\x28"))), kInvalid, "not UTF-8"},
    {"OverTheLimit", Field(99, std::string(3 << 20, '\0')), StatusCode::RESOURCE_EXHAUSTED, "--max_message_bytes"},
    {"OverGrpcsLimit", Field(99, std::string(9 << 20, '\0')), StatusCode::RESOURCE_EXHAUSTED, "larger than max"},
    {"NumberZero", OneCommand(Field(15, ""), 0), kInvalid, "first_number is 0"},
    {"LargestNumber", OneCommand(Field(15, ""), ~uint64_t{0}), StatusCode::FAILED_PRECONDITION, "send again from 1"},
    {"LargestAcknowledgement", Field(4, ~uint64_t{0}), kInvalid, "replies_received"},
    {"OpenAgain", Field(1, ""), kInvalid, "open came again"},
    {"EmptyCommand", OneCommand(""), StatusCode::OK, "no such command"},
    {"UnknownCommand", OneCommand(Field(77, "new")), StatusCode::OK, "no such command"},
    {"ManyEmptyCommands", Field(2, 1) + Repeated(std::string("\x1a\0", 2), 900'000), StatusCode::OK, "no such command"},
    {"ManyEmptyMessages", OneCommand(Field(11, Field(2, Repeated(std::string("\x0a\0", 2), 1'000'000)))),
     StatusCode::RESOURCE_EXHAUSTED, "more than 64 times as many; send it in parts"},
    {"ManyHandles", OneCommand(Field(6, Field(1, std::string(1'900'000, '\1')))), StatusCode::OK, "no such command"},
};

class SessionBadInputTest : public SessionTest {
 protected:
  void SetUp() override {
    Limits limits;
    limits.max_message_bytes = 2 << 20;
    Restart(limits);
  }

  // A stream on which bytes are sent as they are.
  class RawStream {
   public:
    explicit RawStream(const std::shared_ptr<grpc::Channel>& channel) : stub_(channel) {
      stream_ = stub_.PrepareCall(&context_, "/gluond.v1.SessionService/Run", &queue_);
      stream_->StartCall(this);
      Next();
    }
    bool Send(const std::string& bytes) {
      const grpc::Slice slice(bytes);
      stream_->Write(grpc::ByteBuffer(&slice, 1), this);
      return Next();
    }
    bool Receive(v1::SessionResponse* response) {
      grpc::ByteBuffer buffer;
      stream_->Read(&buffer, this);
      grpc::Slice all;
      return Next() && buffer.DumpToSingleSlice(&all).ok() && response->ParseFromArray(all.begin(), static_cast<int>(all.size()));
    }
    grpc::Status Finish() {
      v1::SessionResponse response;
      while (Receive(&response)) continue;
      grpc::Status status;
      stream_->Finish(&status, this);
      Next();
      return status;
    }
    grpc::Status Cancel() {
      context_.TryCancel();
      return Finish();
    }

   private:
    bool Next() {
      void* tag = nullptr;
      bool ok = false;
      return queue_.Next(&tag, &ok) && ok;
    }

    grpc::GenericStub stub_;
    grpc::ClientContext context_;
    grpc::CompletionQueue queue_;
    std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  };

  void Try(const BadFrame& bad) {
    RawStream stream(channel_);
    ASSERT_TRUE(stream.Send(OpenRequest().SerializeAsString()));
    v1::SessionResponse response;
    ASSERT_TRUE(stream.Receive(&response));
    const std::string session = response.opened().session();
    stream.Send(bad.frame);
    if (bad.code == StatusCode::OK) {
      if (bad.says != nullptr) {
        while (response.replies().empty()) ASSERT_TRUE(stream.Receive(&response));
        EXPECT_EQ(response.replies(0).failures(0).status().message(), bad.says);
      }
      (void)stream.Cancel();
    } else {
      const grpc::Status status = stream.Finish();
      EXPECT_EQ(status.error_code(), bad.code) << status.error_message();
      EXPECT_NE(status.error_message().find(bad.says), std::string::npos) << status.error_message();
    }
    ClientStream again(*stub_);
    EXPECT_EQ(again.Open(session), session);
    again.WritesDone();
    EXPECT_TRUE(again.Finish().ok());
  }
};

TEST_F(SessionBadInputTest, EachEndsItsStreamOrFailsAndAnotherSessionIsNotTouched) {
  ClientStream good(*stub_);
  good.Open();
  std::atomic<bool> done = false;
  std::vector<uint64_t> numbers;
  std::thread client([&] {
    uint64_t n = 1;
    for (; !done; ++n) {
      EXPECT_TRUE(good.Send(n, {Mix(1)}));
      numbers.push_back(n);
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    good.Send(n, {Fetch({1})});
    EXPECT_EQ(good.NextValue(), Mixed(numbers));
  });
  for (const BadFrame& bad : kBadFrames) {
    SCOPED_TRACE(bad.name);
    Try(bad);
  }
  done = true;
  client.join();
  EXPECT_EQ(server_->sessions().size(), 1);
}

TEST_F(SessionBadInputTest, ABrokenFirstMessageMakesNoSession) {
  for (const BadFrame& bad : kBadFrames) {
    SCOPED_TRACE(bad.name);
    RawStream stream(channel_);
    stream.Send(bad.frame);
    const grpc::Status status = std::string(bad.name) == "OpenAgain" ? stream.Cancel() : stream.Finish();
    EXPECT_FALSE(status.ok());
  }
  Eventually([this] { return server_->sessions().streams().size() == 0; });
  EXPECT_LE(server_->sessions().size(), 1);
}

}  // namespace
}  // namespace gluond::server
