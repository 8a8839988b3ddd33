// Status macros for the library and its programs; gluond/gluond.h leaves them out.

#ifndef GLUOND_STATUS_MACROS_H_
#define GLUOND_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define GLUOND_CLIENT_CONCAT_INNER(a, b) a##b
#define GLUOND_CLIENT_CONCAT(a, b) GLUOND_CLIENT_CONCAT_INNER(a, b)

// Returns from the function with the status of `expr` where that is an error.
#define GLUOND_RETURN_IF_ERROR(expr)                               \
  if (absl::Status status_of_expr = (expr); status_of_expr.ok()) { \
  } else /* NOLINT */                                              \
    return status_of_expr

// Assigns the value of the StatusOr `expr` to `lhs`, or returns its error.
#define GLUOND_ASSIGN_OR_RETURN(lhs, expr) GLUOND_ASSIGN_OR_RETURN_INNER(GLUOND_CLIENT_CONCAT(status_or_, __LINE__), lhs, expr)
#define GLUOND_ASSIGN_OR_RETURN_INNER(var, lhs, expr) \
  auto var = (expr);                                  \
  if (!var.ok()) return std::move(var).status();      \
  lhs = *std::move(var)

#endif  // GLUOND_STATUS_MACROS_H_
