#include "server/session/command.h"

#include "absl/strings/str_cat.h"
#include "engine/core/error_info.h"
#include "google/protobuf/unknown_field_set.h"
#include "server/start/protocol.h"

namespace gluond::server {

absl::Status CheckNames(int names, int most) {
  if (names <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the command names ", names, " things, more than ", most, "; send several commands"));
}

absl::Status NoContent(const v1::Command& command, uint64_t number) {
  const google::protobuf::UnknownFieldSet& unknown = command.GetReflection()->GetUnknownFields(command);
  if (unknown.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("command ", number, " is without content; is the client's proto another one?"));
  }
  const int field = unknown.field(0).number();
  return WithInfo(absl::UnimplementedError(absl::StrCat("command ", number, " is of a kind, field ", field,
                                                        " of Command, that this server does not know: it is gluond ", kVersion,
                                                        " and speaks protocol ", kProtocol, "; use a newer server, or do without")),
                  reason::kUnknownCommand,
                  {{"number", absl::StrCat(number)}, {"field", absl::StrCat(field)}, {"protocol", absl::StrCat(kProtocol)}});
}

}  // namespace gluond::server
