#include "server/rpc/pipeline.h"

#include <string>
#include <utility>

#include "absl/hash/hash.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/runtime/tenant_name.h"
#include "engine/store/stored_name.h"
#include "gluond/v1/call.pb.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/identity/names.h"
#include "server/rpc/call.h"
#include "server/rpc/tenant_names.h"
#include "server/wire/chunk.h"

namespace gluond::server {
namespace {

using google::protobuf::Message;

constexpr size_t kLongestModel = 128;

// Goes on with a step where work of this weight may run.
void GoOn(const CallPtr& call, Weight weight, void (*step)(const CallPtr&)) {
  call->runner().dispatch.Run(weight, [call, step] { step(call); });
}

std::string StringOf(const Message& message, Method::Field field) { return message.GetReflection()->GetString(message, field); }

// The request's CallOptions; without the field, empty ones.
const v1::CallOptions& OptionsOf(const UnaryCall& call) {
  const Method::Field field = call.method().call;
  if (field == nullptr) return v1::CallOptions::default_instance();
  return static_cast<const v1::CallOptions&>(call.request().GetReflection()->GetMessage(call.request(), field));
}

// A numbered call's model is the first thing that its request may name.
std::string ModelOf(const UnaryCall& call) { return StringOf(call.request(), call.method().targets.front()); }

// Checks what the client said, before the names of its tenant and its caller come before it. INVALID_ARGUMENT.
absl::Status CheckNumbered(const Numbered& said) {
  if (said.client.empty() || said.client.size() > kLongestClientId) {
    return absl::InvalidArgumentError(absl::StrCat("sequence ", said.number, " needs a client_id of 1 to ", kLongestClientId,
                                                   " bytes, got ", said.client.size()));
  }
  // An admin's names begin with a tenant's name, which is no part of their length.
  const size_t tenant = TenantPrefix(said.model).size();
  if (said.model.size() == tenant || said.model.size() - tenant > kLongestModel || tenant > kLongestTenant + 1) {
    return absl::InvalidArgumentError(absl::StrCat("sequence ", said.number, " needs the name of a model"));
  }
  return absl::OkStatus();
}

// A client's name for itself matters to numbered calls and to uploads, which are the others that have CallOptions.
absl::Status CheckOptions(const UnaryCall& call) {
  const v1::CallOptions& options = OptionsOf(call);
  if (call.method().numbered) {
    return options.sequence() == 0 ? absl::OkStatus() : CheckNumbered({options.client_id(), ModelOf(call), options.sequence()});
  }
  return call.method().call == nullptr ? absl::OkStatus() : CheckClientId(options.client_id());
}

// Equal for equal messages, whatever the order in which maps were sent.
uint64_t Fingerprint(const Message& request, const Attachments& attachments) {
  std::string text;
  {
    google::protobuf::io::StringOutputStream stream(&text);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    (void)request.SerializePartialToCodedStream(&out);
  }
  attachments.Summarize(&text);
  return absl::Hash<std::string>{}(absl::StrCat(request.GetTypeName(), ":", text));
}

void Run(const CallPtr& call) { call->service().answer(call); }

// A turn has come that the call may have waited for.
void RunInTurn(const CallPtr& call, std::unique_ptr<Sequences::Turn> turn) {
  call->SetTurn(std::move(turn));
  FINISH_IF_ERROR(*call, call->cancellation()->Check());
  Run(call);
}

void Order(const CallPtr& call) {
  const uint64_t number = OptionsOf(*call).sequence();
  if (number == 0) return Run(call);
  if (!call->method().numbered) {
    return call->Finish(
        absl::InvalidArgumentError("an upload takes no sequence: its chunks say where they belong; leave "
                                   "`call.sequence` out"));
  }
  Numbered numbered = {OptionsOf(*call).client_id(), ModelOf(*call), number};
  FINISH_IF_ERROR(*call, call->runner().check_loaded(numbered.model));
  call->SetNumbered(numbered);
  call->runner().sequences.Arrive({.client = std::move(numbered.client),
                                   .model = std::move(numbered.model),
                                   .number = number,
                                   .payload = Fingerprint(call->request(), call->attachments()),
                                   .run = [call](std::unique_ptr<Sequences::Turn> turn) { RunInTurn(call, std::move(turn)); },
                                   .replay = [call](const std::string& answer) { call->FinishWithStoredAnswer(answer); },
                                   .refuse = [call](const absl::Status& status) { call->Finish(status); }});
}

// Making the tensors of a short request may take long.
void Weigh(const CallPtr& call) {
  FINISH_IF_ERROR(*call, call->MayTouch());
  const bool is_large = call->service().has_large_fill != nullptr && call->service().has_large_fill(call->request());
  GoOn(call, is_large ? Weight::kHeavy : Weight::kLight, &Order);
}

// The names that the client said become the server's own.
void Qualify(const CallPtr& call) {
  Message* const request = call->mutable_request();
  const google::protobuf::Reflection& reflection = *request->GetReflection();
  const Method& method = call->method();
  FINISH_IF_ERROR(*call, CheckOptions(*call));
  if (!call->reach().is_everything()) Qualify(call->reach(), request);
  if (method.call != nullptr) {
    auto* const options = static_cast<v1::CallOptions*>(reflection.MutableMessage(request, method.call));
    call->SetClient(options->client_id());
    options->set_client_id(call->Scope(options->client_id()));
  }
  if (method.client_id != nullptr)
    reflection.SetString(request, method.client_id, call->Scope(StringOf(*request, method.client_id)));
  for (const Method::Field field : method.targets) {
    if (call->target().empty()) call->SetTarget(StringOf(*request, field));
  }
  if (method.commit != nullptr && !reflection.GetBool(*request, method.commit)) call->SetUnaudited();
  GoOn(call, call->NoteTouched(), &Weigh);
}

void Parse(const CallPtr& call) {
  // Nobody may want the answer any more of a call that has waited for its turn.
  FINISH_IF_ERROR(*call, call->cancellation()->Check());
  FINISH_IF_ERROR(*call, call->ParseRequest());
  Qualify(call);
}

}  // namespace

void Admit(const CallPtr& call, int64_t bytes) {
  FINISH_IF_ERROR(*call, call->Enter(bytes));
  GoOn(call, Dispatch::OfCall(call->method().weight, call->bytes_to_parse(), call->TakesTurn()), &Parse);
}

}  // namespace gluond::server
