// Guarded: a program's own functions, whose exceptions become errors.

#ifndef GLUOND_CLIENT_CPP_CUSTOM_GUARDED_H_
#define GLUOND_CLIENT_CPP_CUSTOM_GUARDED_H_

#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <typeinfo>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gluond::client {

// Why a function has failed, as a CallbackFailure tells it.
struct OwnError {
  std::string type;  // "std::runtime_error"; of a Status its code.
  std::string message;
  std::string where;  // "sigmoid.Forward".
};

inline std::string NameOf(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return name == nullptr ? type.name() : name.get();
}

// The status that `function` returns. An exception is INTERNAL, with its text; `error` is told more.
template <class Function>
absl::Status Guarded(const std::string& where, OwnError* error, Function function) {
  error->where = where;
  try {
    const absl::Status status = function();
    error->type = std::string(absl::StatusCodeToString(status.code()));
    error->message = std::string(status.message());
    return status;
  } catch (const std::exception& exception) {
    error->type = NameOf(typeid(exception));
    error->message = exception.what();
  } catch (...) {
    error->type = "an exception";
    error->message = "not of std::exception's kind";
  }
  return absl::InternalError(absl::StrCat(where, ": ", error->type, ": ", error->message));
}

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_CUSTOM_GUARDED_H_
