// A QueueTag is what a tag in gRPC's completion queue points to: it hears that one of gRPC's operations is done, on one
// of the threads that poll (poll_threads.h).

#ifndef SERVER_NET_QUEUE_TAG_H_
#define SERVER_NET_QUEUE_TAG_H_

namespace gluond::server {

class QueueTag {
 public:
  // The operation is done; not `ok`: it came to nothing. Called once for each operation. Must not wait.
  virtual void Done(bool ok) = 0;
  // For gRPC.
  void* tag() { return this; }

 protected:
  ~QueueTag() = default;
};

}  // namespace gluond::server

#endif  // SERVER_NET_QUEUE_TAG_H_
