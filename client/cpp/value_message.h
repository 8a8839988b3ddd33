// Attributes, times and statuses as messages, and back.

#ifndef GLUOND_CLIENT_CPP_VALUE_MESSAGE_H_
#define GLUOND_CLIENT_CPP_VALUE_MESSAGE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gluond/value.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/struct.pb.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/rpc/status.pb.h"

namespace gluond::client {

using ValueMap = google::protobuf::Map<std::string, google::protobuf::Value>;

Value FromProto(const google::protobuf::Value& from);
google::protobuf::Value ToProto(const Value& from);

// By their names.
Attributes FromProto(const ValueMap& from);
void Fill(const Attributes& attributes, ValueMap* map);

absl::Time FromProto(const google::protobuf::Timestamp& from);
google::protobuf::Timestamp ToProto(absl::Time from);
absl::Duration FromProto(const google::protobuf::Duration& from);
google::protobuf::Duration ToProto(absl::Duration from);

// The error that the server tells of in an answer, or in the details of a call's end.
absl::Status FromProto(const google::rpc::Status& from);
google::rpc::Status ToProto(const absl::Status& from);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_VALUE_MESSAGE_H_
