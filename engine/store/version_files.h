// The files of one version of a checkpoint: written durably and checksummed, read back and verified.

#ifndef ENGINE_STORE_VERSION_FILES_H_
#define ENGINE_STORE_VERSION_FILES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/nn/named_tensor.h"
#include "engine/store/file_system.h"
#include "engine/store/json.h"
#include "engine/store/manifest.h"

namespace gluond {

// The limit of a JSON file: its whole text is in memory, and the parsed tree takes many times more.
inline constexpr int64_t kMaxJsonBytes = int64_t{1} << 28;

// Each Write returns when the file is on the disk (its directory's entry needs a SyncDirectory).
class VersionWriter {
 public:
  VersionWriter(FileSystem& files, std::string directory) : files_(files), directory_(std::move(directory)) {}

  absl::StatusOr<FileEntry> Write(const std::string& name, const Json& json);
  absl::StatusOr<FileEntry> Write(const std::string& name, const NamedTensors& tensors);

 private:
  using Append = std::function<absl::Status(absl::string_view)>;
  absl::StatusOr<FileEntry> Write(const std::string& name, const std::function<absl::Status(const Append&)>& contents);

  FileSystem& files_;
  const std::string directory_;
};

// DATA_LOSS: a file is missing, or damaged. RESOURCE_EXHAUSTED: it has more bytes than the limit, or memory is short.
class VersionReader {
 public:
  // `open`: gives the file of a name, wherever it lies.
  using Open = std::function<absl::StatusOr<std::unique_ptr<ReadableFile>>(const std::string& name)>;
  VersionReader(Open open, int64_t max_bytes) : open_(std::move(open)), max_bytes_(max_bytes) {}
  // The files of a directory. `files` outlives the reader.
  VersionReader(const FileSystem& files, const std::string& directory, int64_t max_bytes)
      : VersionReader([&files, directory](const std::string& name) { return files.Open(directory + "/" + name); }, max_bytes) {}

  // Checked against `crc32c` alone.
  absl::StatusOr<Json> ReadJson(const std::string& name, uint32_t crc32c) const;
  absl::StatusOr<Json> ReadJson(const FileEntry& entry) const { return ReadJson(entry.name, entry.crc32c); }
  absl::StatusOr<NamedTensors> ReadTensors(const FileEntry& entry, Allocator& host_allocator) const;

 private:
  const Open open_;
  const int64_t max_bytes_;
};

// The error of reading `file` as a caller of CheckpointStore gets it. A wrong file that this server wrote is DATA_LOSS;
// errors of memory, disk, rights and version are not the file's and keep their codes.
absl::Status Damaged(const absl::Status& status, absl::string_view file);

}  // namespace gluond

#endif  // ENGINE_STORE_VERSION_FILES_H_
