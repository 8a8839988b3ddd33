// The answer of the method Explain (proto/gluond/v1/explain.proto).

#ifndef SERVER_SERVICES_EXPLAIN_PROGRAM_H_
#define SERVER_SERVICES_EXPLAIN_PROGRAM_H_

#include <memory>

#include "absl/status/status.h"
#include "engine/runtime/budget.h"
#include "gluond/v1/explain.pb.h"
#include "server/hosted/hosted_model.h"

namespace gluond::server {

class VersionTable;

// Takes as long as compiling does, and no turn on a lane. `memory` pays meanwhile. Errors: those of the .proto, and those
// of a question to a client (engine/core/pending_fact.h). The response takes at most `most_bytes`.
absl::Status ExplainProgram(const v1::ExplainRequest& request, const Models& models, const VersionTable& served,
                            const std::shared_ptr<Budget>& memory, int64_t most_bytes, v1::ExplainResponse* response);

}  // namespace gluond::server

#endif  // SERVER_SERVICES_EXPLAIN_PROGRAM_H_
