#include "server/identity/lines.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/core/status_macros.h"
#include "server/config/operator_file.h"

namespace gluond::server {

absl::StatusOr<bool> WatchedFile::Look(Clock::time_point now) {
  absl::StatusOr<std::string> text = ReadOperatorFile(path_, most_mib_ << 20);
  if (!text.ok()) {
    text = NotFound(flag_, "=", path_, " cannot be read: ", text.status().message());
    next_.reset();
  }
  if (!text.ok() && text.status() == told_) return false;
  told_ = text.status();
  RETURN_IF_ERROR(told_);
  if (text_.has_value() && next_ != *text) {
    next_.reset();
    if (text_ != *text) next_ = *std::move(text);
    since_ = now;
    return false;
  }
  if (text_.has_value() && now - since_ < kStill) return false;
  text_ = *std::move(text);
  next_.reset();
  return true;
}

absl::Status NoLinesAnyMore(absl::string_view flag) { return Invalid(flag, ": the file has no lines any more, want one at least"); }

absl::Status ForEachLine(absl::string_view flag, absl::string_view text,
                         absl::FunctionRef<absl::Status(const std::vector<std::string>& words)> take) {
  int64_t number = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty() || words[0][0] == '#') continue;
    RETURN_IF_ERROR(Annotate(take(words), absl::StrCat(flag, ", line ", number)));
  }
  return absl::OkStatus();
}

}  // namespace gluond::server
