// ThreadSanitizer does not see in what order gRPC hands a call from thread to thread: whoever hands an object to gRPC
// says release, the callback that gets it says acquire.

#ifndef SERVER_GRPC_ORDER_H_
#define SERVER_GRPC_ORDER_H_

#ifdef GLUOND_THREAD_SANITIZER
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
#else
inline void __tsan_acquire(void*) {}
inline void __tsan_release(void*) {}
#endif

#endif  // SERVER_GRPC_ORDER_H_
