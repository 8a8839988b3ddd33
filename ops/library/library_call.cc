#include "ops/library/library_call.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/core/text.h"

namespace gluond::ops {

namespace {

// A library's text may be anything, and a status goes into messages: one line of UTF-8.
std::string Readable(std::string text) {
  constexpr size_t kMostText = 1024;
  if (text.empty()) return "the library does not say why";
  if (text.size() > kMostText || !IsUtf8(text)) return Excerpt(text, kMostText);
  for (char& c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = ' ';
  }
  return text;
}

}  // namespace

absl::Status ToStatus(int32_t code, const gluond_error& error) {
  if (code == GLUOND_OK) return absl::OkStatus();
  const std::string text = Readable(error.text);
  switch (code) {
    case GLUOND_INVALID_ARGUMENT: return absl::InvalidArgumentError(text);
    case GLUOND_RESOURCE_EXHAUSTED: return absl::ResourceExhaustedError(text);
    case GLUOND_FAILED_PRECONDITION: return absl::FailedPreconditionError(text);
    case GLUOND_UNIMPLEMENTED: return absl::UnimplementedError(text);
    case GLUOND_INTERNAL: return absl::InternalError(text);
    default: return absl::InternalError(absl::StrCat(text, " (status ", code, ", which gluond_op.h does not have)"));
  }
}

LibraryCall::LibraryCall(size_t num_attributes, void* user)
    : values_(num_attributes), texts_(num_attributes), integers_(num_attributes), numbers_(num_attributes), call_() {
  call_.size = sizeof(call_);
  call_.user = user;
  call_.attributes = values_.data();
  call_.num_attributes = static_cast<uint32_t>(num_attributes);
}

void LibraryCall::SetText(size_t place, std::string text) {
  texts_[place] = std::move(text);
  values_[place].text = texts_[place].c_str();
}

void LibraryCall::SetIntegers(size_t place, std::vector<int64_t> integers) {
  integers_[place] = std::move(integers);
  values_[place].integers = integers_[place].data();
  values_[place].count = static_cast<uint32_t>(integers_[place].size());
}

void LibraryCall::SetNumbers(size_t place, std::vector<double> numbers) {
  numbers_[place] = std::move(numbers);
  values_[place].numbers = numbers_[place].data();
  values_[place].count = static_cast<uint32_t>(numbers_[place].size());
}

}  // namespace gluond::ops
