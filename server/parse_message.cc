#include "server/parse_message.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "server/wire_check.h"
#include "server/wire_cut.h"

namespace gluond::server {
namespace {

// A message within a message takes two bytes on the wire and a hundred in memory. Shorter requests may hold what they
// like; longer ones, as many as a graph of --max_graph_nodes needs, several times.
constexpr size_t kMayHoldMany = 1 << 20;
constexpr int64_t kMostMessages = 2'000'000;

}  // namespace

absl::Status ParseMessage(const Slices& slices, google::protobuf::Message* message, Attachments* attachments) {
  std::string text;
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("the request is not a ", message->GetTypeName(), ": ", why,
                                                   "; is the client's proto another one?"));
  };
  const Bytes bytes(slices);
  if (bytes.size() < kAttachmentBytes) {
    if (const char* all = bytes.contiguous(); all != nullptr) {
      if (message->ParseFromArray(all, static_cast<int>(bytes.size()))) return absl::OkStatus();
    }
    text.resize(bytes.size());
    bytes.CopyTo(text.data());
  } else if (absl::Status status = Cut(slices, *message->GetDescriptor(), &text, attachments); !status.ok()) {
    return refuse(status.message());
  }
  if (text.size() > kMayHoldMany && HoldsMoreMessages(text, *message->GetDescriptor(), kMostMessages)) {
    return absl::ResourceExhaustedError(absl::StrCat("the request holds more than ", kMostMessages,
                                                     " messages (nodes, attributes, tensors, ...), which take far more "
                                                     "memory than its bytes; send it in parts"));
  }
  if (message->ParseFromString(text)) return absl::OkStatus();
  return refuse(FindDamage(text, *message->GetDescriptor()));
}

}  // namespace gluond::server
