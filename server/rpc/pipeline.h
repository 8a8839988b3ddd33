// The way of a unary call from the bytes of its message to the method's own code: it is admitted, parsed, qualified, weighed,
// put in its client's order, and run. Each step is a function of pipeline.cc, which ends the call or goes on with the next, on a
// thread that dispatch.h chooses. Nothing here knows who carries the call.

#ifndef SERVER_RPC_PIPELINE_H_
#define SERVER_RPC_PIPELINE_H_

#include <cstdint>

#include "server/rpc/unary_call.h"

namespace gluond::server {

// The first step: the call's message has come, and has so many bytes.
void Admit(const CallPtr& call, int64_t bytes);

}  // namespace gluond::server

#endif  // SERVER_RPC_PIPELINE_H_
