// Commands of a session: each is executed or fails, alone; questions are answered; in the end all memory is given back.

#include "server/wire/wire_message.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/session_bench.h"

namespace gluond::fuzz {
namespace {

constexpr int kMostCommands = 200;

void Run(const v1::SessionRequest& input) {
  v1::SessionRequest request;
  server::Attachments attachments;
  if (!server::ParseMessage({grpc::Slice(input.SerializeAsString())}, &request, &attachments).ok()) return;
  SessionBench bench;
  for (int i = 0; i < std::min(request.commands_size(), kMostCommands); ++i) {
    bench.Execute(request.commands(i), attachments);
  }
}

}  // namespace
}  // namespace gluond::fuzz

STRUCTURED_FUZZ_TARGET(v1::SessionRequest, Run, OperatorWords())
