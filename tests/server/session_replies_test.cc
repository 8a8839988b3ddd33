// SessionReplies: replies are sent, sent again, acknowledged, and forgotten.

#include "server/session/replies.h"

#include "gtest/gtest.h"

namespace gluond::server {
namespace {

// A reply whose one tensor has so many bytes.
EncodedReply Reply(uint64_t index, size_t bytes = 10, int64_t max_message_bytes = 1 << 20) {
  v1::Reply reply;
  reply.set_index(index);
  reply.set_number(10 * index);
  Attachments attachments;
  const std::string raw(bytes, 'x');
  reply.add_tensors()->set_raw(bytes < 4096 ? raw : attachments.Add(grpc::Slice(raw)));
  return EncodeReply(std::move(reply), attachments, static_cast<int64_t>(bytes), max_message_bytes);
}

// The indices in the next message; none: all has been sent.
std::vector<uint64_t> Take(SessionReplies& replies) {
  Slices slices;
  std::vector<uint64_t> indices;
  if (!replies.Take(&slices)) return indices;
  std::string text(Bytes(slices).size(), '\0');
  Bytes(slices).CopyTo(text.data());
  v1::SessionResponse response;
  EXPECT_TRUE(response.ParseFromString(text));
  for (const v1::Reply& reply : response.replies()) indices.push_back(reply.index());
  return indices;
}

using Indices = std::vector<uint64_t>;

TEST(SessionRepliesTest, SeveralSmallOnesTravelTogether) {
  SessionReplies replies(1 << 20, 1 << 20);
  for (uint64_t i = 1; i <= 3; ++i) replies.Add(Reply(i));
  EXPECT_EQ(Take(replies), Indices({1, 2, 3}));
  EXPECT_FALSE(replies.all_written());
  replies.Add(Reply(4));
  replies.Written();
  EXPECT_FALSE(replies.all_written());
  EXPECT_EQ(Take(replies), Indices({4}));
  replies.Written();
  EXPECT_TRUE(replies.all_written());
  EXPECT_EQ(Take(replies), Indices());
  EXPECT_EQ(replies.unsent_bytes(), 0);
  EXPECT_GT(replies.total_bytes(), 0);
}

TEST(SessionRepliesTest, NoMessageIsLargerThanTheLimit) {
  SessionReplies replies(1 << 20, 10'000);
  for (uint64_t i = 1; i <= 4; ++i) replies.Add(Reply(i, 4900));
  EXPECT_EQ(Take(replies), Indices({1, 2}));
  replies.Written();
  EXPECT_EQ(Take(replies), Indices({3, 4}));
}

TEST(SessionRepliesTest, ANewStreamSendsWhatIsNotAcknowledged) {
  SessionReplies replies(1 << 20, 1 << 20);
  for (uint64_t i = 1; i <= 4; ++i) replies.Add(Reply(i));
  EXPECT_EQ(Take(replies), Indices({1, 2, 3, 4}));
  replies.Written();
  replies.Rewind();
  replies.Acknowledge(2);
  EXPECT_EQ(replies.unsent_bytes(), replies.total_bytes());
  EXPECT_EQ(Take(replies), Indices({3, 4}));
  EXPECT_EQ(replies.last(), 4u);
}

TEST(SessionRepliesTest, AcknowledgementsMayOvertakeTheWrite) {
  SessionReplies replies(1 << 20, 1 << 20);
  for (uint64_t i = 1; i <= 3; ++i) replies.Add(Reply(i));
  EXPECT_EQ(Take(replies), Indices({1, 2, 3}));
  replies.Acknowledge(2);
  replies.Add(Reply(4));
  replies.Written();
  EXPECT_EQ(Take(replies), Indices({4}));
  replies.Acknowledge(4);
  replies.Written();
  EXPECT_TRUE(replies.all_written());
  EXPECT_EQ(replies.total_bytes(), 0);
  EXPECT_EQ(replies.unsent_bytes(), 0);
}

TEST(SessionRepliesTest, OfSentRepliesTheNewestAreKept) {
  SessionReplies replies(3 * 10'000, 1 << 20);
  for (uint64_t i = 1; i <= 10; ++i) replies.Add(Reply(i, 9000));
  while (!Take(replies).empty()) replies.Written();
  EXPECT_LE(replies.total_bytes(), 4 * 10'000);
  EXPECT_EQ(replies.CheckKept(5).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(replies.CheckKept(6).ok());
  EXPECT_TRUE(replies.CheckKept(10).ok());
}

TEST(SessionRepliesTest, AcknowledgedOnesAreNotMissed) {
  SessionReplies replies(1000, 1 << 20);
  for (uint64_t i = 1; i <= 5; ++i) {
    replies.Add(Reply(i, 9000));
    EXPECT_EQ(Take(replies), Indices({i}));
    replies.Written();
    replies.Acknowledge(i);
    EXPECT_TRUE(replies.CheckKept(i).ok());
  }
}

TEST(SessionRepliesTest, NobodyHasRepliesThatThereAreNot) {
  SessionReplies replies(1000, 1 << 20);
  EXPECT_TRUE(replies.CheckAcknowledged(0).ok());
  EXPECT_EQ(replies.CheckAcknowledged(1).code(), absl::StatusCode::kInvalidArgument);
  replies.Add(Reply(1));
  EXPECT_TRUE(replies.CheckAcknowledged(1).ok());
}

TEST(SessionRepliesTest, OneThatIsTooLargeBecomesAFailure) {
  for (const size_t bytes : {3000u, 9000u}) {  // Within the message, and beside it.
    const EncodedReply encoded = Reply(3, bytes, 2048);
    std::string text(Bytes(encoded.slices).size(), '\0');
    Bytes(encoded.slices).CopyTo(text.data());
    v1::Reply reply;
    ASSERT_TRUE(reply.ParseFromString(text));
    EXPECT_EQ(reply.index(), 3u);
    EXPECT_EQ(reply.number(), 30u);
    EXPECT_TRUE(reply.tensors().empty());
    EXPECT_EQ(reply.failures(0).status().code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  }
}

}  // namespace
}  // namespace gluond::server
