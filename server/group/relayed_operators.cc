#include "server/group/relayed_operators.h"

#include <chrono>
#include <set>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "engine/core/mutex.h"
#include "engine/core/status_macros.h"
#include "server/group/join_messages.h"
#include "server/wire/attachments.h"

namespace gluond::server {
namespace {

// The leader tells when a callback takes too long.
constexpr std::chrono::hours kNever{24 * 365};
// Forward passes whose backward pass may follow. A step has fewer; those of a step that failed are forgotten so.
constexpr size_t kMostInstances = 65'536;

absl::Status Away() {
  return WithInfo(absl::UnavailableError("a member of the group has lost the leader, whose clients compute its operators; the next "
                                         "step works when it has joined again"),
                  reason::kProviderGone);
}

// Calls `function` with each tensor of a callback.
template <class Function>
void ForEachTensor(v1::Callback& callback, Function function) {
  const auto each = [&](auto* tensors) {
    for (v1::Tensor& tensor : *tensors) function(tensor);
  };
  const auto each_operand = [&](auto* operands) {
    for (v1::Callback::Operand& operand : *operands) {
      if (operand.has_tensor()) function(*operand.mutable_tensor());
    }
  };
  if (callback.has_forward()) {
    each(callback.mutable_forward()->mutable_arguments());
    each(callback.mutable_forward()->mutable_auxiliary());
  } else if (callback.has_backward()) {
    v1::Callback::BackwardCall& backward = *callback.mutable_backward();
    each_operand(backward.mutable_out_grads());
    each_operand(backward.mutable_arguments());
    each_operand(backward.mutable_outputs());
    each(backward.mutable_auxiliary());
  } else if (callback.has_function()) {
    each(callback.mutable_function()->mutable_out_grads());
  }
}

}  // namespace

// The leader, as a client that computes the operators of one model.
class RelayedOperators::Leader final : public HostChannel, public std::enable_shared_from_this<Leader> {
 public:
  Leader(RelayedOperators& all, std::string model) : model(std::move(model)), all_(all), loop_(all.loop_) {}

  void Send(const v1::HostResponse& response) override {
    if (response.cancelled().empty()) return;  // The rest is for clients.
    v1::JoinRequest request;
    request.mutable_withdraw()->set_model(model);
    *request.mutable_withdraw()->mutable_calls() = response.cancelled();
    loop_->Post([&all = all_, weak = weak_from_this(), request] {
      if (const auto self = weak.lock(); self != nullptr) {
        for (const uint64_t call : request.withdraw().calls()) self->forwards.erase(call);
      }
      all.say_(request);
    });
  }
  void SendCall(uint64_t call) override {
    loop_->Post([&all = all_, weak = weak_from_this(), call] {
      if (const auto self = weak.lock(); self != nullptr) all.Ask(*self, call);
    });
  }
  void Replaced() override {}

  const std::string model;
  // The loop's. The leader's numbers of forward passes, by the member's.
  std::map<uint64_t, uint64_t> instances;
  std::map<uint64_t, uint64_t> forwards;  // Forward passes under way, by their calls.

 private:
  RelayedOperators& all_;
  const std::shared_ptr<GroupLoop> loop_;  // Works that it does not begin any more need no operators.
};

class RelayedOperators::ModelHost final : public CustomHost {
 public:
  ModelHost(RelayedOperators& all, const std::string& model, std::string scope)
      : hosts_(all.hosts_),
        most_callbacks_(all.runner_.limits.max_callbacks),
        scope_(std::move(scope)),
        leader_(std::make_shared<Leader>(all, model)) {
    Attach();
  }
  ~ModelHost() override { hosts_->Detach(leader_.get()); }

  Leader& leader() const { return *leader_; }
  void Lost() {
    hosts_->Detach(leader_.get());
    leader_->instances.clear();
    leader_->forwards.clear();
    Attach();
  }

  void Begin(CustomCall call) override {
    call.op = OfLeader(std::move(call.op));
    hosts_->Begin(std::move(call));
  }
  void Abandon(const ClientTime* run) override { hosts_->Abandon(run); }
  absl::StatusOr<Inference> InferShape(const CustomOperator& op, const ShapeVector& arguments) override {
    return hosts_->InferShape(OfLeader(op), arguments);
  }
  absl::StatusOr<TypeInference> InferType(const CustomOperator& op, const TypeVector& arguments) override {
    return hosts_->InferType(OfLeader(op), arguments);
  }
  uint64_t NextInstance(const CustomOperator& op) override { return hosts_->NextInstance(OfLeader(op)); }
  // The leader's own model holds its functions.
  std::shared_ptr<const void> HoldFunction(const std::string&, uint64_t) override { return nullptr; }

 private:
  void Attach() {
    MutexLock lock(mu_);
    offered_.clear();
    hosts_->Attach(scope_, leader_, {kNever, most_callbacks_});
  }
  // Shared operators, too, are asked of the leader, who knows whose they are.
  CustomOperator OfLeader(CustomOperator op) {
    op.scope = scope_;
    MutexLock lock(mu_);
    if (op.op_type.empty() || !offered_.insert(op.op_type).second) return op;
    v1::OfferOperator offer;
    offer.set_op_type(op.op_type);
    (void)hosts_->Offer(leader_.get(), offer);  // An operator that is not offered is told when it is called.
    return op;
  }

  const std::shared_ptr<CustomHosts> hosts_;
  const int64_t most_callbacks_;
  const std::string scope_;
  const std::shared_ptr<Leader> leader_;
  Mutex mu_;
  std::set<std::string> offered_ ABSL_GUARDED_BY(mu_);
};

CustomHostPtr RelayedOperators::HostOf(const std::string& model) {
  std::erase_if(models_, [](const auto& each) { return each.second.expired(); });
  auto host = std::make_shared<ModelHost>(*this, model, absl::StrCat(++last_host_));
  models_[model] = host;
  return host;
}

void RelayedOperators::Lost() {
  is_joined_ = false;
  for (const auto& [model, weak] : models_) {
    if (const auto host = weak.lock(); host != nullptr) host->Lost();
  }
}

void RelayedOperators::Ask(Leader& leader, uint64_t call) {
  if (!is_joined_) return hosts_->Refused(call, Away());
  v1::HostResponse response;
  Attachments attachments;
  if (!hosts_->ToMessage(call, &response, &attachments)) return;
  v1::JoinRequest request;
  request.mutable_ask()->set_model(leader.model);
  v1::Callback& callback = *request.mutable_ask()->mutable_callback();
  callback = std::move(*response.mutable_callbacks(0));
  callback.clear_deadline();  // The leader sets one.
  int64_t bytes = static_cast<int64_t>(callback.ByteSizeLong());
  ForEachTensor(callback, [&](const v1::Tensor& tensor) { bytes += static_cast<int64_t>(attachments.Get(tensor.raw()).size()); });
  const int64_t most = runner_.limits.max_message_bytes;
  if (bytes > most) {
    return hosts_->Fail(call, OverLimit("--max_message_bytes", "its values have ", bytes, " bytes, more than the ", most,
                                        " of --max_message_bytes"));
  }
  Reservation memory(Budget::PartOf(runner_.memory));
  if (const absl::Status charged = memory.Grow(bytes); !charged.ok()) return hosts_->Fail(call, charged);
  ForEachTensor(callback, [&](v1::Tensor& tensor) {
    if (attachments.Find(tensor.raw()) == nullptr) return;
    const Bytes raw = attachments.Get(tensor.raw());
    std::string copy(raw.size(), '\0');
    raw.CopyTo(copy.data());
    tensor.set_raw(std::move(copy));
  });
  attachments = {};
  if (callback.has_forward() && callback.forward().keep()) leader.forwards[call] = callback.forward().instance();
  if (callback.has_backward()) {
    const auto node = leader.instances.extract(callback.backward().instance());
    callback.mutable_backward()->set_instance(node.empty() ? 0 : node.mapped());
  }
  say_(request);
}

void RelayedOperators::Heard(v1::JoinResponse::Answer answer) {
  const auto found = models_.find(answer.model());
  const auto host = found == models_.end() ? nullptr : found->second.lock();
  if (host == nullptr) return;
  Leader& leader = host->leader();
  const bool is_error = answer.has_error();
  const uint64_t call = is_error ? answer.error().call() : answer.result().call();
  const auto forward = leader.forwards.extract(call);
  if (is_error) {
    const absl::Status why = ErrorOf(answer.error());
    return hosts_->Refused(call, why.ok() ? absl::UnknownError("the leader tells an error without a code") : why);
  }
  if (!forward.empty() && answer.result().has_computed()) {
    leader.instances[forward.mapped()] = answer.instance();
    if (leader.instances.size() > kMostInstances) leader.instances.erase(leader.instances.begin());
  }
  hosts_->Result(&leader, {std::move(*answer.mutable_result()), {}});
}

}  // namespace gluond::server
