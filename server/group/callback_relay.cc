#include "server/group/callback_relay.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/core/custom_spec.h"
#include "engine/core/error_info.h"
#include "engine/core/op.h"
#include "engine/core/pending_fact.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/passes/rewrite.h"
#include "engine/runtime/tenant_name.h"
#include "server/codec/tensor_codec.h"
#include "server/group/join_messages.h"
#include "server/wire/wire_message.h"

namespace gluond::server {
namespace {

// The key of a recorded function, which has no name; no operator is called so.
constexpr char kFunction[] = "";

template <class Vector, class From>
absl::StatusOr<Vector> ArgumentsOf(const google::protobuf::RepeatedPtrField<v1::ArrayType>& types, From from) {
  Vector arguments;
  for (const v1::ArrayType& type : types) {
    ASSIGN_OR_RETURN(arguments.emplace_back(), from(type));
  }
  return arguments;
}

template <class Inference, class Put>
v1::CallbackResult InferredOf(const Inference& inference, Put put) {
  v1::CallbackResult result;
  v1::CallbackResult::Inferred& inferred = *result.mutable_inferred();
  for (const auto& fact : inference.arguments) put(fact, inferred.add_arguments());
  for (const auto& fact : inference.outputs) put(fact, inferred.add_outputs());
  for (const auto& fact : inference.auxiliary) put(fact, inferred.add_auxiliary());
  return result;
}

absl::StatusOr<v1::CallbackResult> Infer(CustomHosts& hosts, const CustomOperator& op, const v1::Callback& callback) {
  if (callback.has_infer_type()) {
    ASSIGN_OR_RETURN(const auto arguments, ArgumentsOf<TypeVector>(callback.infer_type().arguments(), DTypeFromProto));
    ASSIGN_OR_RETURN(const CustomHost::TypeInference found, hosts.InferType(op, arguments));
    return InferredOf(found, [](DType dtype, v1::ArrayType* type) { TypeToProto(Shape(), dtype, type); });
  }
  ASSIGN_OR_RETURN(const auto arguments, ArgumentsOf<ShapeVector>(callback.infer_shape().arguments(), ShapeOf));
  ASSIGN_OR_RETURN(const CustomHost::Inference found, hosts.InferShape(op, arguments));
  return InferredOf(found, [](const Shape& shape, v1::ArrayType* type) { TypeToProto(shape, DType::kUnknown, type); });
}

int64_t BytesOf(const Slices& slices) { return static_cast<int64_t>(Bytes(slices).size()); }

// The same bytes. The kept thing goes with the last of them.
Slices Keeping(Slices slices, const std::shared_ptr<const void>& kept) {
  using Held = std::pair<grpc::Slice, std::shared_ptr<const void>>;
  for (grpc::Slice& slice : slices) {
    auto* const held = new Held(std::move(slice), kept);
    slice = grpc::Slice(
        const_cast<uint8_t*>(held->first.begin()), held->first.size(), [](void* all) { delete static_cast<Held*>(all); }, held);
  }
  return slices;
}

void Reply(uint64_t call, const MemberCallback& asked, const absl::StatusOr<CustomHosts::Answer>& answer, uint64_t instance) {
  const auto message_of = [&](const absl::Status& why) {
    v1::JoinResponse message;
    v1::JoinResponse::Answer& said = *message.mutable_answer();
    said.set_model(asked.ask.model());
    if (why.ok()) {
      *said.mutable_result() = answer->result;
      said.mutable_result()->set_call(call);
      said.set_instance(instance);
    } else {
      said.mutable_error()->set_call(call);
      SetError(why, said.mutable_error());
    }
    return SerializeMessage(message, why.ok() ? answer->attachments : Attachments());
  };
  Slices message = message_of(answer.status());
  const auto memory = std::make_shared<Reservation>(asked.new_memory());
  if (const absl::Status charged = memory->Grow(BytesOf(message)); !charged.ok()) {
    message = message_of(Annotate(charged, "the answer of a custom operator's client"));
  }
  asked.tell(Keeping(std::move(message), memory));
}

}  // namespace

void CallbackRelay::Ask(Member member, std::shared_ptr<MemberCallback> asked) {
  const v1::Callback& callback = asked->ask.callback();
  const Key key(member, callback.call());
  const auto run = std::make_shared<ClientTime>();
  if (const absl::Status added = Add(key, run); !added.ok()) return Reply(key.second, *asked, added, 0);
  if (!asked->refused.ok()) {
    asked->attachments = {};
    return Tell(key, *asked, Annotate(asked->refused, "a callback of a member of the group"));
  }
  absl::StatusOr<CustomOperator> op = Find(asked->ask.model(), callback);
  if (!op.ok()) return Tell(key, *asked, op.status());
  switch (callback.ask_case()) {
    case v1::Callback::kInferShape:
    case v1::Callback::kInferType: return AskFact(key, std::move(asked), *std::move(op));
    case v1::Callback::kForward:
    case v1::Callback::kBackward:
    case v1::Callback::kFunction: return Call(key, run, std::move(asked), *std::move(op));
    case v1::Callback::ASK_NOT_SET: break;
  }
  Tell(key, *asked, Invalid("Join: a callback asks nothing"));
}

absl::Status CallbackRelay::Add(const Key& key, Run run) {
  MutexLock lock(mu_);
  std::map<uint64_t, Run>& of_member = waiting_[key.first];
  if (of_member.size() >= kMostOfMember) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a member of the group waits for ", kMostOfMember, " callbacks of clients already, the most there may be"));
  }
  if (of_member.emplace(key.second, std::move(run)).second) return absl::OkStatus();
  return Invalid("Join: callback ", key.second, " is under way already");
}

CallbackRelay::Run CallbackRelay::Remove(const Key& key) {
  MutexLock lock(mu_);
  const auto of_member = waiting_.find(key.first);
  if (of_member == waiting_.end()) return nullptr;
  const auto call = of_member->second.extract(key.second);
  return call.empty() ? nullptr : call.mapped();
}

std::map<CallbackRelay::OperatorKey, CustomOperator> CallbackRelay::OperatorsOf(const HostedModel& hosted) {
  std::map<OperatorKey, CustomOperator> operators;
  for (const NodePtr& node : PostOrder(hosted.model().definition().outputs)) {
    const auto* const of = node->is_variable() ? nullptr : node->op()->GetAttr<FCustomOperator>("FCustomOperator");
    if (of == nullptr) continue;
    CustomOperator op = (*of)(node->attrs);
    const absl::StatusOr<CustomSpec> spec = CustomSpec::Of(node->attrs.dict);
    OperatorKey key(op.op_type, op.attrs);
    if (spec.ok() && spec->function.has_value()) key = {kFunction, {{"number", absl::StrCat(spec->function->number)}}};
    operators.emplace(std::move(key), std::move(op));
  }
  return operators;
}

absl::StatusOr<CustomOperator> CallbackRelay::Find(const std::string& model, const v1::Callback& callback) {
  OperatorKey key(callback.op_type(), AttrDict(callback.attributes().begin(), callback.attributes().end()));
  if (callback.has_function()) key = {kFunction, {{"number", absl::StrCat(callback.function().function())}}};
  absl::StatusOr<HostedModelPtr> hosted = models_.Find(model);
  if (hosted.ok() && !(*hosted)->virtual_shards().has_value()) hosted = absl::NotFoundError("");
  MutexLock lock(mu_);
  if (!hosted.ok()) operators_.erase(model);
  if (hosted.ok()) {
    Operators& of = operators_[model];
    if (of.hosted.lock() != *hosted) of = {*hosted, OperatorsOf(**hosted)};
    const auto found = of.by_key.find(key);
    if (found != of.by_key.end()) {
      CustomOperator op = found->second;
      RETURN_IF_ERROR(HostOf(op).status());
      if (hosts_ == nullptr) return absl::UnavailableError("nobody computes operators of clients here");
      op.scope.insert(0, std::string(TenantPrefix(model)));
      return op;
    }
  }
  return absl::AbortedError(absl::StrCat("the group has no model '", Excerpt(model), "' with a custom operator '",
                                         Excerpt(callback.op_type()), "' of these attributes; the model was deleted, or another ",
                                         "has taken its name, while a member computed it"));
}

void CallbackRelay::Call(const Key& key, const Run& run, std::shared_ptr<MemberCallback> asked, CustomOperator op) {
  v1::Callback& callback = *asked->ask.mutable_callback();
  CustomCall call;
  call.time = run;
  if (callback.has_forward()) {
    call.instance = hosts_->NextInstance(op);
    callback.mutable_forward()->set_instance(call.instance);
  } else if (callback.has_backward()) {
    call.kind = CustomCall::kBackward;
    call.instance = callback.backward().instance();
  } else {
    call.kind = CustomCall::kFunction;
    call.instance = callback.function().function();
  }
  call.op = std::move(op);
  const uint64_t instance = callback.has_forward() ? call.instance : 0;
  CustomHosts::Relayed relayed{std::move(callback), std::exchange(asked->attachments, {}), nullptr};
  relayed.done = [self = shared_from_this(), key, asked, instance](const absl::StatusOr<CustomHosts::Answer>& answer) {
    self->Tell(key, *asked, answer, instance);
  };
  hosts_->Relay(std::move(call), std::move(relayed));
}

void CallbackRelay::AskFact(const Key& key, std::shared_ptr<MemberCallback> asked, CustomOperator op) {
  absl::StatusOr<v1::CallbackResult> inferred = Infer(*hosts_, op, asked->ask.callback());
  const bool is_asked =
      AwaitFact(inferred.status(), [self = shared_from_this(), key, asked, op] { self->AskFact(key, asked, op); });
  if (is_asked) return;
  if (!inferred.ok()) return Tell(key, *asked, inferred.status());
  Tell(key, *asked, CustomHosts::Answer{*std::move(inferred), {}});
}

void CallbackRelay::Tell(const Key& key, const MemberCallback& asked, const absl::StatusOr<CustomHosts::Answer>& answer,
                         uint64_t instance) {
  if (Remove(key) != nullptr) Reply(key.second, asked, answer, instance);
}

void CallbackRelay::Withdraw(Member member, const v1::JoinRequest::Withdraw& withdraw) {
  for (const uint64_t call : withdraw.calls()) {
    if (const Run run = Remove({member, call}); run != nullptr) hosts_->Abandon(run.get());
  }
}

void CallbackRelay::Lost(Member member) {
  std::map<uint64_t, Run> lost;
  {
    MutexLock lock(mu_);
    const auto node = waiting_.extract(member);
    if (!node.empty()) lost = std::move(node.mapped());
  }
  for (const auto& [call, run] : lost) {
    if (hosts_ != nullptr) hosts_->Abandon(run.get());
  }
}

}  // namespace gluond::server
