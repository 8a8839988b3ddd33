#include "tests/fuzz/session_bench.h"

#include <stdlib.h>

#include "server/session/replies.h"
#include "tests/fuzz/fuzz.h"

namespace gluond::fuzz {
namespace {

using Code = absl::StatusCode;

// Small, so that no input takes long: a product of two tensors of a session has some ten million terms at most.
const server::Limits& SmallLimits() {
  static const server::Limits& limits = *new server::Limits{.max_message_bytes = 1 << 16,
                                                            .max_graph_nodes = 64,
                                                            .max_tensor_bytes = 1 << 20,
                                                            .max_session_queue_bytes = 1 << 16,
                                                            .max_session_bytes = 1 << 14,
                                                            .max_session_arrays = 64,
                                                            .max_saved_sessions = 4,
                                                            .max_named_session_bytes = 1 << 13};
  return limits;
}

// The same for all inputs. One thread does the work; what it keeps to work in is nobody's tensors.
server::Devices& TheDevices() {
  static server::Devices& devices = *[] {
    auto opened = server::Devices::Open("cpu", 1, SmallLimits());
    Require(opened.ok(), opened.status().ToString());
    auto scratch = DeviceAllocator::Create(
        Device(), std::make_shared<Budget>("scratch", SmallLimits().max_tensor_bytes, "--max_tensor_bytes"));
    Require(scratch.ok(), scratch.status().ToString());
    auto lanes = Lanes::Create(Device(), {.threads = 1}, *scratch->release());
    Require(lanes.ok(), lanes.status().ToString());
    (*opened)->host().lanes = *std::move(lanes);
    return opened->release();
  }();
  return devices;
}

}  // namespace

SessionBench::SessionBench(CustomHostPtr host) : devices_(TheDevices()), home_(devices_.host()), lane_(home_.lanes->Take()) {
  devices_.SetCustomHost(std::move(host));
  runner_ = std::make_unique<server::Runner>(
      SmallLimits(), [](absl::string_view) {}, devices_.memory());
  saved_ =
      std::make_unique<server::SavedSessions>(*runner_, nullptr, SmallLimits().max_named_session_bytes, [](absl::string_view) {});
  OnLane([this] {
    program_ = server::SessionProgram::Create(
        {devices_, models_, *saved_}, home_, *lane_, SmallLimits(),
        [this](v1::Reply reply, server::Attachments attachments, int64_t bytes) { Take(std::move(reply), attachments, bytes); });
  });
}

SessionBench::~SessionBench() {
  if (pending() == 0) {
    for (const auto& [number, owed] : owed_) Require(owed == 0, "every question is answered");
  }
  OnLane([this] { program_.reset(); });
  models_.RemoveIf([](const server::HostedModel&) { return true; });
  saved_.reset();
  Require(devices_.tensor_bytes() == 0, "the session, its models and what it saved are gone, their tensors are not");
}

void SessionBench::Settle() {
  home_.lanes->Drain();
  saved_->Stop();
  home_.lanes->Drain();  // The answers.
}

void SessionBench::OnLane(std::function<void()> work) {
  lane_->Post(std::move(work));
  Settle();
}

void SessionBench::Execute(v1::Command command, const server::Attachments& attachments) {
  if (command.save_session().key() == "key") command.mutable_save_session()->set_key(key_);
  if (command.open_saved().key() == "key") command.mutable_open_saved()->set_key(key_);
  owed_[++number_] = server::SessionProgram::IsAnswered(command);
  OnLane([&] { program_->Execute(number_, command, attachments); });
}

void SessionBench::Take(v1::Reply reply, const server::Attachments& attachments, int64_t bytes) {
  if (!reply.saved().key().empty()) key_ = reply.saved().key();
  Require(owed_[reply.number()]-- > 0, "a command is answered once, if at all");
  for (const v1::Failure& failure : reply.failures()) {
    const google::rpc::Status& status = failure.status();
    Require(status.code() != 0 && !status.message().empty(), "a failure says what it is");
    RequireCode(absl::Status(static_cast<Code>(status.code()), status.message()),
                {Code::kInvalidArgument, Code::kNotFound, Code::kAlreadyExists, Code::kFailedPrecondition, Code::kResourceExhausted,
                 Code::kUnavailable, Code::kOutOfRange, Code::kUnimplemented, Code::kPermissionDenied, Code::kAborted});
  }
  const auto encoded = server::EncodeReply(std::move(reply), attachments, bytes, SmallLimits().max_message_bytes);
  Require(encoded.size <= SmallLimits().max_message_bytes, "a message holds the reply");
}

}  // namespace gluond::fuzz
