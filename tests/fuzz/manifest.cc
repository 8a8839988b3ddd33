// A checkpoint's JSON: any text is a value that prints and reads the same again, or is refused; a value may be a manifest,
// a graph or a trainer's state, which are written as they are read.

#include "engine/store/manifest.h"
#include "engine/store/state_json.h"
#include "tests/fuzz/fuzz.h"

namespace gluond::fuzz {
namespace {

// What `read` makes of the JSON, `write` writes so that it is the same again.
template <class Read, class Write>
void CheckRoundTrip(const Json& json, Read read, Write write) {
  const auto value = read(json);
  RequireCode(value.status(), {absl::StatusCode::kInvalidArgument, absl::StatusCode::kNotFound,
                               absl::StatusCode::kFailedPrecondition, absl::StatusCode::kResourceExhausted});
  if (!value.ok()) return;
  const std::string written = write(*value).Dump();
  const absl::StatusOr<Json> parsed = Json::Parse(written);
  Require(parsed.ok(), parsed.status().ToString());
  const auto again = read(*parsed);
  Require(again.ok(), again.status().ToString());
  Require(write(*again).Dump() == written, "it is written as it was read");
}

}  // namespace
}  // namespace gluond::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gluond;
  const absl::StatusOr<Json> json = Json::Parse({reinterpret_cast<const char*>(data), size});
  fuzz::RequireCode(json.status(), {absl::StatusCode::kInvalidArgument});
  if (!json.ok()) return 0;
  const std::string text = json->Dump();
  const absl::StatusOr<Json> again = Json::Parse(text);
  fuzz::Require(again.ok() && again->Dump() == text, "JSON is read as it was written");
  fuzz::CheckRoundTrip(*json, &ManifestFromJson, &ManifestToJson);
  fuzz::CheckRoundTrip(*json, &DefinitionFromJson, &DefinitionToJson);
  fuzz::CheckRoundTrip(*json, &TrainerFromJson, &TrainerToJson);
  return 0;
}
