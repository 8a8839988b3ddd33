// ReflectionService tells clients that know no .proto, like grpcurl, which services there are and what their messages look
// like (proto/reflection). gRPC's own would keep a thread for each stream.

#include "server/services/services.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/core/mutex.h"
#include "engine/core/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "proto/reflection/v1/reflection.pb.h"
#include "proto/reflection/v1alpha/reflection.pb.h"
#include "server/wire/wire_message.h"

namespace gluond::server {
namespace {

namespace reflection = grpc::reflection::v1;
using google::protobuf::DescriptorPool;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;

// Each file after those that it imports. Files import each other in few levels.
void AddFile(const FileDescriptor& file, absl::flat_hash_set<const FileDescriptor*>* known,
             reflection::FileDescriptorResponse* files) {
  if (!known->insert(&file).second) return;
  for (int i = 0; i < file.dependency_count(); ++i) AddFile(*file.dependency(i), known, files);
  google::protobuf::FileDescriptorProto proto;
  file.CopyTo(&proto);
  files->add_file_descriptor_proto(proto.SerializeAsString());
}

void SetError(const absl::Status& status, reflection::ServerReflectionResponse* answer) {
  answer->mutable_error_response()->set_error_code(static_cast<int>(status.code()));
  answer->mutable_error_response()->set_error_message(std::string(status.message()));
}

void SetFile(const FileDescriptor* file, const std::string& what, reflection::ServerReflectionResponse* answer) {
  if (file == nullptr) return SetError(NotFound("no file here has ", what), answer);
  absl::flat_hash_set<const FileDescriptor*> known;
  AddFile(*file, &known, answer->mutable_file_descriptor_response());
}

const FileDescriptor* FileOfExtension(const reflection::ExtensionRequest& wanted) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const auto* type = pool.FindMessageTypeByName(wanted.containing_type());
  const FieldDescriptor* extension = type == nullptr ? nullptr : pool.FindExtensionByNumber(type, wanted.extension_number());
  return extension == nullptr ? nullptr : extension->file();
}

void SetExtensions(const std::string& type_name, reflection::ServerReflectionResponse* answer) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  const auto* type = pool.FindMessageTypeByName(type_name);
  if (type == nullptr) return SetError(NotFound("no message is ", type_name), answer);
  answer->mutable_all_extension_numbers_response()->set_base_type_name(type_name);
  std::vector<const FieldDescriptor*> extensions;
  pool.FindAllExtensions(type, &extensions);
  for (const FieldDescriptor* extension : extensions) {
    answer->mutable_all_extension_numbers_response()->add_extension_number(extension->number());
  }
}

reflection::ServerReflectionResponse AnswerTo(const reflection::ServerReflectionRequest& question, const ServiceNames& services) {
  const DescriptorPool& pool = *DescriptorPool::generated_pool();
  reflection::ServerReflectionResponse answer;
  answer.set_valid_host(question.host());
  *answer.mutable_original_request() = question;
  switch (question.message_request_case()) {
    case reflection::ServerReflectionRequest::kFileByFilename:
      SetFile(pool.FindFileByName(question.file_by_filename()), absl::StrCat("the name ", question.file_by_filename()), &answer);
      break;
    case reflection::ServerReflectionRequest::kFileContainingSymbol:
      SetFile(pool.FindFileContainingSymbol(question.file_containing_symbol()),
              absl::StrCat("the symbol ", question.file_containing_symbol()), &answer);
      break;
    case reflection::ServerReflectionRequest::kFileContainingExtension: {
      const reflection::ExtensionRequest& wanted = question.file_containing_extension();
      SetFile(FileOfExtension(wanted), absl::StrCat("the extension ", wanted.extension_number(), " of ", wanted.containing_type()),
              &answer);
      break;
    }
    case reflection::ServerReflectionRequest::kAllExtensionNumbersOfType:
      SetExtensions(question.all_extension_numbers_of_type(), &answer);
      break;
    case reflection::ServerReflectionRequest::kListServices:
      for (const std::string& name : services()) answer.mutable_list_services_response()->add_service()->set_name(name);
      break;
    case reflection::ServerReflectionRequest::MESSAGE_REQUEST_NOT_SET:
      SetError(Invalid("the request asks nothing; set one of its fields but `host`"), &answer);
  }
  return answer;
}

// One stream: a question is read when the answer before it was taken. Lives until gRPC is done with it.
class ReflectionStream final : public Stream {
 public:
  ReflectionStream(Runner& runner, const Opening& opening, const ServiceNames& services)
      : Stream(runner, opening), services_(services), memory_(Budget::PartOf(runner.memory)) {}

 private:
  void OnBegin() override { Read(); }
  void OnRead(Slices* message) override {
    if (message == nullptr) return End(absl::OkStatus());
    reflection::ServerReflectionRequest question;
    absl::Status status = ParseShortMessage(*message, &question, encoding());
    std::string answer;
    if (status.ok()) {
      answer = AnswerTo(question, services_).SerializeAsString();
      status = memory_.Grow(static_cast<int64_t>(answer.size()));
    }
    status.ok() ? Write(answer) : End(status);
  }
  void OnWritten(bool ok) override {
    WasTaken();
    if (!ok) return End(absl::OkStatus());
    memory_.Shrink(memory_.bytes());
    Read();
  }
  void Revoke(const absl::Status& why) override { End(why); }

  // These three do nothing after the stream's end.
  void Read() {
    MutexLock lock(mu_);
    if (!ended_) StartRead();
  }
  void Write(const std::string& answer) {
    MutexLock lock(mu_);
    if (ended_) return;
    MustTakeWithin(TimeToTake(memory_.bytes()));
    StartWrite({grpc::Slice(answer)});
  }
  void End(const absl::Status& status) {
    MutexLock lock(mu_);
    if (!std::exchange(ended_, true)) Finish(Annotate(status, method().name));
  }
  void OnCancelled() override {}
  void OnOver() override { MutexLock lock(mu_); }  // End may be about to return.

  const ServiceNames& services_;
  Reservation memory_;  // The bytes of the answer under way.
  Mutex mu_;            // The caller may be revoked by another thread.
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

// Both versions' messages are the same bytes.
template <class Question>
class ReflectionService final : public RawService {
 public:
  ReflectionService(Runner& runner, ServiceNames services)
      : RawService(runner, Question::descriptor()->file()->service(0)->full_name()), services_(std::move(services)) {
    AddStream<Question>("ServerReflectionInfo", this, &ReflectionService::ServerReflectionInfo);
  }

 private:
  std::shared_ptr<Stream> ServerReflectionInfo(Stream::Opening opening) {
    return Stream::Make<ReflectionStream>(runner(), opening, services_);
  }

  const ServiceNames services_;
};

}  // namespace

std::unique_ptr<RawService> NewReflectionService(Runner& runner, ReflectionVersion version, ServiceNames services) {
  if (version == ReflectionVersion::kV1) {
    return std::make_unique<ReflectionService<reflection::ServerReflectionRequest>>(runner, std::move(services));
  }
  return std::make_unique<ReflectionService<grpc::reflection::v1alpha::ServerReflectionRequest>>(runner, std::move(services));
}

}  // namespace gluond::server
