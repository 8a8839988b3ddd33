// RETURN_IF_ERROR and ASSIGN_OR_RETURN: the only way a Status travels through the engine. Beside them stand the ways to make one.

#ifndef ENGINE_CORE_STATUS_MACROS_H_
#define ENGINE_CORE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

#define RETURN_IF_ERROR(expr) GLUOND_LEAVE_IF_ERROR_(return, expr)
#define ASSIGN_OR_RETURN(lhs, expr) GLUOND_ASSIGN_OR_LEAVE_(return, GLUOND_CONCAT_(or_, __LINE__), lhs, expr)

// `leave` is return or co_return. The loop has no or one turn: an `if` would take an `else` that follows for its own.
#define GLUOND_LEAVE_IF_ERROR_(leave, expr) \
  for (absl::Status returned_ = (expr); !returned_.ok();) leave returned_
#define GLUOND_ASSIGN_OR_LEAVE_(leave, or_, lhs, expr) \
  auto or_ = (expr);                                   \
  if (!or_.ok()) leave std::move(or_).status();        \
  lhs = *std::move(or_)
#define GLUOND_CONCAT_(a, b) GLUOND_CONCAT_2_(a, b)
#define GLUOND_CONCAT_2_(a, b) a##b

namespace gluond {

// The same code and payloads with another message.
inline absl::Status WithMessage(const absl::Status& status, absl::string_view message) {
  absl::Status result(status.code(), message);
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) { result.SetPayload(url, payload); });
  return result;
}

// The same code and payloads with "where: message". OK stays OK.
inline absl::Status Annotate(const absl::Status& status, absl::string_view where) {
  return status.ok() ? status : WithMessage(status, absl::StrCat(where, ": ", status.message()));
}

// The same of a result. A value stays as it is.
template <class T>
absl::StatusOr<T> Annotate(absl::StatusOr<T> result, absl::string_view where) {
  if (result.ok()) return result;
  return Annotate(result.status(), where);
}

// Errors whose arguments make the message, as those of absl::StrCat do.
template <class... Args>
absl::Status Invalid(const Args&... message) {
  return absl::InvalidArgumentError(absl::StrCat(message...));
}
template <class... Args>
absl::Status FailedPrecondition(const Args&... message) {
  return absl::FailedPreconditionError(absl::StrCat(message...));
}
template <class... Args>
absl::Status NotFound(const Args&... message) {
  return absl::NotFoundError(absl::StrCat(message...));
}
template <class... Args>
absl::Status Unavailable(const Args&... message) {
  return absl::UnavailableError(absl::StrCat(message...));
}

}  // namespace gluond

#endif  // ENGINE_CORE_STATUS_MACROS_H_
