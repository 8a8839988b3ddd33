// The formats of files of arrays.

#ifndef GLUOND_CLIENT_CPP_GLUON_FILE_FORMATS_H_
#define GLUOND_CLIENT_CPP_GLUON_FILE_FORMATS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gluond/files.h"

namespace gluond::client {

std::string WriteParams(const NamedTensors& tensors, bool has_names);
// DATA_LOSS: says where the bytes are no such file. what: names it in errors.
absl::StatusOr<NamedTensors> ReadParams(absl::string_view bytes, const std::string& what);

// INVALID_ARGUMENT: a name twice, `__metadata__`, or none that is UTF-8; a header beyond the format's bound.
absl::StatusOr<std::string> WriteSafetensors(const NamedTensors& tensors);
bool IsSafetensors(absl::string_view bytes);
// DATA_LOSS: as above. In the header's order.
absl::StatusOr<NamedTensors> ReadSafetensors(absl::string_view bytes, const std::string& what);

bool IsUtf8(absl::string_view text);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_GLUON_FILE_FORMATS_H_
