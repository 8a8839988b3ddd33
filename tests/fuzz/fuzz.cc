#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "engine/core/op.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/text_format.h"

namespace gluond::fuzz {
namespace {

class Silent final : public google::protobuf::io::ErrorCollector {
  void AddError(int, int, const std::string&) override {}
};

// What attributes are written as.
constexpr const char* kValues[] = {"True",
                                   "False",
                                   "None",
                                   "0",
                                   "1",
                                   "2",
                                   "3",
                                   "-1",
                                   "0.5",
                                   "-1e300",
                                   "1e-8",
                                   "nan",
                                   "inf",
                                   "(1, 1)",
                                   "(2, 2)",
                                   "(0,)",
                                   "(-1, 0)",
                                   "[1, 2]",
                                   "(None, 2)",
                                   "()",
                                   "float16",
                                   "int64",
                                   "bool",
                                   "relu",
                                   "max",
                                   "valid",
                                   "same",
                                   "null",
                                   "add",
                                   "mean",
                                   "2147483647",
                                   "9223372036854775807",
                                   "4611686018427387904",
                                   "data",
                                   "label",
                                   "weight",
                                   "a",
                                   "b",
                                   "a:1"};

}  // namespace

void Require(bool holds, absl::string_view what) {
  if (holds) return;
  std::fprintf(stderr, "the oracle does not hold: %.*s\n", static_cast<int>(what.size()), what.data());
  std::abort();
}

void RequireCode(const absl::Status& status, std::initializer_list<absl::StatusCode> codes) {
  Require(status.ok() || std::find(codes.begin(), codes.end(), status.code()) != codes.end(),
          "no client's mistake has the status " + status.ToString());
}

std::string Bytes(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&out);
  out.Trim();
  return bytes;
}

bool ParseInput(absl::string_view text, google::protobuf::Message* input) {
  Silent silent;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&silent);
  parser.SetRecursionLimit(60);
  return parser.ParseFromString(std::string(text), input);
}

std::vector<std::string> OperatorWords() {
  std::vector<std::string> words(std::begin(kValues), std::end(kValues));
  for (const std::string& name : Op::ListNames()) {
    words.push_back(name);
    for (const ArgumentDoc& argument : Op::Find(name)->arguments()) words.push_back(argument.name);
  }
  return words;
}

}  // namespace gluond::fuzz
