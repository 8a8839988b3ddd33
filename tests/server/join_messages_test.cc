#include "server/group/join_messages.h"

#include <chrono>
#include <string>
#include <variant>

#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "gtest/gtest.h"
#include "server/group/group_options.h"
#include "server/group/meeting.h"
#include "server/rpc/grpc_status.h"

namespace gluond::server {
namespace {

template <class Word, class Proto>
Word Back(const Proto& message) {
  const auto found = FromProto(message);
  return found.has_value() && std::holds_alternative<Word>(*found) ? std::get<Word>(*found) : Word();
}

TEST(JoinMessages, WordsOfMembersComeBack) {
  const auto hello = Back<FromMember::Hello>(ToProto(FromMember::Any(FromMember::Hello{7, "build"})));
  EXPECT_EQ(hello.process, 7U);
  EXPECT_EQ(hello.fingerprint, "build");
  for (const Standing& standing : {Standing{1, 2, 3}, Standing{4, 5, std::nullopt}, Standing{1, 0, 0}}) {
    EXPECT_EQ(Back<Standing>(ToProto(FromMember::Any(standing))), standing);
  }
  EXPECT_EQ(Back<FromMember::Ready>(ToProto(FromMember::Any(FromMember::Ready{9}))).generation, 9U);
  const auto broken = Back<FromMember::Broken>(ToProto(FromMember::Any(FromMember::Broken{8, "no way", 3})));
  EXPECT_EQ(broken.generation, 8U);
  EXPECT_EQ(broken.text, "no way");
  EXPECT_EQ(broken.rank, 3);
  EXPECT_EQ(Back<FromMember::Broken>(ToProto(FromMember::Any(FromMember::Broken{8}))).rank, std::nullopt);
  EXPECT_EQ(Back<FromMember::Failed>(ToProto(FromMember::Any(FromMember::Failed{absl::DataLossError("bits")}))).status,
            absl::DataLossError("bits"));
  const auto computed =
      Back<FromMember::Computed>(ToProto(FromMember::Any(FromMember::Computed{6, absl::ResourceExhaustedError("no memory")})));
  EXPECT_EQ(computed.generation, 6U);
  EXPECT_EQ(computed.status, absl::ResourceExhaustedError("no memory"));
  EXPECT_TRUE(Back<FromMember::Computed>(ToProto(FromMember::Any(FromMember::Computed{6, absl::OkStatus()}))).status.ok());
  absl::Status failed = WithInfo(FailedPrecondition("an operator failed"), reason::kOperatorFailed, {{"operator", "square"}});
  failed.SetPayload(kTraceback, absl::Cord("line 7"));
  EXPECT_EQ(Back<FromMember::Computed>(ToProto(FromMember::Any(FromMember::Computed{6, failed}))).status, failed);
  for (const FromMember::Any& word : {FromMember::Any(FromMember::Leaving()), FromMember::Any(Heartbeat())}) {
    EXPECT_EQ(FromProto(ToProto(word))->index(), word.index());
  }
}

TEST(JoinMessages, WordsOfTheLeaderComeBack) {
  const auto form = Back<FromLeader::Form>(ToProto(FromLeader::Any(FromLeader::Form{3, 2, 4, 1})));
  EXPECT_EQ(form.generation, 3U);
  EXPECT_EQ(form.rank, 2);
  EXPECT_EQ(form.size, 4);
  EXPECT_EQ(form.spares, 1);
  EXPECT_EQ(Back<FromLeader::State>(ToProto(FromLeader::Any(FromLeader::State{{1, 2, 3}}))).standing, (Standing{1, 2, 3}));
  EXPECT_EQ(Back<FromLeader::Command>(ToProto(FromLeader::Any(FromLeader::Command{5}))).number, 5U);
  const auto apply = Back<FromLeader::Apply>(ToProto(FromLeader::Any(FromLeader::Apply{6, true})));
  EXPECT_EQ(apply.number, 6U);
  EXPECT_TRUE(apply.wants_crc);
  for (const FromLeader::Any& word :
       {FromLeader::Any(FromLeader::Prepare()), FromLeader::Any(FromLeader::End()), FromLeader::Any(Heartbeat())}) {
    EXPECT_EQ(FromProto(ToProto(word))->index(), word.index());
  }
}

TEST(JoinMessages, WhatAHostileProcessSaysIsNoWord) {
  v1::JoinRequest request;
  EXPECT_FALSE(FromProto(request).has_value());
  request.mutable_computed()->set_code(4711);
  EXPECT_EQ(Back<FromMember::Computed>(request).status.code(), absl::StatusCode::kUnknown);
  // Clients hear a member's errors, but no lie about themselves, and no endless text.
  request.mutable_computed()->set_code(static_cast<int>(absl::StatusCode::kPermissionDenied));
  request.mutable_computed()->set_message(std::string(1 << 20, 'x'));
  EXPECT_EQ(Back<FromMember::Computed>(request).status.code(), absl::StatusCode::kInternal);
  EXPECT_LT(Back<FromMember::Computed>(request).status.message().size(), 4096u);
  request.mutable_failed();
  EXPECT_FALSE(Back<FromMember::Failed>(request).status.ok()) << "a member that leaves without a reason";
  request.mutable_meeting();
  EXPECT_FALSE(FromProto(request).has_value());
  request.mutable_ask();
  EXPECT_FALSE(FromProto(request).has_value());
  v1::JoinResponse response;
  EXPECT_FALSE(FromProto(response).has_value());
  response.mutable_part();
  EXPECT_FALSE(FromProto(response).has_value());
  response.mutable_answer();
  EXPECT_FALSE(FromProto(response).has_value());
}

TEST(Meeting, BringsTextsAndEnds) {
  std::string told;
  Meeting meeting([&told](const std::string& key, const std::string& value) { told += key + "=" + value + " "; });
  const auto now = std::chrono::steady_clock::now();
  ASSERT_TRUE(meeting.Set("a", "1").ok());
  meeting.Heard("b", "2");
  EXPECT_EQ(told, "a=1 ");  // Others' texts are not told to them.
  EXPECT_EQ(*meeting.Get("a", now), "1");
  EXPECT_EQ(*meeting.Get("b", now), "2");
  EXPECT_EQ(meeting.Get("c", now).status().code(), absl::StatusCode::kDeadlineExceeded);
  meeting.Cancel();
  EXPECT_EQ(meeting.Get("a", now + std::chrono::hours(1)).status().code(), absl::StatusCode::kCancelled);
}

TEST(GroupOptions, SizesAreReadOrRefused) {
  GroupOptions options;
  ASSERT_TRUE(ParseGroupSize("2:4", &options).ok());
  EXPECT_EQ(options.min, 2);
  EXPECT_EQ(options.max, 4);
  ASSERT_TRUE(ParseGroupSize("3", &options).ok());
  EXPECT_EQ(options.min, 3);
  EXPECT_EQ(options.max, 3);
  for (const char* text : {"", ":", "2:", "a:b", "1:2:3", "1:2x"}) {
    EXPECT_EQ(ParseGroupSize(text, &options).code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

}  // namespace
}  // namespace gluond::server
