#include "server/serving/serve_file.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/core/device.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "gluond/v1/serving.pb.h"
#include "server/config/operator_file.h"
#include "server/config/yaml.h"
#include "server/config/yaml_message.h"
#include "server/serving/names.h"
#include "server/serving/options_codec.h"

namespace gluond::server {
namespace {

constexpr int64_t kLargestNumber = 1'000'000'000;

// A key that is the number of a version.
absl::StatusOr<int64_t> Number(const Yaml& key) {
  ASSIGN_OR_RETURN(const int64_t number, key.As<int64_t>());
  if (number >= 1 && number <= kLargestNumber && absl::StrCat(number) == key.text()) return number;
  return key.Error("'", key.text(), "' is no version's number; want 1 to ", kLargestNumber, ", without zeros before it");
}

// A number of a version that the model has.
absl::Status CheckVersion(const DeclaredModel& model, const Yaml& place, int64_t number) {
  if (model.versions.contains(number)) return absl::OkStatus();
  return place.Error("there is no version ", number, " under `versions`");
}

// The status at the option that it is about: the version's own, else the model's, else at `where`.
absl::Status AtOption(const absl::Status& status, const Yaml* own, const Yaml* common, const Yaml& where) {
  std::string field;
  if (const auto info = InfoOf(status); info.has_value()) {
    for (const auto& [key, value] : info->metadata) {
      if (key == "field") field = std::string(absl::StripPrefix(value, "options."));
    }
  }
  for (const Yaml* options : {own, common}) {
    const Yaml* const found = options == nullptr ? nullptr : options->Find(field);
    if (found != nullptr) return found->At(status);
  }
  return where.At(status);
}

absl::StatusOr<ServingOptions> ReadOptions(const Yaml* own, const Yaml* common, const Yaml& where) {
  v1::ServingOptions message;
  for (const Yaml* options : {common, own}) {
    if (options != nullptr) RETURN_IF_ERROR(FillMessage(*options, &message));
  }
  absl::StatusOr<ServingOptions> options = FromProto(message);
  if (!options.ok()) return AtOption(options.status(), own, common, where);
  if (options->device.empty()) return options;
  const absl::Status device = Device::Parse(options->device).status();
  if (device.ok()) return options;
  return AtOption(InField("options.device", device), own, common, where);
}

absl::StatusOr<DeclaredVersion> ReadVersion(const Yaml& yaml, const Yaml* common) {
  RETURN_IF_ERROR(yaml.CheckKeys({"checkpoint", "options"}));
  DeclaredVersion version;
  version.place = yaml.Place();
  const Yaml* const checkpoint = yaml.Find("checkpoint");
  if (checkpoint == nullptr) return yaml.Error("it has no `checkpoint`; want the name of one in --store_dir");
  RETURN_IF_ERROR(checkpoint->Get(&version.checkpoint));
  RETURN_IF_ERROR(checkpoint->At(CheckName("checkpoint", version.checkpoint)));
  ASSIGN_OR_RETURN(version.options, ReadOptions(yaml.Find("options"), common, yaml));
  return version;
}

absl::Status ReadLabels(const Yaml& yaml, DeclaredModel* model) {
  RETURN_IF_ERROR(yaml.Want(Yaml::Kind::kMap));
  for (const auto& [key, value] : yaml.members()) {
    RETURN_IF_ERROR(key.At(CheckLabel(key.text())));
    ASSIGN_OR_RETURN(const int64_t number, value.As<int64_t>());
    RETURN_IF_ERROR(CheckVersion(*model, value, number));
    model->routes.labels[key.text()] = number;
  }
  if (model->routes.labels.size() <= kMostLabels) return absl::OkStatus();
  return yaml.Error("it has ", model->routes.labels.size(), " labels, the limit is ", kMostLabels);
}

absl::Status ReadWeights(const Yaml& yaml, DeclaredModel* model) {
  RETURN_IF_ERROR(yaml.Want(Yaml::Kind::kMap));
  for (const auto& [key, value] : yaml.members()) {
    ASSIGN_OR_RETURN(const int64_t number, Number(key));
    RETURN_IF_ERROR(CheckVersion(*model, key, number));
    ASSIGN_OR_RETURN(const uint64_t weight, value.As<uint64_t>());
    if (weight > UINT32_MAX) return value.Error(weight, " is out of range; want 0 to ", UINT32_MAX);
    if (weight > 0) model->routes.weights[number] = static_cast<uint32_t>(weight);
  }
  return model->routes.weights.empty() ? yaml.Error("the weights' sum is 0; leave `weights` out to end the split")
                                       : absl::OkStatus();
}

absl::StatusOr<DeclaredModel> ReadModel(const Yaml& yaml) {
  RETURN_IF_ERROR(yaml.CheckKeys({"versions", "labels", "weights", "options"}));
  const Yaml* const options = yaml.Find("options");
  const Yaml* const versions = yaml.Find("versions");
  if (versions == nullptr) return yaml.Error("it has no `versions`");
  RETURN_IF_ERROR(versions->Want(Yaml::Kind::kMap));
  if (versions->members().empty()) return versions->Error("it has no version");
  DeclaredModel model;
  for (const auto& [key, value] : versions->members()) {
    ASSIGN_OR_RETURN(const int64_t number, Number(key));
    ASSIGN_OR_RETURN(model.versions[number], ReadVersion(value, options));
  }
  if (const Yaml* const labels = yaml.Find("labels"); labels != nullptr) RETURN_IF_ERROR(ReadLabels(*labels, &model));
  if (const Yaml* const weights = yaml.Find("weights"); weights != nullptr) RETURN_IF_ERROR(ReadWeights(*weights, &model));
  return model;
}

}  // namespace

absl::StatusOr<Declaration> ParseServeFile(absl::string_view text, absl::string_view file) {
  ASSIGN_OR_RETURN(const Yaml yaml, Yaml::Parse(text, file));
  RETURN_IF_ERROR(yaml.CheckKeys({"models"}));
  const Yaml* const models = yaml.Find("models");
  if (models == nullptr) return yaml.Error("it has no `models`; `models: {}` serves none");
  RETURN_IF_ERROR(models->Want(Yaml::Kind::kMap));
  Declaration declaration;
  for (const auto& [key, value] : models->members()) {
    RETURN_IF_ERROR(key.At(CheckServedName(key.text())));
    ASSIGN_OR_RETURN(declaration[key.text()], ReadModel(value));
  }
  return declaration;
}

absl::StatusOr<Declaration> ReadServeFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadOperatorFile(path, Yaml::kMostBytes);
  if (text.ok()) return ParseServeFile(*text, path);
  return NotFound("--serve=", path, " cannot be read: ", text.status().message());
}

absl::Status CheckCheckpoints(const Declaration& declaration, const CheckpointStore& store) {
  for (const auto& [name, model] : declaration) {
    for (const auto& [number, version] : model.versions) {
      RETURN_IF_ERROR(Annotate(store.Revision(version.checkpoint).status(), version.place));
    }
  }
  return absl::OkStatus();
}

std::string Summary(const Declaration& declaration) {
  size_t versions = 0;
  for (const auto& [name, model] : declaration) versions += model.versions.size();
  return absl::StrCat(declaration.size(), declaration.size() == 1 ? " model, " : " models, ", versions,
                      versions == 1 ? " version" : " versions");
}

}  // namespace gluond::server
