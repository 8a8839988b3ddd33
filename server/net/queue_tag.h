// A QueueTag is what a tag in gRPC's completion queue points to: it hears that one of gRPC's operations is done, on one
// of the threads that poll (poll_threads.h).

#ifndef SERVER_NET_QUEUE_TAG_H_
#define SERVER_NET_QUEUE_TAG_H_

#ifdef GLUOND_THREAD_SANITIZER
// ThreadSanitizer does not see in what order gRPC hands a tag from thread to thread: whoever hands it to gRPC says
// release, whoever gets it back says acquire.
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
#else
inline void __tsan_acquire(void*) {}
inline void __tsan_release(void*) {}
#endif

namespace gluond::server {

class QueueTag {
 public:
  // The operation is done; not `ok`: it came to nothing. Called once for each operation. Must not wait.
  virtual void Done(bool ok) = 0;

  // For gRPC, just before an operation begins.
  void* tag() {
    __tsan_release(this);
    return this;
  }
  // From gRPC.
  static QueueTag& Of(void* tag) {
    __tsan_acquire(tag);
    return *static_cast<QueueTag*>(tag);
  }

 protected:
  ~QueueTag() = default;
};

}  // namespace gluond::server

#endif  // SERVER_NET_QUEUE_TAG_H_
