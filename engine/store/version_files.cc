#include "engine/store/version_files.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/store/crc32c.h"
#include "engine/store/safetensors.h"

namespace gluond {
namespace {

absl::Status WrongChecksum(uint32_t got, uint32_t expected) {
  return absl::DataLossError(absl::StrCat("the checksum is ", got, ", expected ", expected));
}

absl::Status TooLarge(int64_t bytes, int64_t limit) {
  return absl::ResourceExhaustedError(absl::StrCat("has ", bytes, " bytes, at most ", limit, " are allowed"));
}

}  // namespace

absl::Status Damaged(const absl::Status& status, absl::string_view file) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kFailedPrecondition:
    // The file is another machine's.
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
    case absl::StatusCode::kInternal: return Annotate(status, file);
    default: return absl::DataLossError(absl::StrCat(file, ": ", status.message()));
  }
}

absl::StatusOr<FileEntry> VersionWriter::Write(const std::string& name,
                                               const std::function<absl::Status(const Append&)>& contents) {
  ASSIGN_OR_RETURN(const std::unique_ptr<WritableFile> file, files_.Create(absl::StrCat(directory_, "/", name)));
  FileEntry entry;
  entry.name = name;
  RETURN_IF_ERROR(contents([&](absl::string_view bytes) {
    entry.crc32c = Crc32c(bytes, entry.crc32c);
    entry.bytes += static_cast<int64_t>(bytes.size());
    return file->Append(bytes);
  }));
  RETURN_IF_ERROR(file->Sync());
  return entry;
}

absl::StatusOr<FileEntry> VersionWriter::Write(const std::string& name, const Json& json) {
  const std::string text = json.Dump() + "\n";
  const int64_t bytes = static_cast<int64_t>(text.size());
  if (bytes > kMaxJsonBytes) return Annotate(TooLarge(bytes, kMaxJsonBytes), name);
  return Write(name, [&](const Append& append) { return append(text); });
}

absl::StatusOr<FileEntry> VersionWriter::Write(const std::string& name, const NamedTensors& tensors) {
  return Write(name, [&](const Append& append) { return WriteSafetensors(tensors, {{"format", "gluond"}}, append); });
}

absl::StatusOr<Json> VersionReader::ReadJson(const std::string& name, uint32_t crc32c) const {
  const auto read = [&]() -> absl::StatusOr<Json> {
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, open_(name));
    ASSIGN_OR_RETURN(const std::string text, ReadWhole(*file, name, kMaxJsonBytes));
    if (const uint32_t crc = Crc32c(text); crc != crc32c) return WrongChecksum(crc, crc32c);
    return Json::Parse(text);
  };
  absl::StatusOr<Json> json = read();
  if (!json.ok()) return Damaged(json.status(), name);
  return json;
}

absl::StatusOr<NamedTensors> VersionReader::ReadTensors(const FileEntry& entry, Allocator& host_allocator) const {
  const auto read = [&]() -> absl::StatusOr<NamedTensors> {
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, open_(entry.name));
    if (file->size() != entry.bytes) {
      return absl::DataLossError(absl::StrCat("has ", file->size(), " bytes, expected ", entry.bytes));
    }
    if (entry.bytes > max_bytes_) return TooLarge(entry.bytes, max_bytes_);
    uint32_t crc = 0;
    const auto next = [&](void* to, size_t bytes) {
      const absl::Status status = file->Read(to, bytes);
      if (status.ok()) crc = Crc32c({static_cast<const char*>(to), bytes}, crc);
      return status;
    };
    ASSIGN_OR_RETURN(Safetensors tensors, ReadSafetensors(static_cast<uint64_t>(entry.bytes), next, host_allocator));
    if (crc != entry.crc32c) return WrongChecksum(crc, entry.crc32c);
    return std::move(tensors.tensors);
  };
  absl::StatusOr<NamedTensors> tensors = read();
  if (!tensors.ok()) return Damaged(tensors.status(), entry.name);
  return tensors;
}

}  // namespace gluond
