#include "server/session/command.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "google/protobuf/unknown_field_set.h"
#include "server/codec/describe_call.h"
#include "server/start/protocol.h"

namespace gluond::server {
namespace {

// Names in one command: more would take memory that no budget counts, and hold the lane for too long.
constexpr int kMostNames = 1 << 16;
constexpr int kMostFreed = 1 << 20;
static_assert(kMostNames <= static_cast<int>(kMostInputs));

}  // namespace

absl::Status CheckNames(const v1::Command& command) {
  int names = 0, most = kMostNames;
  switch (command.command_case()) {
    case v1::Command::kInvoke: names = std::max(command.invoke().inputs_size(), command.invoke().outputs_size()); break;
    case v1::Command::kFetch: names = command.fetch().arrays_size(); break;
    case v1::Command::kDescribe: names = command.describe().arrays_size(); break;
    case v1::Command::kMark: names = command.mark().arrays_size(); break;
    case v1::Command::kFresh: names = command.fresh().variables_size(); break;
    case v1::Command::kRunGraph:
      names = std::max(command.run_graph().inputs_size(), command.run_graph().outputs_size());
      break;
    case v1::Command::kBackward: {
      const v1::Command::Backward& backward = command.backward();
      names = std::max({backward.heads_size(), backward.head_gradients_size(), backward.variables_size(),
                        backward.outputs_size(), backward.out_grads_size()});
      break;
    }
    case v1::Command::kContinueBackward:
      names = std::max(command.continue_backward().gradients_size(), command.continue_backward().out_grads_size());
      break;
    case v1::Command::kSaveAsModel: {
      const v1::Command::SaveAsModel& save = command.save_as_model();
      names = std::max({save.inputs_size(), save.parameters_size(), save.outputs_size(), save.states_size(),
                        static_cast<int>(save.updates().size())});
      break;
    }
    case v1::Command::kOpenModel: names = static_cast<int>(command.open_model().arrays().size()); break;
    case v1::Command::kStoreToModel: names = static_cast<int>(command.store_to_model().arrays().size()); break;
    case v1::Command::kSaveSession: names = static_cast<int>(command.save_session().arrays().size()); break;
    case v1::Command::kOpenSaved: names = static_cast<int>(command.open_saved().arrays().size()); break;
    case v1::Command::kFree:
      names = std::max({command.free().arrays_size(), command.free().calls_size(), command.free().graphs_size()});
      most = kMostFreed;
      break;
    default: break;
  }
  if (names <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the command names ", names, " things, more than ", most,
                                                 "; send several commands"));
}

absl::Status NoContent(const v1::Command& command, uint64_t number) {
  const google::protobuf::UnknownFieldSet& unknown = command.GetReflection()->GetUnknownFields(command);
  if (unknown.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("command ", number, " is without content; is the client's proto "
                                                   "another one?"));
  }
  const int field = unknown.field(0).number();
  return WithInfo(
      absl::UnimplementedError(absl::StrCat(
          "command ", number, " is of a kind, field ", field, " of Command, that this server does not know: it is "
          "gluond ", kVersion, " and speaks protocol ", kProtocol, "; use a newer server, or do without")),
      reason::kUnknownCommand,
      {{"number", absl::StrCat(number)}, {"field", absl::StrCat(field)}, {"protocol", absl::StrCat(kProtocol)}});
}

bool IsAnswered(const v1::Command& command) {
  switch (command.command_case()) {
    case v1::Command::kFetch:
    case v1::Command::kDescribe:
    case v1::Command::kInferGraph:
    case v1::Command::kDescribeCall:
    case v1::Command::kContinueBackward:
    case v1::Command::kSaveAsModel:
    case v1::Command::kOpenModel:
    case v1::Command::kStoreToModel:
    case v1::Command::kSaveSession:
    case v1::Command::kOpenSaved:
    case v1::Command::kWaitAll: return true;
    case v1::Command::kBackward: return command.backward().out_grads_size() > 0;
    default: return false;
  }
}

bool IsAudited(const v1::Command& command) {
  switch (command.command_case()) {
    case v1::Command::kSaveAsModel:
    case v1::Command::kOpenModel:
    case v1::Command::kStoreToModel:
    case v1::Command::kSaveSession:
    case v1::Command::kOpenSaved: return true;
    default: return false;
  }
}

}  // namespace gluond::server
