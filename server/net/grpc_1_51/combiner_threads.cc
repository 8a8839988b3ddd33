// gRPC does a connection's work one piece after the other. Several threads may bring such pieces. Where the thread whose turn
// it is has something else to do, gRPC 1.51 hands the rest to its "default executor", whose few queues all connections share. A
// connection that floods the server stays at the front of such a queue until its flood is over, and the connections behind it
// wait: 1.5 s, measured. A thread that goes on with the pieces itself is only one of many (poll_threads.h).
//
// gRPC has no option for it. Before it hands something over it asks a function of its own whether the executor has
// threads, and here it is told that there are none, as around a fork. To a shared library's question the program's own
// function answers; in a static program the linker has it ask `wrapped` (BUILD). Another version of gRPC may not ask.
//
// Needless with gRPC 1.60, where a combiner hands over to the EventEngine's threads (grpc/grpc, pull request 34396).

namespace grpc_core {

class Executor {
 public:
  static bool IsThreadedDefault();
};

// The function is weak, since a static program has gRPC's, too.
__attribute__((weak)) bool Executor::IsThreadedDefault() { return false; }

extern "C" bool wrapped() asm("__wrap__ZN9grpc_core8Executor17IsThreadedDefaultEv");
extern "C" bool wrapped() { return false; }

}  // namespace grpc_core
