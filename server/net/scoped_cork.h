// A ScopedCork holds back what is sent to those who get several answers, and sends it together at its end. Without it each
// answer is a packet of its own, for which the kernel wakes the client: among 32 callers a tenth of the processors' time.

#ifndef SERVER_NET_SCOPED_CORK_H_
#define SERVER_NET_SCOPED_CORK_H_

#include <vector>

#include "server/net/peers.h"

namespace gluond::server {

class ScopedCork {
 public:
  // `peers` get the answers that are given from here on; one that gets several is there several times. They outlive this.
  explicit ScopedCork(std::vector<Peer*> peers);
  ~ScopedCork();
  ScopedCork(const ScopedCork&) = delete;
  ScopedCork& operator=(const ScopedCork&) = delete;

 private:
  std::vector<Peer*> corked_;
};

}  // namespace gluond::server

#endif  // SERVER_NET_SCOPED_CORK_H_
