// SessionReplies keeps the replies of a session from the moment they are ready until the client has them. A reply is unsent
// first, then under way in one message of the stream, then sent and not yet acknowledged. A broken stream makes all replies
// that are not acknowledged unsent again. The session's mutex guards the object.
//
//   replies.Add(EncodeReply(...));
//   if (replies.Take(&slices)) ...write `slices`...; replies.Written();
//   replies.Acknowledge(request.replies_received());
//
// Sent replies have no claim on memory without end: the newest are kept, `kept_bytes` of them and one more. A client that
// reads has had the others long ago, whether it says so or not. (To stop until the client says so would be a deadlock:
// acknowledgements come after commands.)

#ifndef SERVER_SESSION_REPLIES_H_
#define SERVER_SESSION_REPLIES_H_

#include <cstdint>
#include <deque>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gluond/v1/session.pb.h"
#include "server/wire/attachments.h"

namespace gluond::server {

// A serialized Reply, and its sizes.
struct EncodedReply {
  Slices slices;
  int64_t size = 0;   // On the wire.
  int64_t bytes = 0;  // With the tensors that it refers to,
  int64_t own = 0;    // and without those.
};

// The error of an answer that no message can hold. `what`: what has so many bytes.
absl::Status TooLargeAnswer(absl::string_view what, int64_t bytes, int64_t max_message_bytes);

// Serializes a reply whose tensors take `bytes`. Where a message of `max_message_bytes` cannot hold it, the reply says
// so instead (RESOURCE_EXHAUSTED names --max_message_bytes).
EncodedReply EncodeReply(v1::Reply reply, const Attachments& attachments, int64_t bytes, int64_t max_message_bytes);

class SessionReplies {
 public:
  SessionReplies(int64_t kept_bytes, int64_t max_message_bytes) : kept_bytes_(kept_bytes), max_message_bytes_(max_message_bytes) {}

  // Its index is last() + 1, which the caller has written into it.
  void Add(EncodedReply reply);
  uint64_t last() const { return first_ + replies_.size() - 1; }

  // Appends the next unsent replies to `message`, a serialized SessionResponse; several small ones at once. False: all
  // have been sent. Nothing may be under way.
  bool Take(Slices* message);
  // The replies under way have been written.
  void Written();

  // INVALID_ARGUMENT: the client says that it has replies that never existed.
  absl::Status CheckAcknowledged(uint64_t index) const;
  // FAILED_PRECONDITION: some reply after `index` is not kept any more.
  absl::Status CheckKept(uint64_t index) const;
  // The client has the replies up to `index`.
  void Acknowledge(uint64_t index);
  // A new stream: nothing is under way or sent.
  void Rewind();
  // The client needs none of them any more.
  void Clear() { Acknowledge(last()); }

  // Bytes of replies unsent and under way.
  int64_t unsent_bytes() const { return unsent_bytes_; }
  int64_t total_bytes() const { return total_bytes_; }
  // Bytes that all replies take beside the tensors that they refer to.
  int64_t own_bytes() const { return own_bytes_; }
  bool all_written() const { return sent_ == replies_.size(); }

 private:
  void DropFirst();

  const int64_t kept_bytes_;
  const int64_t max_message_bytes_;
  std::deque<EncodedReply> replies_;  // `sent_` are sent, those up to `taken_` are under way.
  uint64_t first_ = 1;                // Index of replies_[0].
  uint64_t dropped_ = 0;              // Those up to this index were dropped without being acknowledged.
  size_t sent_ = 0;
  size_t taken_ = 0;
  int64_t total_bytes_ = 0;
  int64_t unsent_bytes_ = 0;
  int64_t own_bytes_ = 0;
};

}  // namespace gluond::server

#endif  // SERVER_SESSION_REPLIES_H_
