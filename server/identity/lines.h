// The files that say who callers are: lines of words, between which are spaces or tabs. Empty lines, and those that
// begin with '#', are left out.

#ifndef SERVER_IDENTITY_LINES_H_
#define SERVER_IDENTITY_LINES_H_

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gluond::server {

// A file of `most_mib` MiB at most that is looked at again and again. Somebody may be in the midst of writing it, and a
// half of the file takes the rights of half of the callers away. So a changed text counts when it has stood still for
// kStill. For one thread at a time.
class WatchedFile {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kStill{1};

  WatchedFile(std::string flag, std::string path, size_t most_mib = 16)
      : flag_(std::move(flag)), path_(std::move(path)), most_mib_(most_mib) {}

  // Reads the file. Whether the text that counts has changed: to the first text, or to one that all looks have found for
  // kStill or longer. NOT_FOUND names the flag and the path of a file that cannot be read. The error is told once: while the
  // file cannot be read, further looks find no change.
  absl::StatusOr<bool> Look(Clock::time_point now = Clock::now());
  // The text that counts.
  const std::string& text() const { return *text_; }
  // Whether there is no other text that does not count yet.
  bool is_still() const { return !next_.has_value(); }
  const std::string& flag() const { return flag_; }
  const std::string& path() const { return path_; }

 private:
  std::string flag_, path_;
  size_t most_mib_;
  std::optional<std::string> text_ = std::nullopt;
  std::optional<std::string> next_ = std::nullopt;  // Another text, which all looks since `since_` have found.
  Clock::time_point since_;
  absl::Status told_;  // The error of the last look; OK: it read the file.
};

// INVALID_ARGUMENT: a file that had lines has none any more, as where somebody began to write it and did not end.
absl::Status NoLinesAnyMore(absl::string_view flag);

// Calls `take` with the words of each line, of which there is one at least. Ends with the first error of `take`, with
// the flag and the number of the line before it.
absl::Status ForEachLine(absl::string_view flag, absl::string_view text,
                         absl::FunctionRef<absl::Status(const std::vector<std::string>& words)> take);

}  // namespace gluond::server

#endif  // SERVER_IDENTITY_LINES_H_
