#include "server/start/operator_libraries.h"

#include <dlfcn.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "engine/core/status_macros.h"
#include "ops/library/operator_library.h"
#include "server/start/child_trial.h"

namespace gluond::server {
namespace {

constexpr char kSymbol[] = "gluond_operator_library";

// The loader's texts have several lines.
std::string OneLine(absl::string_view text) {
  constexpr size_t kMostText = 300;
  return absl::CHexEscape(absl::StrReplaceAll(text.substr(0, kMostText), {{"\n", " "}}));
}

absl::StatusOr<std::vector<std::string>> Load(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // Its operators stay until exit, and so does it.
  if (library == nullptr) return FailedPrecondition("it cannot be loaded: ", OneLine(dlerror()));
  const auto* const symbol = static_cast<const gluond_op_library*>(dlsym(library, kSymbol));
  if (symbol != nullptr) return ops::RegisterOperators(*symbol, path);
  return FailedPrecondition("it has no symbol ", kSymbol, "; define it by GLUOND_OPERATOR_LIBRARY of gluond_op.h");
}

// FNV-1a: it tells builds apart, and keeps nobody from making two alike.
std::string DigestOf(const std::string& path) {
  uint64_t state = 0xcbf29ce484222325;
  std::ifstream file(path, std::ios::binary);
  for (std::istreambuf_iterator<char> byte(file), end; byte != end; ++byte) {
    state = (state ^ static_cast<unsigned char>(*byte)) * 0x100000001b3;
  }
  return absl::StrFormat("%016x", state);
}

absl::StatusOr<OperatorLibrary> TryAndLoad(const std::string& path, std::chrono::milliseconds time) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return NotFound("there is no such file");
  RETURN_IF_ERROR(TryInChild([&path] { return Load(path).status(); }, time));
  ASSIGN_OR_RETURN(std::vector<std::string> names, Load(path));
  return OperatorLibrary{path, DigestOf(path), std::move(names)};
}

}  // namespace

absl::StatusOr<std::vector<OperatorLibrary>> LoadOperatorLibraries(const std::vector<std::string>& paths,
                                                                   std::chrono::milliseconds time) {
  std::vector<OperatorLibrary> libraries;
  for (const std::string& path : paths) {
    // A name without a folder would be looked for in the system's.
    ASSIGN_OR_RETURN(libraries.emplace_back(), Annotate(TryAndLoad(std::filesystem::absolute(path), time),
                                                        absl::StrCat("--operator_library=", absl::CHexEscape(path))));
  }
  return libraries;
}

}  // namespace gluond::server
