#include "gluond/files.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/cpp/gluon/file_formats.h"
#include "client/cpp/gluon/whole_file.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace {

absl::Status WriteTensors(const std::string& path, const NamedTensors& tensors, bool has_names) {
  if (!absl::EndsWith(path, ".safetensors")) {
    for (const auto& [name, tensor] : tensors) {
      if (!IsUtf8(name)) return absl::InvalidArgumentError(absl::StrCat("Save: a name for '", path, "' is not UTF-8"));
    }
    return WriteWhole(path, WriteParams(tensors, has_names));
  }
  if (!has_names && !tensors.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("Save: '", path, "' would be a file of safetensors, whose arrays have names; give names, or another ending"));
  }
  GLUOND_ASSIGN_OR_RETURN(const std::string bytes, WriteSafetensors(tensors));
  return WriteWhole(path, bytes);
}

absl::StatusOr<NamedTensors> ValuesOf(const NamedArrays& arrays, Place place) {
  NamedTensors tensors;
  for (const auto& [name, array] : arrays) {
    GLUOND_ASSIGN_OR_RETURN(Tensor tensor, array.ToTensor(place));
    tensors.emplace_back(name, std::move(tensor));
  }
  return tensors;
}

template <class Named>
bool HasNames(const Named& named) {
  return std::any_of(named.begin(), named.end(), [](const auto& each) { return !each.first.empty(); });
}

}  // namespace

absl::Status SaveTensors(const std::string& path, const NamedTensors& tensors) {
  return WriteTensors(path, tensors, HasNames(tensors));
}

absl::StatusOr<NamedTensors> ParseTensors(absl::string_view bytes, const std::string& what) {
  return IsSafetensors(bytes) ? ReadSafetensors(bytes, what) : ReadParams(bytes, what);
}

absl::StatusOr<NamedTensors> LoadTensors(const std::string& path) {
  GLUOND_ASSIGN_OR_RETURN(const std::string bytes, ReadWhole(path));
  return ParseTensors(bytes, absl::StrCat("'", path, "'"));
}

absl::Status Save(const std::string& path, const std::map<std::string, NDArray>& arrays, Place place) {
  GLUOND_ASSIGN_OR_RETURN(const NamedTensors tensors, ValuesOf(NamedArrays(arrays.begin(), arrays.end()), place));
  return WriteTensors(path, tensors, true);
}

absl::Status SaveList(const std::string& path, absl::Span<const NDArray> arrays, Place place) {
  NamedArrays named;
  for (const NDArray& array : arrays) named.emplace_back("", array);
  GLUOND_ASSIGN_OR_RETURN(const NamedTensors tensors, ValuesOf(named, place));
  return WriteTensors(path, tensors, false);
}

absl::Status SaveArrays(const std::string& path, const NamedArrays& arrays, Place place) {
  GLUOND_ASSIGN_OR_RETURN(const NamedTensors tensors, ValuesOf(arrays, place));
  return SaveTensors(path, tensors);
}

absl::StatusOr<NamedArrays> LoadArrays(const std::string& path, const std::string& device, Place place) {
  GLUOND_ASSIGN_OR_RETURN(const NamedTensors tensors, LoadTensors(path));
  NamedArrays arrays;
  for (const auto& [name, tensor] : tensors) {
    const NDArray array(tensor, device, place);
    GLUOND_RETURN_IF_ERROR(array.local_error());
    arrays.emplace_back(name, array);
  }
  return arrays;
}

absl::StatusOr<std::map<std::string, NDArray>> Load(const std::string& path, const std::string& device, Place place) {
  GLUOND_ASSIGN_OR_RETURN(const NamedArrays arrays, LoadArrays(path, device, place));
  if (!arrays.empty() && !HasNames(arrays)) {
    return absl::FailedPreconditionError(absl::StrCat("Load: '", path, "' has arrays without names; LoadList reads them"));
  }
  std::map<std::string, NDArray> by_name;
  for (const auto& [name, array] : arrays) {
    if (!by_name.emplace(name, array).second) {
      return absl::FailedPreconditionError(
          absl::StrCat("Load: '", path, "' has two arrays of the name '", name, "'; LoadArrays reads them in order"));
    }
  }
  return by_name;
}

absl::StatusOr<std::vector<NDArray>> LoadList(const std::string& path, const std::string& device, Place place) {
  GLUOND_ASSIGN_OR_RETURN(const NamedArrays arrays, LoadArrays(path, device, place));
  std::vector<NDArray> list;
  for (const auto& [name, array] : arrays) list.push_back(array);
  return list;
}

}  // namespace gluond::client
