// ErrorInfo: the facts of an error for programs. A client acts by the reason and never by the message, whose words may
// change. The facts travel in a payload of the Status.
//
//   return WithInfo(absl::FailedPreconditionError("sequence 9 leaves a gap: ..."), reason::kSequenceGap, {{"last", "7"}});

#ifndef ENGINE_CORE_ERROR_INFO_H_
#define ENGINE_CORE_ERROR_INFO_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gluond {

// All reasons there are; docs/wire.md tells what each means and which metadata it has.
namespace reason {

inline constexpr char kAlreadyExists[] = "ALREADY_EXISTS";
inline constexpr char kAnswerForgotten[] = "ANSWER_FORGOTTEN";
inline constexpr char kBadField[] = "BAD_FIELD";
inline constexpr char kClientTooOld[] = "CLIENT_TOO_OLD";
inline constexpr char kDamagedOnTheWay[] = "DAMAGED_ON_THE_WAY";
inline constexpr char kDraining[] = "DRAINING";
inline constexpr char kLimit[] = "LIMIT";
inline constexpr char kLoading[] = "LOADING";
inline constexpr char kNoIdentity[] = "NO_IDENTITY";
inline constexpr char kNoPermission[] = "NO_PERMISSION";
inline constexpr char kNotFound[] = "NOT_FOUND";
inline constexpr char kOperatorFailed[] = "OPERATOR_FAILED";
inline constexpr char kProviderGone[] = "PROVIDER_GONE";
inline constexpr char kRewound[] = "REWOUND";
inline constexpr char kSequenceGap[] = "SEQUENCE_GAP";
inline constexpr char kSequenceReused[] = "SEQUENCE_REUSED";
inline constexpr char kSessionGone[] = "SESSION_GONE";
inline constexpr char kStaleGradient[] = "STALE_GRADIENT";
inline constexpr char kTooManyCalls[] = "TOO_MANY_CALLS";
inline constexpr char kTrainingUnderWay[] = "TRAINING_UNDER_WAY";
inline constexpr char kUnknownCommand[] = "UNKNOWN_COMMAND";
inline constexpr char kVersionChanged[] = "VERSION_CHANGED";
inline constexpr char kWrongKey[] = "WRONG_KEY";

}  // namespace reason

struct ErrorInfo {
  std::string reason;
  std::vector<std::pair<std::string, std::string>> metadata;
};

// `status` with these facts instead of those that it had. Neither a key nor a value has a NUL character.
absl::Status WithInfo(absl::Status status, absl::string_view reason,
                      std::vector<std::pair<std::string, std::string>> metadata = {});

// RESOURCE_EXHAUSTED by the limit of a flag ("--max_models"): the reason is LIMIT, and the arguments make the message.
template <class... Args>
absl::Status OverLimit(absl::string_view flag, const Args&... message) {
  return WithInfo(absl::ResourceExhaustedError(absl::StrCat(message...)), reason::kLimit, {{"flag", std::string(flag)}});
}

// PERMISSION_DENIED with the reason NO_PERMISSION: the caller may not do this.
template <class... Args>
absl::Status NoPermission(const Args&... message) {
  return WithInfo(absl::PermissionDeniedError(absl::StrCat(message...)), reason::kNoPermission);
}

// NOT_FOUND with the reason of the same name: there is no such thing of the kind ("model"), as the message says.
template <class... Args>
absl::Status NoSuch(absl::string_view kind, absl::string_view name, const Args&... message) {
  return WithInfo(absl::NotFoundError(absl::StrCat(message...)), reason::kNotFound,
                  {{"kind", std::string(kind)}, {"name", std::string(name)}});
}

// An INVALID_ARGUMENT by a field of the request (`inputs["data"]`) gets the reason BAD_FIELD. One that has facts
// already, and any other status, stays as it is. `field` has no NUL character.
absl::Status InField(absl::string_view field, absl::Status status);

// The status's facts, if it has some.
std::optional<ErrorInfo> InfoOf(const absl::Status& status);

}  // namespace gluond

#endif  // ENGINE_CORE_ERROR_INFO_H_
