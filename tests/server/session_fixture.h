// A client of SessionService that does each thing by hand, and a program for the session whose memory tells which
// commands it executed, in which order, and how often.

#ifndef TESTS_SERVER_SESSION_FIXTURE_H_
#define TESTS_SERVER_SESSION_FIXTURE_H_

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/core/interruption.h"
#include "gluond/v1/session.grpc.pb.h"
#include "server/start/protocol.h"
#include "tests/server/service_fixture.h"

namespace gluond::server {

// The test's view of the programs, and its means to hold them up.
struct Probe {
  std::atomic<int> programs = 0;  // The number of programs that live.
  std::atomic<int64_t> executed = 0;
  std::atomic<int64_t> pending = 0;
  std::atomic<bool> closed = false;  // Commands wait, on the lane.
  std::atomic<int> long_every = 0;   // One command in so many takes long; 0: none does.
  std::atomic<int64_t> executed_beside = 0;
  std::atomic<int64_t> ended_beside = 0;  // Programs.
  std::atomic<int64_t> interrupted = 0;   // Commands that have seen the session's end.
  std::atomic<int64_t> tensor_bytes = 0;  // Each program that begins from now on holds so many.
};

// Whether the caller works beside a CPU's lanes.
inline bool IsBesideLanes() { return ThreadName() == "cpu-beside"; }

// Arrays are bytes. Put sets one; Invoke mixes its own number into one; Fetch and WaitAll answer; Seed sleeps so many
// microseconds; InferGraph ends when nobody wants it any more; Prepare does not end before the test sets Probe.pending to 0; SaveSession saves nothing, and says that it
// has.
class TestProgram final : public SessionProgram {
 public:
  TestProgram(Probe& probe, Answer answer) : probe_(probe), answer_(std::move(answer)) {
    ++probe_.programs;
    EXPECT_TRUE(budget_->Charge(tensor_bytes_).ok());
  }
  ~TestProgram() override {
    budget_->Refund(tensor_bytes_);
    if (IsBesideLanes()) ++probe_.ended_beside;
    --probe_.programs;
  }

  int64_t pending() const override { return probe_.pending; }
  Budgets budgets() const override { return {{Device(), budget_}}; }
  bool TakesLong(const v1::Command&) const override {
    return probe_.long_every > 0 && (probe_.executed + 1) % probe_.long_every == 0;
  }
  void Execute(uint64_t number, const v1::Command& command, const Attachments& attachments) override {
    while (probe_.closed) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (IsBesideLanes()) ++probe_.executed_beside;
    ++probe_.executed;
    v1::Reply reply;
    reply.set_number(number);
    switch (command.command_case()) {
      case v1::Command::kPut: return Put(command.put(), attachments);
      case v1::Command::kInvoke: return Mix(number, &arrays_[command.invoke().outputs(0)]);
      case v1::Command::kFetch: return Fetch(command.fetch(), std::move(reply));
      case v1::Command::kWaitAll: return answer_(std::move(reply), {}, 0);
      case v1::Command::kSeed: return std::this_thread::sleep_for(std::chrono::microseconds(command.seed().seed()));
      case v1::Command::kInferGraph:
        while (CheckInterrupted().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        ++probe_.interrupted;
        return;
      case v1::Command::kPrepare: ++probe_.pending; return;
      case v1::Command::kSaveSession:
        reply.mutable_saved()->set_name(command.save_session().name());
        return answer_(std::move(reply), {}, 0);
      default: break;
    }
    reply.add_failures()->mutable_status()->set_message("no such command");
    answer_(std::move(reply), {}, 0);
  }

 private:
  void Put(const v1::Command::Put& put, const Attachments& attachments) {
    const Bytes bytes = attachments.Get(put.tensor().raw());
    std::string& value = arrays_[put.array()];
    value.resize(bytes.size());
    bytes.CopyTo(value.data());
  }
  // Order and number of calls change the result.
  static void Mix(uint64_t number, std::string* value) {
    uint64_t mixed = 0;
    value->resize(8);
    std::memcpy(&mixed, value->data(), 8);
    mixed = mixed * 6364136223846793005u + number;
    std::memcpy(value->data(), &mixed, 8);
  }
  void Fetch(const v1::Command::Fetch& fetch, v1::Reply reply) {
    Attachments attachments;
    int64_t bytes = 0;
    for (const uint64_t array : fetch.arrays()) {
      const std::string& value = arrays_[array];
      bytes += static_cast<int64_t>(value.size());
      reply.add_tensors()->set_raw(value.size() < 4096 ? value : attachments.Add(grpc::Slice(value)));
    }
    answer_(std::move(reply), std::move(attachments), bytes);
  }

  Probe& probe_;
  const Answer answer_;
  const int64_t tensor_bytes_ = probe_.tensor_bytes;
  const std::shared_ptr<Budget> budget_ = std::make_shared<Budget>("the test's session", INT64_MAX, "--no_flag");
  std::map<uint64_t, std::string> arrays_;
};

inline v1::Command Put(uint64_t array, const std::string& bytes) {
  v1::Command command;
  command.mutable_put()->set_array(array);
  command.mutable_put()->mutable_tensor()->set_raw(bytes);
  return command;
}
inline v1::Command Mix(uint64_t array) {
  v1::Command command;
  command.mutable_invoke()->add_outputs(array);
  return command;
}
inline v1::Command Fetch(std::vector<uint64_t> arrays) {
  v1::Command command;
  for (const uint64_t array : arrays) command.mutable_fetch()->add_arrays(array);
  return command;
}
inline v1::Command Sleep(std::chrono::microseconds time) {
  v1::Command command;
  command.mutable_seed()->set_seed(static_cast<uint64_t>(time.count()));
  return command;
}
inline v1::Command Hang() {
  v1::Command command;
  command.mutable_prepare()->set_call(1);
  return command;
}
inline v1::SessionRequest Request(uint64_t first_number, const std::vector<v1::Command>& commands) {
  v1::SessionRequest request;
  request.set_first_number(first_number);
  for (const v1::Command& command : commands) *request.add_commands() = command;
  return request;
}
inline v1::SessionRequest OpenRequest(const std::string& session = "", uint64_t replies_received = 0) {
  v1::SessionRequest request;
  request.mutable_open()->set_session(session);
  request.mutable_open()->set_client_id("ann");
  request.mutable_open()->set_protocol(kProtocol);
  request.mutable_open()->set_host("a secret of this test's own");
  request.set_replies_received(replies_received);
  return request;
}

// One stream, by hand. Cancelled where it is not finished.
class ClientStream {
 public:
  // `token`: the caller's; empty: he has none.
  explicit ClientStream(v1::SessionService::Stub& stub, const std::string& token = "") {
    if (!token.empty()) context_.AddMetadata("authorization", "Bearer " + token);
    stream_ = stub.Run(&context_);
  }
  ~ClientStream() {
    if (!finished_) context_.TryCancel();
    if (!finished_) (void)stream_->Finish();
  }

  bool Send(const v1::SessionRequest& request) { return stream_->Write(request); }
  bool Send(uint64_t first_number, const std::vector<v1::Command>& commands) { return Send(Request(first_number, commands)); }
  bool Receive(v1::SessionResponse* response) { return stream_->Read(response); }
  // The session's name; empty where it cannot be opened.
  std::string Open(const std::string& session = "", uint64_t replies_received = 0) {
    v1::SessionResponse response;
    if (!Send(OpenRequest(session, replies_received)) || !Receive(&response)) return "";
    received_ = response.received();
    EXPECT_EQ(response.opened().resumed(), !session.empty());
    return response.opened().session();
  }
  // Reads until there is a reply more. One without an index: the stream has ended.
  v1::Reply NextReply() {
    while (at_ == response_.replies_size()) {
      at_ = 0;
      if (!Receive(&response_)) return {};
      received_ = response_.received();
    }
    return response_.replies(at_++);
  }
  // The value of its first tensor.
  std::string NextValue() {
    const v1::Reply reply = NextReply();
    return reply.tensors().empty() ? "no value" : reply.tensors(0).raw();
  }
  // Reads until the server says that it has received so many commands.
  void WaitForReceived(uint64_t number) {
    v1::SessionResponse response;
    while (received_ < number && Receive(&response)) received_ = response.received();
    EXPECT_GE(received_, number);
  }
  uint64_t received() const { return received_; }

  void WritesDone() { stream_->WritesDone(); }
  void Cancel() { context_.TryCancel(); }
  // The status that the server gives. Reads all messages before it.
  grpc::Status Finish() {
    v1::SessionResponse response;
    while (stream_->Read(&response)) continue;
    finished_ = true;
    return stream_->Finish();
  }
  void ExpectEnd(grpc::StatusCode code, const std::string& says) {
    const grpc::Status status = Finish();
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_NE(status.error_message().find(says), std::string::npos) << status.error_message();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::SessionRequest, v1::SessionResponse>> stream_;
  v1::SessionResponse response_;
  int at_ = 0;
  uint64_t received_ = 0;
  bool finished_ = false;
};

class SessionTest : public ServiceTest {
 protected:
  void SetUp() override { Restart({}); }
  void TearDown() override {
    stub_.reset();
    ServiceTest::TearDown();
    EXPECT_EQ(probe_.programs, 0);
  }
  void Restart(const Limits& limits) {
    stub_.reset();
    StartServer(limits);
    stub_ = v1::SessionService::NewStub(channel_);
  }
  void Configure(ServerOptions* options) override {
    options->session_program = [this](const SessionProgram::Shared&, Place&, Lane&, const Limits&, SessionProgram::Answer answer) {
      return std::make_unique<TestProgram>(probe_, std::move(answer));
    };
  }

  // Waits, but not forever.
  template <class Condition>
  static void Eventually(const Condition& condition) {
    for (int i = 0; i < 10'000 && !condition(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(condition());
  }
  // The session still works: on a stream of its own.
  void ExpectAlive(const std::string& session, uint64_t commands) {
    ClientStream stream(*stub_);
    ASSERT_EQ(stream.Open(session), session);
    EXPECT_EQ(stream.received(), commands);
  }
  // The contents of an array once the commands with these numbers were mixed into it.
  static std::string Mixed(const std::vector<uint64_t>& numbers) {
    uint64_t mixed = 0;
    for (const uint64_t number : numbers) mixed = mixed * 6364136223846793005u + number;
    return std::string(reinterpret_cast<const char*>(&mixed), 8);
  }

  Probe probe_;
  std::unique_ptr<v1::SessionService::Stub> stub_;
};

// Over a real connection.
class SessionTcpTest : public SessionTest {
 protected:
  void SetUp() override {
    SessionTest::SetUp();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(server_->port()), grpc::InsecureChannelCredentials());
    stub_ = v1::SessionService::NewStub(channel_);
  }
  void Configure(ServerOptions* options) override {
    SessionTest::Configure(options);
    options->address = "127.0.0.1:0";
  }
};

}  // namespace gluond::server

#endif  // TESTS_SERVER_SESSION_FIXTURE_H_
