// A Method is what the server knows of a method of a .proto: who may call it, whether the audit log has its calls, and on which
// threads it runs. It knows the fields that the server itself reads and writes, too. The .proto says all of this beside the
// method and its fields (proto/gluond/v1/options.proto); of the protocols that others have written, method.cc does in the same
// words. Code that treats all calls alike reads messages through this and knows no field by its name.

#ifndef SERVER_RPC_METHOD_H_
#define SERVER_RPC_METHOD_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/identity/access.h"
#include "server/identity/owners.h"
#include "server/rpc/dispatch.h"

namespace google::protobuf {
class FieldDescriptor;
class MethodDescriptor;
}  // namespace google::protobuf

namespace gluond::server {

struct Method {
  using Field = const google::protobuf::FieldDescriptor*;

  // INTERNAL: the .proto does not say who may call the method, or its messages lack a field that it speaks of.
  static absl::StatusOr<Method> Of(const google::protobuf::MethodDescriptor& method);

  std::string path;  // "/gluond.v1.ModelService/Predict"
  std::string name;  // "Predict", which leads every error message.
  Access access = Access::kNobody;
  Audit audit = Audit::kNone;
  Weight weight = Weight::kLight;
  // Its requests have kMostShort bytes at most, inflated: those of a method that is open to everybody, or that is
  // answered beside the limits.
  bool is_short = false;
  bool numbered = false;

  // Fields of the request.
  std::vector<Field> targets;  // The names of what a call is about; the first that is set counts.
  Field call = nullptr;        // The CallOptions.
  Field client_id = nullptr;   // The client's name for itself, where it does not stand in `call`.
  Field commit = nullptr;      // A bool; false: the call changes nothing for others to find.
  int num_tensor_fields = 0;   // Lists and maps of tensors.
  // Fields of the reply.
  Field replayed = nullptr;
  Field durable_sequence = nullptr;
  Field timing = nullptr;  // The Timing.
};

// The thing that a string field names, or a text that quotes names.
struct NamedField {
  bool is_text = false;  // Else a name.
  // A request's field has the thing of that name, and the deed that the call does to it.
  Thing thing = Thing::kNone;
  Deed deed = Deed::kAsk;
  std::vector<Method::Field> if_empty = {};  // The fields whose names it has then, the first that has one.
};
// Nothing: the field has neither names nor a text with names. INTERNAL: its message lacks a field of `if_empty`.
absl::StatusOr<std::optional<NamedField>> NamedFieldOf(const google::protobuf::FieldDescriptor& field);

}  // namespace gluond::server

#endif  // SERVER_RPC_METHOD_H_
