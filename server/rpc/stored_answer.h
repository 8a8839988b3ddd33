// The form in which a numbered call's answer is kept for repetitions of the call. The answer is whole, and marked as replayed;
// tensors over 64 KiB have statistics in place of their values.

#ifndef SERVER_RPC_STORED_ANSWER_H_
#define SERVER_RPC_STORED_ANSWER_H_

#include <string>

#include "google/protobuf/message.h"
#include "server/rpc/method.h"
#include "server/wire/attachments.h"

namespace gluond::server {

// `replayed`: the field of the response that is true in a repeated answer. The response's tensors stand in maps by name.
std::string ToStoredAnswer(const google::protobuf::Message& response, const Attachments& attachments, Method::Field replayed);

}  // namespace gluond::server

#endif  // SERVER_RPC_STORED_ANSWER_H_
