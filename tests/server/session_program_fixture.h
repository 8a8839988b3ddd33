// A SessionProgram without a stream, on a CPU's lane: commands from JSON, and their answers.

#ifndef TESTS_SERVER_SESSION_PROGRAM_FIXTURE_H_
#define TESTS_SERVER_SESSION_PROGRAM_FIXTURE_H_

#include <gmock/gmock.h>

#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "server/session/program.h"
#include "tests/engine/imperative/imperative_bench.h"
#include "tests/server/service_fixture.h"

namespace gluond::server {

class SessionProgramTest : public testing::Test {
 protected:
  void SetUp() override { Open({}); }
  void TearDown() override {
    Close();
    for (int i = 0; i < 1000 && devices_->tensor_bytes() > scratch_; ++i) Fence();
    EXPECT_LE(devices_->tensor_bytes(), scratch_) << "the session is gone, its tensors are not";
  }

  void Open(const Limits& limits) {
    Close();
    lane_.reset();
    auto devices = Devices::Open("cpu", 1, limits);
    ASSERT_TRUE(devices.ok()) << devices.status();
    saved_.reset();
    runner_.reset();
    models_.reset();
    devices_ = *std::move(devices);
    models_ = std::make_unique<Models>(limits.max_models);
    runner_ = std::make_unique<Runner>(
        limits, [](absl::string_view) {}, devices_->memory());
    saved_ = std::make_unique<SavedSessions>(*runner_, nullptr, kMostSaved, [](absl::string_view) {});
    home_ = devices_->offered()[0];
    lane_ = home_->lanes->Take();
    number_ = 0;
    const auto answer = [this](v1::Reply reply, Attachments attachments, int64_t) {
      std::lock_guard lock(mu_);
      attachments_[reply.number()] = std::move(attachments);
      replies_[reply.number()] = std::move(reply);
      answered_.notify_all();
    };
    OnLane([&] { program_ = SessionProgram::Create({*devices_, *models_, *saved_}, *home_, *lane_, limits, answer); });
  }
  void Close() {
    if (program_ != nullptr) OnLane([&] { program_.reset(); });
    while (!WaitingCalls::Get().empty()) WaitingCalls::Get().Next();
    replies_.clear();
    attachments_.clear();
  }
  void OnLane(const std::function<void()>& work) {
    std::promise<void> done;
    lane_->Post([&] {
      work();
      done.set_value();
    });
    done.get_future().wait();
  }
  void Fence() {
    OnLane([] {});
  }

  // Every other command as one that takes long.
  uint64_t Do(const v1::Command& command) {
    std::promise<void> done;
    const auto execute = [&] {
      program_->Execute(++number_, command, {});
      done.set_value();
    };
    lane_->Post([&] { number_ % 2 == 0 ? lane_->ContinueAside(execute) : execute(); });
    done.get_future().wait();
    return number_;
  }
  // As JSON: R"("invoke": {"call": 1})".
  uint64_t Do(const std::string& json) { return Do(Json<v1::Command>("{" + json + "}")); }
  v1::Reply Await(uint64_t number) {
    std::unique_lock lock(mu_);
    const bool came = answered_.wait_for(lock, std::chrono::seconds(30), [&] { return replies_.contains(number); });
    EXPECT_TRUE(came) << "no answer to command " << number;
    return replies_[number];
  }
  v1::Reply Ask(const v1::Command& command) { return Await(Do(command)); }
  v1::Reply Ask(const std::string& json) { return Await(Do(json)); }
  bool IsAnswered(uint64_t number) {
    Fence();
    std::lock_guard lock(mu_);
    return replies_.contains(number);
  }
  int64_t pending() {
    int64_t pending = 0;
    OnLane([&] { pending = program_->pending(); });
    return pending;
  }

  // Commands in short.
  void Put(uint64_t array, const std::vector<float>& values) {
    Do(absl::StrCat(R"("put": {"array": )", array, R"(, "tensor": {"shape": [)", values.size(), R"(], "float_data": [)",
                    absl::StrJoin(values, ","), "]}}"));
  }
  void Prepare(uint64_t call, const std::string& op, const std::string& attributes = "") {
    Do(absl::StrCat(R"("prepare": {"call": )", call, R"(, "op": ")", op, R"(", "attributes": {)", attributes, "}}"));
  }
  uint64_t Invoke(uint64_t call, const std::vector<uint64_t>& inputs, const std::vector<uint64_t>& outputs,
                  const std::string& more = "") {
    return Do(absl::StrCat(R"("invoke": {"call": )", call, R"(, "inputs": [)", absl::StrJoin(inputs, ","), R"(], "outputs": [)",
                           absl::StrJoin(outputs, ","), "]", more, "}"));
  }
  // Runs an operator now, under call 1000.
  uint64_t Call(const std::string& op, const std::vector<uint64_t>& inputs, const std::vector<uint64_t>& outputs,
                const std::string& more = "") {
    Prepare(1000, op);
    return Invoke(1000, inputs, outputs, more);
  }
  uint64_t Record(const std::string& op, const std::vector<uint64_t>& inputs, const std::vector<uint64_t>& outputs) {
    return Call(op, inputs, outputs, R"(, "recording": true)");
  }
  v1::Reply Fetch(const std::vector<uint64_t>& arrays) {
    return Ask(absl::StrCat(R"("fetch": {"arrays": [)", absl::StrJoin(arrays, ","), "]}"));
  }
  std::vector<float> Values(uint64_t array) {
    const v1::Reply reply = Fetch({array});
    for (const v1::Failure& failure : reply.failures()) ADD_FAILURE() << failure.ShortDebugString();
    if (reply.tensors_size() != 1 || reply.tensors(0).raw().empty()) return {};
    const Bytes bytes = attachments_[reply.number()].Get(reply.tensors(0).raw());
    std::vector<float> values(bytes.size() / sizeof(float));
    bytes.CopyTo(values.data());
    return values;
  }
  // The one failure of a reply.
  static v1::Failure TheFailure(const v1::Reply& reply) {
    EXPECT_EQ(reply.failures_size(), 1) << reply.DebugString();
    return reply.failures_size() > 0 ? reply.failures(0) : v1::Failure();
  }
  void ExpectFailure(const v1::Failure& failure, absl::StatusCode code, const std::string& says, uint64_t command = 0) {
    EXPECT_EQ(failure.status().code(), static_cast<int>(code)) << failure.status().message();
    EXPECT_THAT(failure.status().message(), testing::HasSubstr(says));
    EXPECT_TRUE(command == 0 || failure.command() == command) << failure.command();
  }
  // `array` has no value, for this reason.
  void ExpectPoisoned(uint64_t array, absl::StatusCode code, const std::string& says, uint64_t command = 0) {
    SCOPED_TRACE(absl::StrCat("array ", array));
    const v1::Failure failure = TheFailure(Fetch({array}));
    ExpectFailure(failure, code, says, command);
    EXPECT_EQ(failure.array(), array);
  }
  // A command without an array has failed: the next answer says so.
  void ExpectNoted(absl::StatusCode code, const std::string& says) {
    const uint64_t command = number_;
    ExpectFailure(TheFailure(Fetch({})), code, says, command);
    EXPECT_THAT(Fetch({}).failures(), testing::IsEmpty()) << "told once";
  }
  void ExpectNothingNoted() { EXPECT_THAT(Fetch({}).failures(), testing::IsEmpty()); }

  int64_t scratch_ = 0;  // Bytes that the lane may keep.
  std::unique_ptr<Devices> devices_;
  static constexpr int64_t kMostSaved = 1 << 20;
  std::unique_ptr<Models> models_;
  std::unique_ptr<Runner> runner_;
  std::unique_ptr<SavedSessions> saved_;
  Place* home_ = nullptr;
  std::shared_ptr<Lane> lane_;
  std::shared_ptr<SessionProgram> program_;
  uint64_t number_ = 0;

  std::mutex mu_;
  std::condition_variable answered_;
  std::map<uint64_t, v1::Reply> replies_;
  std::map<uint64_t, Attachments> attachments_;
};

// A dense layer as graph 1: x, w -> y.
inline constexpr char kDense[] = R"("define_graph": {"graph": 1, "inputs": ["x", "w"], "definition": {
    "nodes": [{"name": "y", "op": "FullyConnected", "inputs": ["x", "w"],
               "attributes": {"num_hidden": 2, "no_bias": true}}],
    "outputs": ["y"]}})";

}  // namespace gluond::server

#endif  // TESTS_SERVER_SESSION_PROGRAM_FIXTURE_H_
