// The client's own status macros: it shares nothing with the engine.

#ifndef GLUOND_CLIENT_CPP_STATUS_MACROS_H_
#define GLUOND_CLIENT_CPP_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define GLUOND_CLIENT_CONCAT_INNER(a, b) a##b
#define GLUOND_CLIENT_CONCAT(a, b) GLUOND_CLIENT_CONCAT_INNER(a, b)

// Returns from the function with the status of `expr` where that is an error.
#define CLIENT_RETURN_IF_ERROR(expr)                               \
  if (absl::Status status_of_expr = (expr); status_of_expr.ok()) { \
  } else /* NOLINT */                                              \
    return status_of_expr

// Assigns the value of the StatusOr `expr` to `lhs`, or returns its error.
#define CLIENT_ASSIGN_OR_RETURN(lhs, expr) CLIENT_ASSIGN_OR_RETURN_INNER(GLUOND_CLIENT_CONCAT(status_or_, __LINE__), lhs, expr)
#define CLIENT_ASSIGN_OR_RETURN_INNER(var, lhs, expr) \
  auto var = (expr);                                  \
  if (!var.ok()) return std::move(var).status();      \
  lhs = *std::move(var)

#endif  // GLUOND_CLIENT_CPP_STATUS_MACROS_H_
