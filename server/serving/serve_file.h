// The file --serve=FILE: what a server is to serve, by name and number.
//
//   models:
//     digits:
//       options: {max_batch_size: 32, max_queue_delay_us: 500}   # gluond.v1.ServingOptions, of all versions
//       versions:
//         1: {checkpoint: digits-may}
//         2: {checkpoint: digits-june, options: {instances: 2}}  # of this one
//       labels: {stable: 1, canary: 2}
//       weights: {1: 90, 2: 10}
//
// labels and weights are those of RouteVersions; each may be left out.

#ifndef SERVER_SERVING_SERVE_FILE_H_
#define SERVER_SERVING_SERVE_FILE_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/store/checkpoint.h"
#include "server/serving/options.h"
#include "server/serving/stored_versions.h"

namespace gluond::server {

struct DeclaredVersion {
  std::string checkpoint;
  ServingOptions options;
  std::string place;  // "serve.yaml, line 6, column 12: models.digits.versions.1", for mistakes that are found later.
};

struct DeclaredModel {
  std::map<int64_t, DeclaredVersion> versions;
  Routes routes;
};

// By the names that are asked for.
using Declaration = std::map<std::string, DeclaredModel>;

// INVALID_ARGUMENT tells file, line, column and key, and what was expected. NOT_FOUND: there is no such file.
absl::StatusOr<Declaration> ReadServeFile(const std::string& path);
// `file`: its name in messages.
absl::StatusOr<Declaration> ParseServeFile(absl::string_view text, absl::string_view file);

// NOT_FOUND: a checkpoint that the store has not, with its place in the file.
absl::Status CheckCheckpoints(const Declaration& declaration, const CheckpointStore& store);

// "2 models, 3 versions".
std::string Summary(const Declaration& declaration);

}  // namespace gluond::server

#endif  // SERVER_SERVING_SERVE_FILE_H_
