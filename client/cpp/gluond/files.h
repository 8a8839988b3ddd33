// Files of arrays by name: MXNet's `.params`, which Python's nd.save and save_parameters write and read, and safetensors.
//
//   absl::Status status = Save("net.params", {{"weight", weight}, {"bias", bias}});
//   absl::StatusOr<std::map<std::string, NDArray>> arrays = Load("net.params");
//
// A path that ends in `.safetensors` gets a file of that format, with the bytes that the server writes; all others get MXNet's, with
// the bytes that Python writes. Reading takes both, whatever the path says.

#ifndef GLUOND_FILES_H_
#define GLUOND_FILES_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gluond/export.h"
#include "gluond/ndarray.h"
#include "gluond/place.h"
#include "gluond/tensor.h"

namespace gluond::client {

// Arrays by name, in order; all names are empty in a file without names.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
using NamedArrays = std::vector<std::pair<std::string, NDArray>>;

// These wait for the values, and write them. The old file stays as it was unless all has been written. bfloat16 is float32 in MXNet's
// files, as Python has it. INVALID_ARGUMENT: names that the format cannot hold.
GLUOND_EXPORT absl::Status Save(const std::string& path, const std::map<std::string, NDArray>& arrays, Place place = Place::Here());
// Without names. MXNet's format has such files, safetensors has not.
GLUOND_EXPORT absl::Status SaveList(const std::string& path, absl::Span<const NDArray> arrays, Place place = Place::Here());
GLUOND_EXPORT absl::Status SaveArrays(const std::string& path, const NamedArrays& arrays, Place place = Place::Here());

// DATA_LOSS: the file is none, or is damaged; says where. NOT_FOUND: it cannot be read. FAILED_PRECONDITION: the arrays have no
// names, or two have the same.
GLUOND_EXPORT absl::StatusOr<std::map<std::string, NDArray>> Load(const std::string& path, const std::string& device = "",
                                                                  Place place = Place::Here());
// The arrays in the file's order, whether they have names or not.
GLUOND_EXPORT absl::StatusOr<std::vector<NDArray>> LoadList(const std::string& path, const std::string& device = "",
                                                            Place place = Place::Here());
GLUOND_EXPORT absl::StatusOr<NamedArrays> LoadArrays(const std::string& path, const std::string& device = "",
                                                     Place place = Place::Here());

// The same with values that no server has.
GLUOND_EXPORT absl::Status SaveTensors(const std::string& path, const NamedTensors& tensors);
GLUOND_EXPORT absl::StatusOr<NamedTensors> LoadTensors(const std::string& path);
// The bytes of such a file. what: names it in errors.
GLUOND_EXPORT absl::StatusOr<NamedTensors> ParseTensors(absl::string_view bytes, const std::string& what = "the buffer");

}  // namespace gluond::client

#endif  // GLUOND_FILES_H_
