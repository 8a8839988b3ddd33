// What the fuzz targets share. A target is one file: it defines LLVMFuzzerTestOneInput, which libFuzzer calls with one
// input after the other (run.sh), and replay.cc with those of the corpus. A finding is a crash, and so is an oracle that
// does not hold: what is refused is refused with a Status that a client's mistake may have, and so on.
//
// Inputs have two forms. Choices reads decisions from plain bytes. Structured inputs are a protobuf message as text, so
// that a person can read and write them; mutator.cc changes the message rather than its letters:
//
//   void Run(const v1::SessionRequest& request) { ... }
//   STRUCTURED_FUZZ_TARGET(v1::SessionRequest, Run, OperatorWords())

#ifndef TESTS_FUZZ_FUZZ_H_
#define TESTS_FUZZ_FUZZ_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace gluond::fuzz {

// Ends the process where `holds` is false.
void Require(bool holds, absl::string_view what);
// The same where `status` is neither OK nor of one of `codes`.
void RequireCode(const absl::Status& status, std::initializer_list<absl::StatusCode> codes);

// Equal messages have equal bytes, whatever the order of their maps.
std::string Bytes(const google::protobuf::Message& message);

// Decisions from the input; zeros after its end.
class Choices {
 public:
  Choices(const uint8_t* data, size_t size) : left_(reinterpret_cast<const char*>(data), size) {}
  bool empty() const { return left_.empty(); }
  // In [0, n). Requires: 0 < n <= 256.
  size_t Below(size_t n) { return static_cast<unsigned char>(Take(1)[0]) % n; }
  std::string Take(size_t n) {
    std::string bytes(left_.substr(0, n));
    left_.remove_prefix(bytes.size());
    bytes.resize(n);
    return bytes;
  }
  absl::string_view Rest() { return std::exchange(left_, {}); }

 private:
  absl::string_view left_;
};

// False: the text is not of this message.
bool ParseInput(absl::string_view text, google::protobuf::Message* input);

// For the mutator: an empty input, and words that its strings may hold.
google::protobuf::Message* NewInput();
std::vector<std::string> Words();
// The names of operators, their attributes, and values for these.
std::vector<std::string> OperatorWords();

}  // namespace gluond::fuzz

// Names are looked up in gluond::fuzz.
#define STRUCTURED_FUZZ_TARGET(Input, run, words)                                                  \
  namespace gluond::fuzz {                                                                         \
  google::protobuf::Message* NewInput() { return new Input; }                                      \
  std::vector<std::string> Words() { return words; }                                               \
  }                                                                                                \
  extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {                        \
    using namespace gluond::fuzz;                                                                  \
    using namespace gluond;                                                                        \
    Input input;                                                                                   \
    if (ParseInput({reinterpret_cast<const char*>(data), size}, &input)) gluond::fuzz::run(input); \
    return 0;                                                                                      \
  }

#endif  // TESTS_FUZZ_FUZZ_H_
