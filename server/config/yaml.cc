#include "server/config/yaml.h"

#include <cmath>
#include <sstream>

#include "absl/algorithm/container.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "yaml-cpp/eventhandler.h"
#include "yaml-cpp/exceptions.h"
#include "yaml-cpp/mark.h"
#include "yaml-cpp/parser.h"

namespace gluond::server {
namespace {

constexpr absl::string_view kKinds[] = {"nothing", "one value", "a list", "a map"};

absl::string_view NameOf(Yaml::Kind kind) { return kKinds[static_cast<size_t>(kind)]; }

}  // namespace

// YamlBuilder makes the tree of the library's events. The library expands no alias by itself. After a mistake it lets the
// rest pass: the text is short.
class YamlBuilder final : public YAML::EventHandler {
 public:
  explicit YamlBuilder(absl::string_view file) : file_(file) {}

  const absl::Status& status() const { return status_; }
  Yaml TakeRoot() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { Put(MakeChecked(mark, "?", anchor, Yaml::Kind::kNull)); }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    Fail(mark, "an alias (*name) stands for a text elsewhere; write it out");
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, const std::string& value) override {
    Yaml scalar = MakeChecked(mark, tag, anchor, Yaml::Kind::kScalar);
    scalar.text_ = value;
    scalar.quoted_ = tag == "!";
    Put(std::move(scalar));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    Open(MakeChecked(mark, tag, anchor, Yaml::Kind::kList));
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YAML::EmitterStyle::value) override {
    Open(MakeChecked(mark, tag, anchor, Yaml::Kind::kMap));
  }
  void OnMapEnd() override { Close(); }

 private:
  // A map that awaits a value has its key last in `members_`, with `has_key`.
  struct Level {
    Yaml value;
    bool has_key = false;
  };

  Yaml Make(const YAML::Mark& mark, Yaml::Kind kind) const {
    Yaml value;
    value.kind_ = kind;
    value.file_ = file_;
    value.line_ = mark.line + 1;
    value.column_ = mark.column + 1;
    if (open_.empty()) return value;
    const Level& level = open_.back();
    value.path_ = level.value.path_;
    if (level.value.kind_ == Yaml::Kind::kList) {
      absl::StrAppend(&value.path_, "[", level.value.elements_.size(), "]");
    } else if (level.has_key) {
      absl::StrAppend(&value.path_, value.path_.empty() ? "" : ".", Excerpt(level.value.members_.back().first.text_));
    }
    return value;
  }

  Yaml MakeChecked(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, Yaml::Kind kind) {
    if (anchor != YAML::NullAnchor) Fail(mark, "an anchor (&name) has no use here; leave it out");
    // The library's words for a value in quotes and for one without any tag.
    if (tag != "!" && tag != "?" && !tag.empty()) Fail(mark, "a tag ('", Excerpt(tag), "') has no use here; leave it out");
    if (++values_ > Yaml::kMostValues) Fail(mark, "the file has more than ", Yaml::kMostValues, " values");
    return Make(mark, kind);
  }

  void Open(Yaml value) {
    ++depth_;
    if (depth_ > Yaml::kMostDepth) Fail(value.Error("it lies deeper than ", Yaml::kMostDepth, " levels"));
    if (!status_.ok()) return;
    open_.push_back({std::move(value)});
  }

  void Close() {
    --depth_;
    if (!status_.ok()) return;
    Yaml value = std::move(open_.back().value);
    open_.pop_back();
    Put(std::move(value));
  }

  void Put(Yaml value) {
    if (!status_.ok()) return;
    if (open_.empty()) {
      root_ = std::move(value);
      return;
    }
    Level& level = open_.back();
    if (level.value.kind_ == Yaml::Kind::kList) {
      level.value.elements_.push_back(std::move(value));
    } else if (level.has_key) {
      level.value.members_.back().second = std::move(value);
      level.has_key = false;
    } else {
      PutKey(&level, std::move(value));
    }
  }

  void PutKey(Level* level, Yaml key) {
    if (key.kind_ != Yaml::Kind::kScalar) return Fail(key.Error("a key is ", NameOf(key.kind_), "; want a word"));
    if (const Yaml* const other = level->value.Find(key.text_); other != nullptr) {
      return Fail(key.Error("'", Excerpt(key.text_), "' stands here again, after line ", other->line_));
    }
    level->value.members_.emplace_back(std::move(key), Yaml());
    level->has_key = true;
  }

  void Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
  }
  template <class... Args>
  void Fail(const YAML::Mark& mark, const Args&... message) {
    Fail(Make(mark, Yaml::Kind::kNull).Error(message...));
  }

  const std::string file_;
  absl::Status status_;
  Yaml root_;
  std::vector<Level> open_;
  int depth_ = 0;
  size_t values_ = 0;
};

absl::StatusOr<Yaml> Yaml::Parse(absl::string_view text, absl::string_view file) {
  if (text.size() > kMostBytes) {
    return Invalid(file, " has ", text.size(), " bytes, the limit is ", kMostBytes);
  }
  std::istringstream stream{std::string(text)};
  YamlBuilder builder(file);
  try {
    YAML::Parser parser(stream);
    if (!parser.HandleNextDocument(builder)) return Invalid(file, " is empty");
    RETURN_IF_ERROR(builder.status());
    YamlBuilder second(file);
    if (parser.HandleNextDocument(second)) {
      return Invalid(file, " has several documents (---); want one");
    }
  } catch (const YAML::Exception& error) {  // The library's way to tell of a text that is no YAML.
    return Invalid(file, ", line ", error.mark.line + 1, ", column ", error.mark.column + 1, ": it is no YAML: ", error.msg);
  }
  return builder.TakeRoot();
}

const Yaml* Yaml::Find(absl::string_view key) const {
  const auto found = absl::c_find_if(members_, [&](const auto& each) { return each.first.text_ == key; });
  return found == members_.end() ? nullptr : &found->second;
}

std::string Yaml::Place() const {
  return absl::StrCat(file_, ", line ", line_, ", column ", column_, path_.empty() ? "" : ": ", path_);
}

absl::Status Yaml::At(const absl::Status& status) const { return Annotate(status, Place()); }

absl::Status Yaml::Want(Kind kind) const {
  return kind == kind_ ? absl::OkStatus() : Error("want ", NameOf(kind), ", got ", NameOf(kind_));
}

absl::Status Yaml::CheckKeys(const std::vector<std::string>& known) const {
  RETURN_IF_ERROR(Want(Kind::kMap));
  for (const auto& [key, value] : members_) {
    if (absl::c_linear_search(known, key.text_)) continue;
    return key.Error("there is no key '", Excerpt(key.text_), "' here", DidYouMean(key.text_, known),
                     " (keys: ", absl::StrJoin(known, ", "), ")");
  }
  return absl::OkStatus();
}

absl::Status Yaml::Get(std::string* value) const {
  RETURN_IF_ERROR(Want(Kind::kScalar));
  *value = text_;
  return absl::OkStatus();
}

absl::Status Yaml::Get(bool* value) const {
  RETURN_IF_ERROR(Want(Kind::kScalar));
  if (quoted_ || (text_ != "true" && text_ != "false")) return Error("want true or false, got '", Excerpt(text_), "'");
  *value = text_ == "true";
  return absl::OkStatus();
}

template <class T>
absl::Status Yaml::GetNumber(absl::string_view what, bool (*parse)(absl::string_view, T*), T* value) const {
  RETURN_IF_ERROR(Want(Kind::kScalar));
  if (!quoted_ && parse(text_, value)) return absl::OkStatus();
  return Error("want ", what, ", got '", Excerpt(text_), "'", quoted_ ? " in quotes" : "");
}

absl::Status Yaml::Get(int64_t* value) const { return GetNumber("a whole number", &absl::SimpleAtoi<int64_t>, value); }
absl::Status Yaml::Get(uint64_t* value) const {
  return GetNumber("a whole number of 0 or more", &absl::SimpleAtoi<uint64_t>, value);
}

absl::Status Yaml::Get(double* value) const {
  const auto parse = [](absl::string_view text, double* number) {
    return absl::SimpleAtod(text, number) && std::isfinite(*number);
  };
  return GetNumber<double>("a number", parse, value);
}

}  // namespace gluond::server
