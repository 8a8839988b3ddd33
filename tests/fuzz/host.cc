// Clients that compute operators, and a session that uses these: whatever they answer, and if they do not, only what needs
// them fails; when they have gone, nothing waits for them.

#include <deque>
#include <memory>

#include "server/custom/hosts.h"
#include "server/custom/scope.h"
#include "server/wire/wire_message.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/host_input.pb.h"
#include "tests/fuzz/session_bench.h"

namespace gluond::fuzz {
namespace {

using server::CustomHosts;

// The way to a client: keeps the numbers of the calls that it was sent.
class Channel final : public server::HostChannel {
 public:
  explicit Channel(std::vector<uint64_t>* calls) : calls_(calls) {}
  void Send(const v1::HostResponse& response) override { (void)response.ByteSizeLong(); }
  void SendCall(uint64_t call) override { calls_->push_back(call); }
  void Replaced() override {}

 private:
  std::vector<uint64_t>* const calls_;
};

class Clients {
 public:
  explicit Clients(CustomHosts& hosts) : hosts_(hosts) {}
  ~Clients() {
    for (const auto& channel : channels_) Break(channel);
  }

  void Say(size_t which, v1::HostRequest request, const server::Attachments& attachments) {
    std::shared_ptr<Channel>& channel = channels_[which];
    if (request.has_open()) {
      if (!server::CheckScope(request.open()).ok()) return;
      Break(channel);
      channel = std::make_shared<Channel>(&calls_);
      hosts_.Attach(request.open().scope(), channel, {std::chrono::seconds(300), 20});
    }
    if (channel == nullptr) return;
    if (request.has_offer()) {
      RequireCode(hosts_.Offer(channel.get(), request.offer()).status(),
                  {absl::StatusCode::kInvalidArgument, absl::StatusCode::kResourceExhausted, absl::StatusCode::kPermissionDenied});
    }
    if (request.has_release()) {
      RequireCode(hosts_.Release(channel.get(), request.release().op_type()),
                  {absl::StatusCode::kNotFound, absl::StatusCode::kPermissionDenied});
    }
    if (!request.has_result() || calls_.empty()) return;
    const uint64_t call = calls_[(request.result().call() + calls_.size() - 1) % calls_.size()];
    v1::HostResponse question;
    server::Attachments values;
    (void)hosts_.ToMessage(call, &question, &values);
    request.mutable_result()->set_call(call);
    hosts_.Result(channel.get(), {request.result(), attachments});
  }
  void Break(size_t which) { Break(channels_[which]); }

 private:
  void Break(const std::shared_ptr<Channel>& channel) {
    if (channel != nullptr) hosts_.Detach(channel.get());
  }
  CustomHosts& hosts_;
  std::vector<uint64_t> calls_;
  std::shared_ptr<Channel> channels_[2];
};

void Run(const HostInput& input) {
  HostInput taken;
  server::Attachments attachments;
  if (!server::ParseMessage({grpc::Slice(input.SerializeAsString())}, &taken, &attachments).ok()) return;
  const auto hosts = std::make_shared<CustomHosts>();
  SessionBench bench(hosts);
  {
    Clients clients(*hosts);
    for (const HostInput::Step& step : taken.steps()) {
      if (step.has_command()) bench.Execute(step.command(), attachments);
      if (step.has_host()) clients.Say(0, step.host(), attachments);
      if (step.has_other()) clients.Say(1, step.other(), attachments);
      if (step.broken() > 0) clients.Break(step.broken() % 2);
      bench.Settle();
    }
  }
  bench.Settle();
  Require(bench.pending() == 0, "nothing waits for clients that have gone");
}

std::vector<std::string> HostWords() {
  std::vector<std::string> words = OperatorWords();
  for (const char* word : {"Custom", "_CustomFunction", "op_type", "function", "twice", "a secret of 16 bytes",
                           "another secret of 16 bytes", "data,label", "output", "0,1,2,3", "shape,type"}) {
    words.push_back(word);
  }
  return words;
}

}  // namespace
}  // namespace gluond::fuzz

STRUCTURED_FUZZ_TARGET(HostInput, Run, HostWords())
