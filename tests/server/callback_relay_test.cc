// Callbacks of a group's members, from the call of a graph's operator over both sides of the relay to a client, and back.

#include "server/group/callback_relay.h"

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "engine/core/custom_spec.h"
#include "engine/core/error_info.h"
#include "engine/core/pending_fact.h"
#include "engine/nn/node_spec.h"
#include "gtest/gtest.h"
#include "server/group/relayed_operators.h"
#include "server/hosted/devices.h"
#include "server/rpc/grpc_status.h"
#include "server/wire/wire_message.h"

namespace gluond::server {
namespace {

constexpr char kClientScope[] = "0123456789abcdef";
constexpr int64_t kManyNumbers = 3000;  // So many numbers are an attachment.

// A client that computes `square` for its own graphs. It fails where it is told to, and does not answer where it holds.
class SquaringClient final : public HostChannel {
 public:
  explicit SquaringClient(std::shared_ptr<CustomHosts> hosts) : hosts_(std::move(hosts)) {}

  void Send(const v1::HostResponse& response) override {
    MutexLock lock(mu_);
    cancelled_.insert(response.cancelled().begin(), response.cancelled().end());
  }
  void SendCall(uint64_t call) override {
    v1::HostResponse response;
    Attachments attachments;
    if (!hosts_->ToMessage(call, &response, &attachments)) return;
    {
      MutexLock lock(mu_);
      callbacks_.push_back(response.callbacks(0));
      if (holds_) return;
    }
    hosts_->Result(this, {AnswerTo(response.callbacks(0), attachments), {}});
  }
  void Replaced() override {}

  void Hold() {
    MutexLock lock(mu_);
    holds_ = true;
  }
  void FailWith(std::string message) {
    MutexLock lock(mu_);
    failure_ = std::move(message);
  }
  std::vector<v1::Callback> callbacks() const {
    MutexLock lock(mu_);
    return callbacks_;
  }
  std::set<uint64_t> cancelled() const {
    MutexLock lock(mu_);
    return cancelled_;
  }

 private:
  v1::CallbackResult AnswerTo(const v1::Callback& callback, const Attachments& attachments) {
    v1::CallbackResult result;
    result.set_call(callback.call());
    if (MutexLock lock(mu_); !failure_.empty()) {
      result.mutable_failure()->set_type("ValueError");
      result.mutable_failure()->set_message(failure_);
      result.mutable_failure()->set_traceback("line 7");
    } else if (callback.has_infer_shape()) {
      *result.mutable_inferred()->add_arguments() = callback.infer_shape().arguments(0);
      *result.mutable_inferred()->add_outputs() = callback.infer_shape().arguments(0);
    } else {
      const v1::Tensor& x = callback.has_forward() ? callback.forward().arguments(0) : callback.backward().out_grads(0).tensor();
      const Bytes raw = attachments.Get(x.raw());
      std::vector<float> values(raw.size() / sizeof(float));
      raw.CopyTo(values.data());
      for (float& value : values) value *= value;
      v1::Tensor& y = *result.mutable_computed()->add_outputs();
      *y.mutable_shape() = x.shape();
      y.set_raw(std::string(reinterpret_cast<const char*>(values.data()), raw.size()));
    }
    return result;
  }

  const std::shared_ptr<CustomHosts> hosts_;
  mutable Mutex mu_;
  bool holds_ ABSL_GUARDED_BY(mu_) = false;
  std::string failure_ ABSL_GUARDED_BY(mu_);
  std::vector<v1::Callback> callbacks_ ABSL_GUARDED_BY(mu_);
  std::set<uint64_t> cancelled_ ABSL_GUARDED_BY(mu_);
};

// Told of the end of one call, also after the test has gone on.
class CallEnd final : public Completion::Receiver {
 public:
  void Complete(absl::Status status) override { status_.set_value(std::move(status)); }
  void AddRef() override { ++refs_; }
  void Release() override {
    if (--refs_ == 0) delete this;
  }
  std::promise<absl::Status>& status() { return status_; }

 private:
  std::atomic<int> refs_ = 0;
  std::promise<absl::Status> status_;
};

// One call of a graph's operator.
struct OneCall {
  OneCall(int64_t size, float value) : x(static_cast<size_t>(size), value), y(x.size()), end(new CallEnd), completion(end) {}
  absl::Status Wait() { return end->status().get_future().get(); }

  CustomCall Call(CustomCall::Kind kind, const AttrDict& attrs) {
    const Shape shape{static_cast<int64_t>(x.size())};
    CustomCall call;
    call.kind = kind;
    call.op = {.scope = RelayedOperators::kScope, .op_type = "square", .attrs = attrs};
    call.keep = true;
    (kind == CustomCall::kForward ? call.arguments : call.out_grads).push_back({x.data(), shape, DType::kFloat32, Device()});
    call.results.push_back({y.data(), shape, DType::kFloat32, Device()});
    call.requests.push_back(kWriteTo);
    call.time = time;
    call.completion = completion;
    return call;
  }

  std::vector<float> x, y;
  const std::shared_ptr<ClientTime> time = std::make_shared<ClientTime>();
  CallEnd* const end;
  const Completion completion;
};

class CallbackRelayTest : public testing::Test {
 protected:
  void SetUp() override {
    Define("net", 4);  // The client comes later, so that nothing is asked yet.
    Define("alone", std::nullopt);
    client_ = std::make_shared<SquaringClient>(hosts_);
    hosts_->Attach(kClientScope, client_, {std::chrono::seconds(60), 2000});
    v1::OfferOperator offer;
    offer.set_op_type("square");
    ASSERT_TRUE(hosts_->Offer(client_.get(), offer).ok());
    loop_->Start(std::chrono::seconds(1), [] {});
    for (CallbackRelay::Member member : {1, 2}) {
      auto operators = std::make_unique<RelayedOperators>(runner_, loop_, [this, member](const v1::JoinRequest& request) {
        member_bytes_ += request.ByteSizeLong();
        Arrive(member, request);
      });
      operators->Joined();
      models_of_.push_back(operators->HostOf("net"));
      members_.push_back(std::move(operators));
    }
  }
  void TearDown() override {
    hosts_->Detach(client_.get());
    loop_->Stop();
  }

  void Define(const std::string& name, std::optional<int64_t> shards) {
    const ScopedCustomHost host(hosts_, kClientScope);
    const CustomSpec spec{.arguments = {"data"}, .same_dtype = true};
    const NodeSpec node{.op = "Custom",
                        .name = "square",
                        .inputs = {{"data", 0}},
                        .attrs = {{"op_type", "square"}, {"power", "2"}, {kCustomAttribute, spec.ToText()}}};
    auto definition = ExpandNodes({node}, {{"data", {-1}, DType::kFloat32}}, {});
    ASSERT_TRUE(definition.ok()) << definition.status();
    auto hosted = HostedModel::Create(name, *std::move(definition), 1, *devices_->offered()[0], devices_->host(), 1 << 20,
                                      /*clients_are_away=*/true);
    ASSERT_TRUE(hosted.ok()) << hosted.status();
    (*hosted)->SetVirtualShards(shards, /*has_group=*/true);
    ASSERT_TRUE(models_.Add(name, *std::move(hosted), false).ok());
  }

  // A member's message comes to the leader, as over the wire.
  void Arrive(CallbackRelay::Member member, const v1::JoinRequest& request) {
    v1::JoinRequest arrived;
    auto asked = std::make_shared<MemberCallback>();
    ASSERT_TRUE(ParseMessage({grpc::Slice(request.SerializeAsString())}, &arrived, &asked->attachments).ok());
    if (arrived.has_withdraw()) return relay_->Withdraw(member, arrived.withdraw());
    asked->ask = std::move(*arrived.mutable_ask());
    asked->refused = refused_;
    asked->new_memory = [] { return Reservation(); };
    asked->tell = [this, member](const Slices& slices) {
      std::string text;
      for (const grpc::Slice& slice : slices) text.append(slice.begin(), slice.end());
      v1::JoinResponse response;
      ASSERT_TRUE(response.ParseFromString(text));
      if (member > 2) {
        MutexLock lock(mu_);
        told_.push_back(std::move(*response.mutable_answer()));
        return;
      }
      loop_->Post([this, member, response] { members_[static_cast<size_t>(member - 1)]->Heard(response.answer()); });
    };
    relay_->Ask(member, std::move(asked));
  }
  // A member may say what none of ours says.
  void Say(CallbackRelay::Member member, const std::string& model, uint64_t call, const std::string& op_type = "square") {
    v1::JoinRequest request;
    request.mutable_ask()->set_model(model);
    v1::Callback& callback = *request.mutable_ask()->mutable_callback();
    callback.set_call(call);
    callback.set_op_type(op_type);
    (*callback.mutable_attributes())["power"] = "2";
    callback.mutable_forward();
    Arrive(member, request);
  }
  absl::StatusCode LastCode() {
    MutexLock lock(mu_);
    return told_.empty() ? absl::StatusCode::kOk : static_cast<absl::StatusCode>(told_.back().error().code());
  }

  absl::Status Compute(size_t member, OneCall& run, CustomCall::Kind kind, uint64_t* instance) {
    CustomHost& host = *models_of_[member];
    CustomCall call = run.Call(kind, {{"power", "2"}});
    if (kind == CustomCall::kForward) *instance = host.NextInstance(call.op);
    call.instance = *instance;
    host.Begin(std::move(call));
    return run.Wait();
  }
  // All that was posted until now is done.
  void Settle() {
    std::promise<void> done;
    loop_->Post([&done] { done.set_value(); });
    done.get_future().wait();
  }

  const std::unique_ptr<Devices> devices_ = *Devices::Open("cpu", 1, Limits());
  Models models_{10};
  Runner runner_{Limits(), [](absl::string_view) {}, devices_->memory()};
  const std::shared_ptr<CustomHosts> hosts_ = std::make_shared<CustomHosts>();
  const std::shared_ptr<CallbackRelay> relay_ = std::make_shared<CallbackRelay>(models_, hosts_);
  const std::shared_ptr<GroupLoop> loop_ = std::make_shared<GroupLoop>();
  std::shared_ptr<SquaringClient> client_;
  absl::Status refused_;
  size_t member_bytes_ = 0;
  std::vector<std::unique_ptr<RelayedOperators>> members_;
  std::vector<CustomHostPtr> models_of_;
  Mutex mu_;
  std::deque<v1::JoinResponse::Answer> told_ ABSL_GUARDED_BY(mu_);
};

TEST_F(CallbackRelayTest, ValuesComeBackAndABackwardPassNamesItsForwardPass) {
  std::vector<uint64_t> own(2);
  for (const size_t member : {0, 1}) {
    OneCall run(kManyNumbers, 3);
    ASSERT_TRUE(Compute(member, run, CustomCall::kForward, &own[member]).ok());
    EXPECT_EQ(run.y, std::vector<float>(kManyNumbers, 9));
  }
  for (const size_t member : {1, 0}) {
    OneCall run(2, 5);
    ASSERT_TRUE(Compute(member, run, CustomCall::kBackward, &own[member]).ok());
    EXPECT_EQ(run.y, std::vector<float>(2, 25));
  }
  const std::vector<v1::Callback> callbacks = client_->callbacks();
  ASSERT_EQ(callbacks.size(), 4U);
  EXPECT_NE(callbacks[0].forward().instance(), callbacks[1].forward().instance());
  EXPECT_EQ(callbacks[2].backward().instance(), callbacks[1].forward().instance());
  EXPECT_EQ(callbacks[3].backward().instance(), callbacks[0].forward().instance());
  EXPECT_EQ(callbacks[0].attributes().at("power"), "2");
  EXPECT_TRUE(callbacks[0].has_deadline());
}

TEST_F(CallbackRelayTest, ErrorsAreThoseOfTheLeadersOwnCalls) {
  client_->FailWith("no");
  uint64_t instance = 0;
  OneCall failing(2, 1);
  const absl::Status failed = Compute(0, failing, CustomCall::kForward, &instance);
  EXPECT_EQ(failed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(failed.message(), "forward of custom operator 'square' failed in its client: ValueError: no");
  EXPECT_EQ(InfoOf(failed)->reason, reason::kOperatorFailed);
  EXPECT_EQ(failed.GetPayload(kTraceback), absl::Cord("line 7"));
  refused_ = absl::ResourceExhaustedError("full");
  OneCall refused(2, 1);
  EXPECT_EQ(Compute(0, refused, CustomCall::kForward, &instance).code(), absl::StatusCode::kResourceExhausted);
  refused_ = absl::OkStatus();
  hosts_->Detach(client_.get());
  OneCall own(2, 1);
  CustomCall call = own.Call(CustomCall::kForward, {{"power", "2"}});
  call.op.scope = kClientScope;
  hosts_->Begin(std::move(call));
  OneCall away(2, 1);
  const absl::Status gone = Compute(0, away, CustomCall::kForward, &instance);
  EXPECT_EQ(gone, own.Wait());
  EXPECT_EQ(gone.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(InfoOf(gone)->reason, reason::kProviderGone);
}

TEST_F(CallbackRelayTest, OnlyOperatorsOfTheGroupsModelsAreAsked) {
  for (const auto& [model, op_type] : {std::pair("net", "other"), {"alone", "square"}, {"none", "square"}}) {
    Say(3, model, 1, op_type);
    EXPECT_EQ(LastCode(), absl::StatusCode::kAborted) << model << " " << op_type;
  }
  v1::JoinRequest empty;
  Arrive(3, empty);
  EXPECT_EQ(LastCode(), absl::StatusCode::kAborted);
  EXPECT_TRUE(client_->callbacks().empty());
}

TEST_F(CallbackRelayTest, AMemberWaitsForSoManyAtMost) {
  client_->Hold();
  const auto most = static_cast<uint64_t>(CallbackRelay::kMostOfMember);
  for (uint64_t call = 1; call <= most; ++call) Say(3, "net", call);
  EXPECT_EQ(LastCode(), absl::StatusCode::kOk) << "nothing is refused yet";
  Say(3, "net", most + 1);
  EXPECT_EQ(LastCode(), absl::StatusCode::kResourceExhausted);
  Say(4, "net", 1);
  Say(4, "net", 1);
  EXPECT_EQ(LastCode(), absl::StatusCode::kInvalidArgument) << "the number is in use";
  EXPECT_EQ(client_->callbacks().size(), most + 1);
  relay_->Lost(3);
  EXPECT_EQ(client_->cancelled().size(), most) << "the client need not answer for a member that is gone";
  EXPECT_EQ(hosts_->load().waiting, 1);
}

TEST_F(CallbackRelayTest, ACallThatNobodyWaitsForIsWithdrawn) {
  client_->Hold();
  OneCall run(2, 1);
  CustomCall call = run.Call(CustomCall::kForward, {{"power", "2"}});
  models_of_[0]->Begin(std::move(call));
  Settle();
  ASSERT_EQ(client_->callbacks().size(), 1U);
  models_of_[0]->Abandon(run.time.get());
  Settle();
  EXPECT_EQ(client_->cancelled(), std::set<uint64_t>{client_->callbacks()[0].call()});
  EXPECT_EQ(hosts_->load().waiting, 0);
}

TEST_F(CallbackRelayTest, WithoutAJoinCallsFailAtOnce) {
  client_->Hold();
  OneCall waits(2, 1);
  models_of_[0]->Begin(waits.Call(CustomCall::kForward, {{"power", "2"}}));
  Settle();
  loop_->Post([this] { members_[0]->Lost(); });
  EXPECT_EQ(waits.Wait().code(), absl::StatusCode::kUnavailable);
  uint64_t instance = 0;
  OneCall without(2, 1);
  EXPECT_EQ(Compute(0, without, CustomCall::kForward, &instance).code(), absl::StatusCode::kUnavailable);
}

TEST_F(CallbackRelayTest, AValueThatIsLargerThanAMessageFailsItsCallAlone) {
  uint64_t instance = 0;
  OneCall large(Limits().max_message_bytes / 4 + 1, 1);
  const absl::Status refused = Compute(0, large, CustomCall::kForward, &instance);
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(member_bytes_, 0U) << "nothing was sent";
  OneCall small(2, 2);
  EXPECT_TRUE(Compute(0, small, CustomCall::kForward, &instance).ok());
}

TEST_F(CallbackRelayTest, QuestionsAreAskedOnceForAllMembers) {
  const CustomOperator op = {.scope = RelayedOperators::kScope, .op_type = "square", .attrs = {{"power", "2"}}};
  for (const size_t member : {0, 1}) {
    absl::StatusOr<CustomHost::Inference> found = models_of_[member]->InferShape(op, {Shape{7}});
    std::promise<void> answered;
    ASSERT_TRUE(AwaitFact(found.status(), [&answered] { answered.set_value(); })) << found.status();
    answered.get_future().wait();
    found = models_of_[member]->InferShape(op, {Shape{7}});
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(found->outputs, ShapeVector{Shape{7}});
  }
  EXPECT_EQ(client_->callbacks().size(), 1U);
}

}  // namespace
}  // namespace gluond::server
