#include "client/cpp/value_message.h"

#include <algorithm>

namespace gluond::client {
namespace {

// Sets a message to what a Value is.
struct Setting {
  google::protobuf::Value* to;

  void operator()(std::monostate) const { to->set_null_value(google::protobuf::NULL_VALUE); }
  void operator()(bool value) const { to->set_bool_value(value); }
  void operator()(double value) const { to->set_number_value(value); }
  void operator()(const std::string& value) const { to->set_string_value(value); }
  void operator()(const Value::Tuple& tuple) const {
    auto* const list = to->mutable_list_value();
    for (const Value& each : tuple) *list->add_values() = ToProto(each);
  }
  void operator()(const Attributes& fields) const { Fill(fields, to->mutable_struct_value()->mutable_fields()); }
};

}  // namespace

Value FromProto(const google::protobuf::Value& from) {
  switch (from.kind_case()) {
    case google::protobuf::Value::kBoolValue: return from.bool_value();
    case google::protobuf::Value::kNumberValue: return from.number_value();
    case google::protobuf::Value::kStringValue: return from.string_value();
    case google::protobuf::Value::kStructValue: return FromProto(from.struct_value().fields());
    case google::protobuf::Value::kListValue: {
      Value::Tuple tuple;
      for (const auto& each : from.list_value().values()) tuple.push_back(FromProto(each));
      return tuple;
    }
    default: return Value();
  }
}

google::protobuf::Value ToProto(const Value& from) {
  google::protobuf::Value to;
  std::visit(Setting{&to}, from.is);
  return to;
}

Attributes FromProto(const ValueMap& from) {
  Attributes to;
  for (const auto& [name, value] : from) to.emplace_back(name, FromProto(value));
  std::sort(to.begin(), to.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return to;
}

void Fill(const Attributes& attributes, ValueMap* map) {
  for (const auto& [name, value] : attributes) (*map)[name] = ToProto(value);
}

absl::Time FromProto(const google::protobuf::Timestamp& from) {
  return absl::FromUnixSeconds(from.seconds()) + absl::Nanoseconds(from.nanos());
}

google::protobuf::Timestamp ToProto(absl::Time from) {
  google::protobuf::Timestamp to;
  to.set_seconds(absl::ToUnixSeconds(from));
  to.set_nanos(static_cast<int32_t>((from - absl::FromUnixSeconds(to.seconds())) / absl::Nanoseconds(1)));
  return to;
}

absl::Duration FromProto(const google::protobuf::Duration& from) {
  return absl::Seconds(from.seconds()) + absl::Nanoseconds(from.nanos());
}

google::protobuf::Duration ToProto(absl::Duration from) {
  google::protobuf::Duration to;
  to.set_seconds(absl::IDivDuration(from, absl::Seconds(1), &from));
  to.set_nanos(static_cast<int32_t>(from / absl::Nanoseconds(1)));
  return to;
}

absl::Status FromProto(const google::rpc::Status& from) {
  absl::Status status(static_cast<absl::StatusCode>(from.code()), from.message());
  for (const google::protobuf::Any& detail : from.details()) status.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  return status;
}

google::rpc::Status ToProto(const absl::Status& from) {
  google::rpc::Status to;
  to.set_code(static_cast<int>(from.code()));
  to.set_message(std::string(from.message()));
  from.ForEachPayload([&](absl::string_view url, const absl::Cord& value) {
    google::protobuf::Any* const detail = to.add_details();
    detail->set_type_url(std::string(url));
    detail->set_value(std::string(value));
  });
  return to;
}

}  // namespace gluond::client
