#include "engine/compile/pass_set.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/compile/pipeline.h"
#include "engine/core/text.h"

namespace gluond {
namespace {

// The pass's bit; 0: there is no such optional pass.
uint32_t BitOf(absl::string_view name) {
  const absl::Span<const Pass> passes = Passes();
  for (size_t i = 0; i < passes.size(); ++i) {
    if (passes[i].optional && passes[i].name == name) return uint32_t{1} << i;
  }
  return 0;
}

absl::Status NoSuchPass(absl::string_view name) {
  std::vector<std::string> optional;
  for (const Pass& pass : Passes()) {
    if (pass.optional) optional.push_back(absl::StrCat("-", pass.name));
  }
  return absl::InvalidArgumentError(absl::StrCat("'", Excerpt(name), "' is no optional pass to be left out; want ",
                                                 absl::StrJoin(optional, ", "), ", or several with commas between them"));
}

// GLUOND_PASSES is for tests, whose programs have no flags: a text that names no pass must not look like a pass left out.
PassSet FromEnvironment() {
  const char* const text = std::getenv("GLUOND_PASSES");
  absl::StatusOr<PassSet> set = PassSet::Parse(text == nullptr ? "" : text);
  if (set.ok()) return *set;
  std::fprintf(stderr, "GLUOND_PASSES: %s\n", std::string(set.status().message()).c_str());
  std::exit(2);
}

PassSet& ProcessPasses() {
  static PassSet& left_out = *new PassSet(FromEnvironment());
  return left_out;
}

}  // namespace

absl::StatusOr<PassSet> PassSet::Parse(absl::string_view text) {
  PassSet set;
  for (const absl::string_view part : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    absl::string_view name = absl::StripAsciiWhitespace(part);
    const uint32_t bit = absl::ConsumePrefix(&name, "-") ? BitOf(name) : 0;
    if (bit == 0) return NoSuchPass(part);
    set.bits_ |= bit;
  }
  return set;
}

std::string PassSet::ToString() const {
  std::vector<std::string> names;
  for (const Pass& pass : Passes()) {
    if (Contains(pass.name)) names.push_back(absl::StrCat("-", pass.name));
  }
  return absl::StrJoin(names, ",");
}

bool PassSet::Contains(absl::string_view pass) const { return (bits_ & BitOf(pass)) != 0; }

PassSet LeftOutPasses() { return ProcessPasses(); }
void SetLeftOutPasses(PassSet left_out) { ProcessPasses() = left_out; }

}  // namespace gluond
