#include "server/rpc/grpc_status.h"

#include <string>

#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"

namespace gluond::server {
namespace {

google::rpc::Status DetailsOf(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  EXPECT_EQ(details.code(), status.error_code());
  EXPECT_EQ(details.message(), status.error_message()) << "some clients refuse others";
  return details;
}

// As the two headers are sent.
size_t HeaderBytes(const grpc::Status& status) {
  size_t bytes = (status.error_details().size() + 2) / 3 * 4;
  for (const char c : status.error_message()) bytes += c >= 0x20 && c <= 0x7E && c != '%' ? 1 : 3;
  return bytes;
}

TEST(GrpcStatusTest, AMessageFitsIntoTheHeadersThatClientsTake) {
  for (const char c : {'x', '%', '\n'}) {
    const grpc::Status status = ToGrpc(absl::NotFoundError(std::string(1 << 20, c)));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_GT(status.error_message().size(), 900u);
    EXPECT_LT(HeaderBytes(status), 8000u);
    EXPECT_EQ(status.error_details(), "");
  }
}

TEST(GrpcStatusTest, FactsAreAnErrorInfo) {
  const absl::Status status = WithInfo(absl::FailedPreconditionError("a gap"), "SEQUENCE_GAP", {{"last", "7"}, {"none", ""}});
  const google::rpc::Status details = DetailsOf(ToGrpc(status));
  google::rpc::ErrorInfo info;
  ASSERT_EQ(details.details_size(), 1);
  ASSERT_TRUE(details.details(0).UnpackTo(&info));
  EXPECT_EQ(info.reason(), "SEQUENCE_GAP");
  EXPECT_EQ(info.domain(), "gluond");
  EXPECT_EQ(info.metadata().at("last"), "7");
  EXPECT_EQ(info.metadata().at("none"), "");
  EXPECT_EQ(info.metadata_size(), 2);
}

// The delay in milliseconds; -1: the status has none.
int64_t RetryMilliseconds(const absl::Status& status) {
  const google::rpc::Status proto = ToProto(status);
  for (const auto& detail : proto.details()) {
    google::rpc::RetryInfo retry;
    if (detail.UnpackTo(&retry)) return retry.retry_delay().seconds() * 1000 + retry.retry_delay().nanos() / 1'000'000;
  }
  return -1;
}

TEST(GrpcStatusTest, WhereWaitingHelpsTheStatusTellsHowLong) {
  EXPECT_EQ(RetryMilliseconds(WithInfo(absl::UnavailableError("loads"), reason::kLoading)), 1000);
  EXPECT_EQ(RetryMilliseconds(WithInfo(absl::UnavailableError("stops"), reason::kDraining)), 1000);
  EXPECT_EQ(RetryMilliseconds(WithInfo(absl::ResourceExhaustedError("many"), reason::kTooManyCalls)), 100);
  EXPECT_EQ(RetryMilliseconds(OverLimit("--max_requests", "many")), 100);
  EXPECT_EQ(RetryMilliseconds(OverLimit("--max_request_bytes", "many")), 100);
  EXPECT_EQ(RetryMilliseconds(OverLimit("--max_models", "many")), -1);
  EXPECT_EQ(RetryMilliseconds(WithInfo(absl::UnavailableError("gone"), reason::kProviderGone)), -1);
  EXPECT_EQ(RetryMilliseconds(absl::UnavailableError("why?")), -1);
}

TEST(GrpcStatusTest, AFieldIsAViolation) {
  const absl::Status status = Annotate(InField("inputs[\"x\"]", absl::InvalidArgumentError("too short")), "Predict");
  const google::rpc::Status details = DetailsOf(ToGrpc(status));
  google::rpc::BadRequest bad;
  ASSERT_EQ(details.details_size(), 2);
  ASSERT_TRUE(details.details(1).UnpackTo(&bad));
  ASSERT_EQ(bad.field_violations_size(), 1);
  EXPECT_EQ(bad.field_violations(0).field(), "inputs[\"x\"]");
  EXPECT_EQ(bad.field_violations(0).description(), "Predict: too short");
}

TEST(GrpcStatusTest, OnlyAMistakeWithoutFactsGetsAField) {
  EXPECT_EQ(InfoOf(InField("a", InField("b", absl::InvalidArgumentError("?"))))->metadata[0].second, "b");
  EXPECT_FALSE(InfoOf(InField("a", absl::NotFoundError("?"))).has_value());
  EXPECT_TRUE(InField("a", absl::OkStatus()).ok());
}

TEST(GrpcStatusTest, FactsSurviveWhatIsPutBeforeTheMessage) {
  const absl::Status status = Annotate(OverLimit("--max_models", "there are ", 3), "here");
  EXPECT_EQ(status.message(), "here: there are 3");
  ASSERT_TRUE(InfoOf(status).has_value());
  EXPECT_EQ(InfoOf(status)->reason, "LIMIT");
  EXPECT_EQ(InfoOf(status)->metadata[0].second, "--max_models");
  EXPECT_FALSE(InfoOf(absl::OkStatus()).has_value());
}

TEST(GrpcStatusTest, ATracebackIsADebugInfo) {
  absl::Status status = absl::InvalidArgumentError("what");
  status.SetPayload(kTraceback, absl::Cord("line 1\nline 2\n"));
  const google::rpc::Status details = DetailsOf(ToGrpc(status));
  google::rpc::DebugInfo debug;
  ASSERT_EQ(details.details_size(), 1);
  ASSERT_TRUE(details.details(0).UnpackTo(&debug));
  EXPECT_EQ(debug.detail(), "line 1\nline 2\n");
}

TEST(GrpcStatusTest, ALongTracebackKeepsItsEnd) {
  absl::Status status = WithInfo(absl::InvalidArgumentError(std::string(2000, 'm')), "REASON");
  std::string traceback;
  for (int i = 0; i < 5000; ++i) traceback += "line " + std::to_string(i) + "\n";
  status.SetPayload(kTraceback, absl::Cord(traceback));
  const grpc::Status sent = ToGrpc(status);
  EXPECT_LT(HeaderBytes(sent), 8000u);
  const google::rpc::Status details = DetailsOf(sent);
  google::rpc::DebugInfo debug;
  ASSERT_EQ(details.details_size(), 2);
  ASSERT_TRUE(details.details(1).UnpackTo(&debug));
  EXPECT_EQ(debug.detail().substr(0, 8), "...\nline");
  EXPECT_EQ(debug.detail().substr(debug.detail().size() - 10), "line 4999\n");
  EXPECT_GT(debug.detail().size(), 500u);
  EXPECT_EQ(ToProto(status).details_size(), 2) << "whole where no header has to hold it";
  ASSERT_TRUE(ToProto(status).details(1).UnpackTo(&debug));
  EXPECT_EQ(debug.detail(), traceback);
}

}  // namespace
}  // namespace gluond::server
