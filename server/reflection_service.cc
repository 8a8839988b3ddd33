#include "server/reflection_service.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "proto/reflection/v1/reflection.pb.h"
#include "proto/reflection/v1alpha/reflection.pb.h"
#include "server/grpc_order.h"
#include "server/grpc_status.h"
#include "server/parse_message.h"

namespace gluond::server {
namespace {

namespace v1 = grpc::reflection::v1;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

// Each file after those that it imports. Files import each other in few levels.
void AddFile(const FileDescriptor& file, absl::flat_hash_set<const FileDescriptor*>* known,
             v1::FileDescriptorResponse* files) {
  if (!known->insert(&file).second) return;
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), known, files);
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  files->add_file_descriptor_proto(proto.SerializeAsString());
}

void SetError(const absl::Status& status, v1::ServerReflectionResponse* answer) {
  answer->mutable_error_response()->set_error_code(static_cast<int>(status.code()));
  answer->mutable_error_response()->set_error_message(std::string(status.message()));
}

void SetFile(const FileDescriptor* file, const std::string& what, v1::ServerReflectionResponse* answer) {
  if (file == nullptr) return SetError(absl::NotFoundError(absl::StrCat("no file here has ", what)), answer);
  absl::flat_hash_set<const FileDescriptor*> known;
  AddFile(*file, &known, answer->mutable_file_descriptor_response());
}

const FileDescriptor* FileOfExtension(const v1::ExtensionRequest& wanted) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const auto* type = pool.FindMessageTypeByName(wanted.containing_type());
  const FieldDescriptor* extension =
      type == nullptr ? nullptr : pool.FindExtensionByNumber(type, wanted.extension_number());
  return extension == nullptr ? nullptr : extension->file();
}

void SetExtensions(const std::string& type_name, v1::ServerReflectionResponse* answer) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const auto* type = pool.FindMessageTypeByName(type_name);
  if (type == nullptr) return SetError(absl::NotFoundError(absl::StrCat("no message is ", type_name)), answer);
  answer->mutable_all_extension_numbers_response()->set_base_type_name(type_name);
  std::vector<const FieldDescriptor*> extensions;
  pool.FindAllExtensions(type, &extensions);
  for (const FieldDescriptor* extension : extensions) {
    answer->mutable_all_extension_numbers_response()->add_extension_number(extension->number());
  }
}

v1::ServerReflectionResponse AnswerTo(const v1::ServerReflectionRequest& question,
                                      const ReflectionService::Names& services) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  v1::ServerReflectionResponse answer;
  answer.set_valid_host(question.host());
  *answer.mutable_original_request() = question;
  switch (question.message_request_case()) {
    case v1::ServerReflectionRequest::kFileByFilename:
      SetFile(pool.FindFileByName(question.file_by_filename()), absl::StrCat("the name ", question.file_by_filename()),
              &answer);
      break;
    case v1::ServerReflectionRequest::kFileContainingSymbol:
      SetFile(pool.FindFileContainingSymbol(question.file_containing_symbol()),
              absl::StrCat("the symbol ", question.file_containing_symbol()), &answer);
      break;
    case v1::ServerReflectionRequest::kFileContainingExtension: {
      const v1::ExtensionRequest& wanted = question.file_containing_extension();
      SetFile(FileOfExtension(wanted),
              absl::StrCat("the extension ", wanted.extension_number(), " of ", wanted.containing_type()), &answer);
      break;
    }
    case v1::ServerReflectionRequest::kAllExtensionNumbersOfType:
      SetExtensions(question.all_extension_numbers_of_type(), &answer);
      break;
    case v1::ServerReflectionRequest::kListServices:
      for (const std::string& name : services()) answer.mutable_list_services_response()->add_service()->set_name(name);
      break;
    case v1::ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      SetError(absl::InvalidArgumentError("the request asks nothing; set one of its fields but `host`"), &answer);
  }
  return answer;
}

// One stream: a question is read when the answer before it was taken. Lives until gRPC is done with it.
class ReflectionStream final : public Rpc::Stream {
 public:
  ReflectionStream(Runner& runner, const Method& method, grpc::CallbackServerContext* context,
                   const ReflectionService::Names& services)
      : runner_(runner), method_(method), context_(context), guest_(runner.peers, context), services_(services),
        memory_(Budget::PartOf(runner.memory)) {
    __tsan_release(this);
    StartRead(&incoming_);
  }

 private:
  void OnReadDone(bool ok) override {
    __tsan_acquire(this);
    if (!ok) return End(absl::OkStatus());
    guest_.peer()->Gave(static_cast<int64_t>(incoming_.Length()));
    if (absl::Status status = Answer(); !status.ok()) return End(status);
    unsent_ = runner_.unsent.Add(context_, memory_.bytes());
    __tsan_release(this);
    StartWrite(&outgoing_);
  }
  void OnWriteDone(bool ok) override {
    __tsan_acquire(this);
    runner_.unsent.Remove(unsent_);
    if (!ok) return End(absl::OkStatus());
    outgoing_.Clear();
    memory_.Shrink(memory_.bytes());
    __tsan_release(this);
    StartRead(&incoming_);
  }
  void OnCancel() override {
    __tsan_acquire(this);
    guest_.Leave();
    runner_.peers.WasReset(*guest_.peer());
  }
  void OnDone() override {
    __tsan_acquire(this);
    delete this;
  }

  void End(const absl::Status& status) {
    guest_.Leave();
    Finish(status.ok() ? grpc::Status::OK : ToGrpc(Annotate(status, method_.name)));
  }

  absl::Status Answer() {
    v1::ServerReflectionRequest question;
    RETURN_IF_ERROR(ParseShortMessage(incoming_, &question));
    incoming_.Clear();
    const grpc::Slice answer(AnswerTo(question, services_).SerializeAsString());
    outgoing_ = grpc::ByteBuffer(&answer, 1);
    return memory_.Grow(static_cast<int64_t>(outgoing_.Length()));
  }

  Runner& runner_;
  const Method& method_;
  grpc::CallbackServerContext* const context_;  // Valid until OnDone.
  Guest guest_;
  const ReflectionService::Names& services_;
  Reservation memory_;  // The bytes of the answer under way.
  grpc::ByteBuffer incoming_, outgoing_;
  Unsent::Place unsent_;  // The place of that answer.
};

}  // namespace

ReflectionService::ReflectionService(Runner& runner, ReflectionVersion version, Names services)
    : RawService(runner, version == ReflectionVersion::kV1 ? "grpc.reflection.v1.ServerReflection"
                                                           : "grpc.reflection.v1alpha.ServerReflection"),
      services_(std::move(services)) {
  constexpr char kMethod[] = "ServerReflectionInfo";
  if (version == ReflectionVersion::kV1) {
    AddStream<v1::ServerReflectionRequest>(kMethod, this, &ReflectionService::ServerReflectionInfo);
  } else {
    AddStream<grpc::reflection::v1alpha::ServerReflectionRequest>(kMethod, this,
                                                                  &ReflectionService::ServerReflectionInfo);
  }
}

// Both versions' messages are the same bytes.
RawService::RawStream* ReflectionService::ServerReflectionInfo(const Method& method,
                                                               grpc::CallbackServerContext* context) {
  return new ReflectionStream(runner(), method, context, services_);
}

}  // namespace gluond::server
