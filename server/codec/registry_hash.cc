#include "server/codec/registry_hash.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/core/op.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "server/codec/describe_operator.h"

namespace gluond::server {

// FNV-1a, whose results are the same everywhere.
void OperatorHash::Add(const v1::Operator& op) {
  std::string text;
  {
    google::protobuf::io::StringOutputStream stream(&text);
    google::protobuf::io::CodedOutputStream out(&stream);
    out.SetSerializationDeterministic(true);
    (void)op.SerializeToCodedStream(&out);
  }
  // The length keeps the end of one description apart from the beginning of the next.
  for (const char c : absl::StrCat(text.size(), ":", text)) {
    state_ = (state_ ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
}

std::string OperatorHash::Digits() const { return absl::StrFormat("%016x", state_); }

const std::string& RegistryHash() {
  static const std::string& digits = *new std::string([] {
    OperatorHash hash;
    for (const std::string& name : Op::ListNames()) {
      v1::Operator op;
      DescribeOp(*Op::Find(name), /*full=*/true, &op);
      hash.Add(op);
    }
    return hash.Digits();
  }());
  return digits;
}

}  // namespace gluond::server
