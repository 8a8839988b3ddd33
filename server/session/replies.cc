#include "server/session/replies.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/core/error_info.h"
#include "google/protobuf/io/coded_stream.h"
#include "server/rpc/grpc_status.h"
#include "server/wire/wire_message.h"

namespace gluond::server {
namespace {

constexpr int64_t kEnoughForOneMessage = 256 << 10;
// SessionResponse.received and .replies' tags and lengths.
constexpr int64_t kAround = 32;
// Memory that a kept reply takes beside its bytes.
constexpr int64_t kOverhead = 128;

// A field of SessionResponse.replies: its tag and length.
std::string Header(int64_t size) {
  using google::protobuf::io::CodedOutputStream;
  uint8_t buffer[12];
  uint8_t* end = CodedOutputStream::WriteTagToArray(v1::SessionResponse::kRepliesFieldNumber << 3 | 2, buffer);
  end = CodedOutputStream::WriteVarint64ToArray(static_cast<uint64_t>(size), end);
  return std::string(buffer, end);
}

}  // namespace

absl::Status TooLargeAnswer(absl::string_view what, int64_t bytes, int64_t max_message_bytes) {
  return OverLimit("--max_message_bytes", what, bytes, " bytes, more than the ", max_message_bytes,
                   " of --max_message_bytes; fetch arrays one by one, or slices of a large one");
}

EncodedReply EncodeReply(v1::Reply reply, const Attachments& attachments, int64_t bytes, int64_t max_message_bytes) {
  const int64_t limit = max_message_bytes - kAround;
  EncodedReply encoded;
  encoded.size = static_cast<int64_t>(reply.ByteSizeLong());
  if (encoded.size <= limit) {
    encoded.slices = attachments.empty() ? Slices{grpc::Slice(reply.SerializeAsString())} : SerializeMessage(reply, attachments);
    encoded.size = static_cast<int64_t>(Bytes(encoded.slices).size());
  }
  if (encoded.size > limit) {
    v1::Reply instead;
    instead.set_index(reply.index());
    instead.set_number(reply.number());
    v1::Failure* const failure = instead.add_failures();
    failure->set_command(reply.number());
    *failure->mutable_status() = ToProto(TooLargeAnswer("the reply has ", encoded.size, max_message_bytes));
    const std::string text = instead.SerializeAsString();
    encoded = {Slices{grpc::Slice(text)}, static_cast<int64_t>(text.size()), 0, 0};
    bytes = 0;
  }
  encoded.bytes = std::max(bytes, encoded.size) + kOverhead;
  encoded.own = (attachments.empty() || bytes == 0 ? encoded.size : 0) + kOverhead;
  return encoded;
}

void SessionReplies::Add(EncodedReply reply) {
  total_bytes_ += reply.bytes;
  unsent_bytes_ += reply.bytes;
  own_bytes_ += reply.own;
  replies_.push_back(std::move(reply));
}

bool SessionReplies::Take(Slices* message) {
  if (taken_ == replies_.size()) return false;
  std::string text;
  const auto flush = [&] {
    if (!text.empty()) message->emplace_back(text);
    text.clear();
  };
  int64_t size = 0;
  for (; taken_ < replies_.size(); ++taken_) {
    const EncodedReply& reply = replies_[taken_];
    const bool fits = size + reply.size + kAround <= std::min(kEnoughForOneMessage, max_message_bytes_);
    if (size > 0 && !fits) break;
    size += reply.size + kAround;
    text += Header(reply.size);
    const bool small = reply.size < static_cast<int64_t>(kAttachmentBytes);
    if (!small) flush();
    for (const grpc::Slice& slice : reply.slices) {
      if (small) {
        text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
      } else {
        message->push_back(slice);
      }
    }
  }
  flush();
  return true;
}

void SessionReplies::Written() {
  for (; sent_ < taken_; ++sent_) unsent_bytes_ -= replies_[sent_].bytes;
  while (sent_ > 0 && total_bytes_ - unsent_bytes_ - replies_.front().bytes > kept_bytes_) {
    DropFirst();
    dropped_ = first_ - 1;
  }
}

absl::Status SessionReplies::CheckAcknowledged(uint64_t index) const {
  if (index <= last()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("SessionRequest.replies_received is ", index, ", but the session has given ",
                                                 last(), " replies; send the index of the last one that came"));
}

absl::Status SessionReplies::CheckKept(uint64_t index) const {
  if (index >= dropped_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the session cannot be taken up: SessionRequest.replies_received is ", index, ", but the replies up to ",
                   dropped_, " are not kept any more, because those sent after them take more than the ", kept_bytes_,
                   " bytes of --max_session_queue_bytes; open a new session, and send replies_received more often"));
}

void SessionReplies::Acknowledge(uint64_t index) {
  while (first_ <= index && !replies_.empty()) DropFirst();
}

void SessionReplies::Rewind() {
  sent_ = taken_ = 0;
  unsent_bytes_ = total_bytes_;
}

void SessionReplies::DropFirst() {
  const int64_t bytes = replies_.front().bytes;
  total_bytes_ -= bytes;
  own_bytes_ -= replies_.front().own;
  if (sent_ > 0) {
    --sent_;
  } else {
    unsent_bytes_ -= bytes;
  }
  if (taken_ > 0) --taken_;
  replies_.pop_front();
  ++first_;
}

}  // namespace gluond::server
