// The walkers of the wire format (server/wire/wire_message.h and what it is made of) against protobuf's own parser: what one
// takes the other takes, and it is the same message.

#include <memory>

#include "gluond/v1/custom_operator.pb.h"
#include "gluond/v1/model.pb.h"
#include "gluond/v1/parameters.pb.h"
#include "gluond/v1/session.pb.h"
#include "gluond/v1/training.pb.h"
#include "server/wire/chunk.h"
#include "server/wire/wire_check.h"
#include "server/wire/wire_message.h"
#include "tests/fuzz/fuzz.h"

namespace gluond::fuzz {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

const Message* const kTypes[] = {&v1::SessionRequest::default_instance(),         &v1::HostRequest::default_instance(),
                                 &v1::TrainStepRequest::default_instance(),       &v1::DefineModelRequest::default_instance(),
                                 &v1::UploadParameterRequest::default_instance(), &v1::Tensor::default_instance()};

std::string Number(uint64_t value) {
  std::string text;
  for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
  return text + static_cast<char>(value);
}

// Fields of the message as `in` says; some are broken.
std::string Compose(Choices& in, const Descriptor& type, int depth) {
  constexpr size_t kLengths[] = {0, 1, 20, 130, 4095, 4096, 9000};
  std::string out;
  while (!in.empty()) {
    const size_t what = in.Below(16);
    if (what == 0 || type.field_count() == 0) break;
    if (what == 1) {
      out += in.Take(in.Below(12));
      continue;
    }
    const FieldDescriptor* field = type.field(static_cast<int>(in.Below(static_cast<size_t>(type.field_count()))));
    const auto tag = static_cast<uint64_t>(field->number()) << 3;
    const bool is_message = field->type() == FieldDescriptor::TYPE_MESSAGE;
    if (what == 2) {  // Of another type, perhaps.
      out += Number(tag | in.Below(8)) + in.Take(in.Below(10));
    } else if (is_message || field->cpp_type() == FieldDescriptor::CPPTYPE_STRING || field->is_packed()) {
      std::string value = is_message && depth < 120 ? Compose(in, *field->message_type(), depth + 1)
                                                    : std::string(kLengths[in.Below(7)], static_cast<char>(in.Below(200)));
      out += Number(tag | 2) + Number(what == 3 ? value.size() + in.Below(200) - 100 : value.size()) + value;
    } else {
      out += Number(tag) + Number(in.Below(256) << in.Below(57));
    }
  }
  return out;
}

// What a message or a string takes in memory at the least.
constexpr int64_t kLeastBytes = 16;

// At least so many are on the wire.
int64_t CountMessages(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  const auto* reflection = message.GetReflection();
  reflection->ListFields(message, &fields);
  int64_t count = 0;
  for (const FieldDescriptor* field : fields) {
    const int n = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    if (field->is_map()) {
      count += n;  // An entry has a value where the wire has none.
    } else if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
      for (int i = 0; i < n; ++i) {
        count += 1 + CountMessages(field->is_repeated() ? reflection->GetRepeatedMessage(message, field, i)
                                                        : reflection->GetMessage(message, field));
      }
    } else if (field->is_repeated() && !field->is_packable()) {
      count += n;
    }
  }
  return count;
}

void Check(const std::string& wire, size_t piece, const Message& type) {
  server::Slices slices;
  for (size_t i = 0; i < wire.size(); i += piece) slices.emplace_back(wire.substr(i, piece));
  const std::unique_ptr<Message> expected(type.New()), got(type.New());
  const bool parses = expected->ParseFromString(wire);
  server::Attachments attachments;
  const absl::Status status = server::ParseMessage(slices, got.get(), &attachments);
  RequireCode(status, {absl::StatusCode::kInvalidArgument, absl::StatusCode::kResourceExhausted});
  Require(!status.ok() || parses, "protobuf refuses what is taken");
  // Long messages are refused for groups, which proto3 does not have, and for field numbers of more than 32 bits, of which
  // protobuf takes the lower ones.
  const std::string why(status.message());
  const bool on_purpose =
      absl::IsResourceExhausted(status) || why.find("wire type") != why.npos || why.find("broken field number") != why.npos;
  Require(status.ok() || !parses || on_purpose, "protobuf takes what is refused: " + why);
  if (!status.ok()) return;
  const server::Slices woven = server::SerializeMessage(*got, attachments);
  const server::Bytes bytes(woven);
  std::string text(bytes.size(), '\0');
  bytes.CopyTo(text.data());
  Require(got->ParseFromString(text) && Bytes(*got) == Bytes(*expected), "it is the same message");
  const int64_t messages = CountMessages(*expected);
  Require(server::ParsedBytes(wire, *type.GetDescriptor()) >= kLeastBytes * messages, "all are counted");
}

void CheckChunk(const std::string& wire, uint64_t received, uint64_t total) {
  v1::Chunk chunk;
  if (!chunk.ParseFromString(wire) || received > total) return;
  const server::Bytes bytes{absl::string_view(chunk.data())};
  const absl::StatusOr<size_t> known = server::CheckChunk(chunk, bytes, received, total);
  RequireCode(known.status(),
              {absl::StatusCode::kInvalidArgument, absl::StatusCode::kFailedPrecondition, absl::StatusCode::kDataLoss});
  Require(!known.ok() || *known == bytes.size() || chunk.offset() + *known == received, "new bytes follow the old ones");
  Require(!known.ok() || chunk.offset() + bytes.size() <= total, "no byte is beyond the end");
}

}  // namespace
}  // namespace gluond::fuzz

// One message, in slices; composed field by field, or as it is.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gluond::fuzz;
  Choices in(data, size);
  const google::protobuf::Message& type = *kTypes[in.Below(std::size(kTypes))];
  constexpr size_t kPieces[] = {1, 7, 100, 4096, 1 << 20};
  const size_t piece = kPieces[in.Below(5)], received = in.Below(256);
  const std::string wire = in.Below(2) == 0 ? Compose(in, *type.GetDescriptor(), 0) : std::string(in.Rest());
  if (wire.size() > 1 << 18) return 0;
  Check(wire, piece, type);
  CheckChunk(wire, received, received + piece);
  return 0;
}
