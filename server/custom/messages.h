// Calls of custom operators between the words of the engine and those of the wire.

#ifndef SERVER_CUSTOM_MESSAGES_H_
#define SERVER_CUSTOM_MESSAGES_H_

#include <memory>

#include "absl/status/status.h"
#include "engine/core/custom_host.h"
#include "gluond/v1/custom_operator.pb.h"
#include "server/wire/attachments.h"

namespace gluond::server {

// The question, without its number. Large values are attached where they lie; the attachments hold `keep`.
v1::Callback ToCallback(const CustomCall& call, const std::shared_ptr<const void>& keep, Attachments* attachments);
v1::Callback ToCallback(const CustomOperator& op, const ShapeVector& arguments);
v1::Callback ToCallback(const CustomOperator& op, const TypeVector& arguments);

// Writes the client's results where the call wants them: all or nothing. INVALID_ARGUMENT: another number of tensors
// than the operator has, another shape or type.
absl::Status WriteResults(const v1::CallbackResult& result, const Attachments& attachments, const CustomCall& call);

// The shapes or types that the client has inferred. INVALID_ARGUMENT: one is malformed.
absl::Status ShapesFrom(const v1::CallbackResult& result, CustomHost::Inference* shapes);
absl::Status TypesFrom(const v1::CallbackResult& result, CustomHost::TypeInference* types);

// FAILED_PRECONDITION, with the reason OPERATOR_FAILED and the text of the client's exception: the call works when the client
// has mended its operator. Its traceback is the payload kTraceback (grpc_status.h).
absl::Status FailureOf(const v1::CallbackResult& result, absl::string_view what);

}  // namespace gluond::server

#endif  // SERVER_CUSTOM_MESSAGES_H_
