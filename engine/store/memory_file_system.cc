#include "engine/store/memory_file_system.h"

#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/core/status_macros.h"

namespace gluond {
namespace {

std::string WithoutSlash(const std::string& path) { return std::string(absl::StripSuffix(path, "/")); }

class WrittenFile final : public WritableFile {
 public:
  explicit WrittenFile(std::shared_ptr<std::string> bytes) : bytes_(std::move(bytes)) {}
  absl::Status Append(absl::string_view bytes) override {
    bytes_->append(bytes.data(), bytes.size());
    return absl::OkStatus();
  }
  absl::Status Sync() override { return absl::OkStatus(); }

 private:
  const std::shared_ptr<std::string> bytes_;
};

class ReadFile final : public ReadableFile {
 public:
  ReadFile(std::string path, std::shared_ptr<const std::string> bytes) : path_(std::move(path)), bytes_(std::move(bytes)) {}
  int64_t size() const override { return static_cast<int64_t>(bytes_->size()); }
  absl::Status Read(void* to, size_t bytes) override {
    RETURN_IF_ERROR(Skip(static_cast<int64_t>(bytes)));
    if (bytes > 0) std::memcpy(to, bytes_->data() + read_ - bytes, bytes);
    return absl::OkStatus();
  }
  absl::Status Skip(int64_t bytes) override {
    const auto skipped = static_cast<size_t>(bytes);
    if (skipped > bytes_->size() - read_) return absl::DataLossError(absl::StrCat("'", path_, "' ends too early"));
    read_ += skipped;
    return absl::OkStatus();
  }

 private:
  const std::string path_;
  const std::shared_ptr<const std::string> bytes_;
  size_t read_ = 0;
};

absl::Status NoFile(const std::string& path) { return absl::NotFoundError(absl::StrCat("there is no file '", path, "'")); }

// Whether a path lies in a directory, or is it.
bool IsIn(const std::string& path, const std::string& directory) {
  return path == directory || absl::StartsWith(path, directory + "/");
}

}  // namespace

MemoryFileSystem::Files MemoryFileSystem::files() const {
  MutexLock lock(mu_);
  return files_;
}

int64_t MemoryFileSystem::bytes() const {
  int64_t bytes = 0;
  MutexLock lock(mu_);
  for (const auto& [path, file] : files_) bytes += static_cast<int64_t>(file->size());
  return bytes;
}

void MemoryFileSystem::Add(const std::string& path, std::string bytes) {
  MutexLock lock(mu_);
  files_[path] = std::make_shared<std::string>(std::move(bytes));
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    directories_.insert(path.substr(0, slash));
  }
}

absl::StatusOr<std::unique_ptr<WritableFile>> MemoryFileSystem::Create(const std::string& path) {
  auto bytes = std::make_shared<std::string>();
  MutexLock lock(mu_);
  files_[path] = bytes;
  return std::make_unique<WrittenFile>(std::move(bytes));
}

absl::Status MemoryFileSystem::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(mu_);
  if (const auto file = files_.find(from); file != files_.end()) {
    files_[to] = std::move(file->second);
    files_.erase(from);
    return absl::OkStatus();
  }
  if (!directories_.contains(from)) return NoFile(from);
  const auto moved = [&](const std::string& path) { return to + path.substr(from.size()); };
  Files files;
  for (auto& [path, file] : files_) files[IsIn(path, from) ? moved(path) : path] = std::move(file);
  files_ = std::move(files);
  std::set<std::string> directories;
  for (const std::string& path : directories_) directories.insert(IsIn(path, from) ? moved(path) : path);
  directories_ = std::move(directories);
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::MakeDirectory(const std::string& path) {
  MutexLock lock(mu_);
  directories_.insert(WithoutSlash(path));
  return absl::OkStatus();
}

absl::Status MemoryFileSystem::RemoveTree(const std::string& path) {
  const std::string tree = WithoutSlash(path);
  MutexLock lock(mu_);
  std::erase_if(files_, [&](const auto& file) { return IsIn(file.first, tree); });
  std::erase_if(directories_, [&](const std::string& directory) { return IsIn(directory, tree); });
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ReadableFile>> MemoryFileSystem::Open(const std::string& path) const {
  MutexLock lock(mu_);
  const auto file = files_.find(path);
  if (file == files_.end()) return NoFile(path);
  return std::make_unique<ReadFile>(path, file->second);
}

absl::StatusOr<std::vector<std::string>> MemoryFileSystem::List(const std::string& directory) const {
  const std::string above = WithoutSlash(directory) + "/";
  std::set<std::string> names;
  const auto add = [&](const std::string& path) {
    if (absl::StartsWith(path, above)) names.insert(path.substr(above.size(), path.find('/', above.size()) - above.size()));
  };
  MutexLock lock(mu_);
  if (!directories_.contains(WithoutSlash(directory))) return NoFile(directory);
  for (const auto& [path, file] : files_) add(path);
  for (const std::string& path : directories_) add(path);
  return std::vector<std::string>(names.begin(), names.end());
}

bool MemoryFileSystem::IsDirectory(const std::string& path) const {
  MutexLock lock(mu_);
  return directories_.contains(WithoutSlash(path));
}

absl::StatusOr<int64_t> MemoryFileSystem::TreeBytes(const std::string& directory) const {
  const std::string tree = WithoutSlash(directory);
  int64_t bytes = 0;
  MutexLock lock(mu_);
  for (const auto& [path, file] : files_) {
    if (IsIn(path, tree)) bytes += static_cast<int64_t>(file->size());
  }
  return bytes;
}

}  // namespace gluond
