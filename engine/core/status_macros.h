// RETURN_IF_ERROR and ASSIGN_OR_RETURN: the only way a Status travels through the engine.

#ifndef ENGINE_CORE_STATUS_MACROS_H_
#define ENGINE_CORE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

// A loop of no or one turn, and no `if`, which would take an `else` that follows for its own.
#define RETURN_IF_ERROR(expr) \
  for (absl::Status returned_ = (expr); !returned_.ok();) return returned_

#define ASSIGN_OR_RETURN(lhs, expr) \
  GLUOND_ASSIGN_OR_RETURN_(GLUOND_CONCAT_(or_, __LINE__), lhs, expr)
#define GLUOND_ASSIGN_OR_RETURN_(or_, lhs, expr) \
  auto or_ = (expr);                             \
  if (!or_.ok()) return std::move(or_).status(); \
  lhs = *std::move(or_)
#define GLUOND_CONCAT_(a, b) GLUOND_CONCAT_2_(a, b)
#define GLUOND_CONCAT_2_(a, b) a##b

namespace gluond {

// The same code and payloads, with `where` in front of the message: "where: message".
inline absl::Status Annotate(const absl::Status& status, absl::string_view where) {
  if (status.ok()) return status;
  absl::Status result(status.code(), absl::StrCat(where, ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, payload);
  });
  return result;
}

}  // namespace gluond

#endif  // ENGINE_CORE_STATUS_MACROS_H_
