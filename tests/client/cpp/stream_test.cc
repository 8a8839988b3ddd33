// A stream that several threads write and read, against a server that sends every message back.

#include "client/cpp/stream.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "grpcpp/generic/async_generic_service.h"
#include "gtest/gtest.h"

namespace gluond::client {
namespace {

constexpr std::chrono::milliseconds kPatience{20000};
constexpr std::chrono::milliseconds kMoment{50};
// Pauses of the attending thread.
constexpr std::chrono::milliseconds kAtOnce{0};
constexpr std::chrono::milliseconds kBriefly{1};
constexpr std::chrono::milliseconds kLikely{20000};

// Sends every message back, and ends with the client's half.
class Echo final : public grpc::ServerGenericBidiReactor {
 public:
  Echo() { StartRead(&message_); }
  void OnReadDone(bool ok) override {
    if (ok) {
      StartWrite(&message_);
    } else {
      Finish(grpc::Status::OK);
    }
  }
  void OnWriteDone(bool ok) override {
    if (ok) StartRead(&message_);
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer message_;
};

// Reads nothing.
class Deaf final : public grpc::ServerGenericBidiReactor {
 public:
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }
};

class Service final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
    if (context->method() == "/s/Deaf") return new Deaf;
    return new Echo;
  }
};

class StreamTest : public testing::Test {
 protected:
  StreamTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(&service_);
    builder.SetMaxReceiveMessageSize(-1);
    server_ = builder.BuildAndStart();
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    channel_ = grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments);
  }
  ~StreamTest() override { server_->Shutdown(std::chrono::system_clock::now() + kMoment); }

  // The event of a thread that asks as soon as no other does.
  static int64_t Led(Stream& stream, std::chrono::milliseconds patience) {
    int64_t event = Stream::kBusy;
    while (event == Stream::kBusy) event = stream.Lead(patience);
    return event;
  }

  // The message that an event tells of, which is dropped.
  static std::string Taken(Stream& stream, int64_t size) {
    if (size < 0) return absl::StrCat("event ", size);
    std::string text(size, ' ');
    const int64_t number = stream.Copy(text.data(), size);
    EXPECT_GT(number, 0);
    stream.Drop(number);
    return text;
  }

  Service service_;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(StreamTest, MessagesComeBackInTheirOrderToWhoeverAsks) {
  Stream stream(channel_, "/s/Echo", "hello");
  EXPECT_EQ(Taken(stream, stream.Attend(kPatience, kAtOnce)), "hello");
  const std::string large(5 << 20, 'x');
  for (const std::string& message : {std::string("a"), std::string(), large, std::string("b")}) stream.Write(message);
  for (const std::string& message : {std::string("a"), std::string(), large, std::string("b")}) {
    EXPECT_TRUE(Taken(stream, stream.Lead(kPatience)) == message);
  }
  EXPECT_EQ(stream.Lead(kMoment), Stream::kNothing);
}

TEST_F(StreamTest, AMessageStaysUntilItIsDropped) {
  Stream stream(channel_, "/s/Echo", "hello");
  stream.Write("second one");
  ASSERT_EQ(stream.Lead(kPatience), 5);
  EXPECT_EQ(stream.Attend(kPatience, kAtOnce), 5);
  std::string text(5, ' ');
  EXPECT_EQ(stream.Copy(text.data(), 4), 0);  // A message of another size is another one.
  EXPECT_EQ(stream.Copy(text.data(), 5), 1);
  stream.Drop(2);
  EXPECT_EQ(stream.Lead(kPatience), 5);
  stream.Drop(1);
  stream.Drop(1);  // Another thread has copied it as well.
  EXPECT_EQ(Taken(stream, stream.Lead(kPatience)), "second one");
}

TEST_F(StreamTest, TheAttendingThreadAsksForAThreadThatWasBusy) {
  Stream stream(channel_, "/s/Echo", "hello");
  EXPECT_EQ(Taken(stream, stream.Attend(kPatience, kAtOnce)), "hello");
  bool was_busy = false;
  while (!was_busy) {
    std::atomic<bool> has_left = false;
    std::thread leading([&] {
      EXPECT_EQ(Led(stream, 2 * kMoment), Stream::kNothing);
      has_left = true;
    });
    while (!was_busy && !has_left) was_busy = stream.Lead(std::chrono::milliseconds(0)) == Stream::kBusy;
    leading.join();
  }
  std::thread attending([&] { EXPECT_EQ(Taken(stream, stream.Attend(kPatience, kLikely)), "answer"); });
  stream.Write("answer");
  attending.join();
}

TEST_F(StreamTest, OneThreadAsksAndTheOthersAreBusyUntilItHasItsMessage) {
  Stream stream(channel_, "/s/Echo", "hello");
  EXPECT_EQ(Taken(stream, stream.Attend(kPatience, kAtOnce)), "hello");
  int64_t attended = 0;
  std::thread attending([&] { attended = stream.Attend(kPatience, kAtOnce); });
  while (stream.Lead(std::chrono::milliseconds(0)) != Stream::kBusy) std::this_thread::yield();
  stream.Write("answer");
  attending.join();
  EXPECT_EQ(Taken(stream, attended), "answer");
  std::thread paused([&] { EXPECT_EQ(stream.Attend(4 * kMoment, kLikely), Stream::kNothing); });
  std::this_thread::sleep_for(kMoment);
  EXPECT_EQ(stream.Lead(std::chrono::milliseconds(0)), Stream::kNothing);
  stream.Write("another");
  EXPECT_EQ(Taken(stream, stream.Lead(kPatience)), "another");
  paused.join();
}

TEST_F(StreamTest, AfterABriefPauseTheAttendingThreadFollowsOnALeader) {
  Stream stream(channel_, "/s/Echo", "hello");
  EXPECT_EQ(Taken(stream, stream.Attend(kPatience, kAtOnce)), "hello");
  int64_t led = 0;
  std::thread leading([&] {
    while (led = stream.Lead(kPatience), led == Stream::kBusy) std::this_thread::yield();
  });
  while (stream.Lead(std::chrono::milliseconds(0)) != Stream::kBusy) std::this_thread::yield();
  std::thread attending([&] { EXPECT_EQ(Taken(stream, stream.Attend(kPatience, kBriefly)), "second"); });
  stream.Write("one");
  leading.join();
  EXPECT_EQ(Taken(stream, led), "one");
  const auto begin = std::chrono::steady_clock::now();
  stream.Write("second");
  attending.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
}

TEST_F(StreamTest, AMessageIsOneThreadsUntilItIsDropped) {
  Stream stream(channel_, "/s/Echo", "hello");
  stream.Write("second");
  ASSERT_EQ(stream.Lead(kPatience), 5);
  std::thread([&] { EXPECT_EQ(stream.Lead(kPatience), Stream::kBusy); }).join();
  std::thread([&] { EXPECT_EQ(stream.Attend(kMoment, kAtOnce), Stream::kNothing); }).join();
  EXPECT_EQ(stream.Lead(kPatience), 5);  // The thread was interrupted before it took its message.
  std::thread attending([&] { EXPECT_EQ(Taken(stream, stream.Attend(kPatience, kLikely)), "second"); });
  EXPECT_EQ(Taken(stream, 5), "hello");
  attending.join();
}

TEST_F(StreamTest, AMessageThatStaysIsAnotherThreads) {
  Stream stream(channel_, "/s/Echo", "hello");
  std::thread([&] { EXPECT_EQ(stream.Lead(kPatience), 5); }).join();
  EXPECT_EQ(Taken(stream, stream.Attend(kPatience, kAtOnce)), "hello");
}

TEST_F(StreamTest, AKickEndsAWait) {
  Stream stream(channel_, "/s/Echo", "hello");
  EXPECT_EQ(Taken(stream, stream.Attend(kPatience, kAtOnce)), "hello");
  const auto begin = std::chrono::steady_clock::now();
  std::thread attending([&] { EXPECT_EQ(stream.Attend(kPatience, kAtOnce), Stream::kNothing); });
  while (stream.Lead(std::chrono::milliseconds(0)) != Stream::kBusy) std::this_thread::yield();
  stream.Kick();
  attending.join();
  stream.Kick();  // Nobody waits: the next wait ends at once.
  EXPECT_EQ(stream.Attend(kPatience, kLikely), Stream::kNothing);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
}

TEST_F(StreamTest, ItTellsWhatHasNotLeftAndWhenItHas) {
  Stream stream(channel_, "/s/Echo", "hello");
  EXPECT_EQ(Taken(stream, stream.Attend(kPatience, kAtOnce)), "hello");
  stream.SayWhenWritten();
  EXPECT_EQ(stream.Attend(kPatience, kAtOnce), Stream::kWritable);
  Stream deaf(channel_, "/s/Deaf", "hello");
  const std::string large(4 << 20, 'x');
  int64_t waiting = 0;
  for (int i = 0; i < 20; ++i) waiting = deaf.Write(large);
  EXPECT_GT(waiting, 20 << 20);
  deaf.SayWhenWritten();
  EXPECT_EQ(deaf.Attend(kMoment, kAtOnce), Stream::kNothing);
}

TEST_F(StreamTest, ItEndsWithItsHalvesAndByACancel) {
  Stream stream(channel_, "/s/Echo", "hello");
  stream.Write("last");
  stream.Finish();
  EXPECT_EQ(Taken(stream, stream.Attend(kPatience, kAtOnce)), "hello");
  EXPECT_EQ(Taken(stream, stream.Lead(kPatience)), "last");
  EXPECT_EQ(stream.Lead(kPatience), Stream::kEnded);
  EXPECT_TRUE(stream.status().ok());
  EXPECT_EQ(stream.Write("too late"), 0);
  Stream cancelled(channel_, "/s/Echo", "hello");
  EXPECT_EQ(Taken(cancelled, cancelled.Attend(kPatience, kAtOnce)), "hello");
  std::thread leading([&] { EXPECT_EQ(cancelled.Lead(kPatience), Stream::kEnded); });
  cancelled.Cancel();
  leading.join();
  EXPECT_EQ(cancelled.Attend(kPatience, kLikely), Stream::kEnded);
  EXPECT_EQ(cancelled.status().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(StreamTest, WhereThereIsNoServerItSaysSo) {
  Stream stream(grpc::CreateChannel("unix:/no/server", grpc::InsecureChannelCredentials()), "/s/Echo", "hello");
  EXPECT_EQ(stream.Attend(kPatience, kAtOnce), Stream::kEnded);
  EXPECT_EQ(stream.status().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(StreamTest, WhoIsWithinLeavesWhenItIsClosed) {
  Stream stream(channel_, "/s/Echo", "hello");
  EXPECT_EQ(Taken(stream, stream.Attend(kPatience, kAtOnce)), "hello");
  std::thread leading([&] { EXPECT_EQ(Led(stream, kPatience), Stream::kEnded); });
  while (stream.Lead(std::chrono::milliseconds(0)) != Stream::kBusy) std::this_thread::yield();
  stream.Close();
  leading.join();
  EXPECT_EQ(stream.Lead(kPatience), Stream::kEnded);
  EXPECT_EQ(stream.Attend(kPatience, kAtOnce), Stream::kEnded);
  EXPECT_EQ(stream.Write("too late"), 0);
  stream.Finish();
  stream.Cancel();
  stream.Kick();
}

}  // namespace
}  // namespace gluond::client
