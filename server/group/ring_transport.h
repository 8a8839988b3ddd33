// RingTransport carries bytes between a rank of a ring (ring.h) and its peers. The server loads one that speaks Gloo's TCP from a
// plugin, libgluond_gloo.so (gloo/gloo.cc), so that nothing else drags Gloo's libraries along. This header is all that the two
// share: it names the standard library only. A change of it wants another number in kGlooTransport.
//
// One thread calls the functions, in their order here. Close may be called by any thread, and at any time.
// Texts that are returned say what went wrong; an empty text says that all is well. After an error Close is called.

#ifndef SERVER_GROUP_RING_TRANSPORT_H_
#define SERVER_GROUP_RING_TRANSPORT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace gluond::server {

class RingTransport {
 public:
  using Clock = std::chrono::steady_clock;

  virtual ~RingTransport() = default;

  // Makes an address for each peer. `addresses`: by the peer's rank, empty texts at first.
  virtual std::string Listen(std::map<int, std::string>* addresses) noexcept = 0;
  // Connects to the peers, each of which has made the address for this rank.
  virtual std::string Connect(const std::map<int, std::string>& addresses) noexcept = 0;

  // Sends bytes to a peer while it receives bytes from there. A message without bytes is not sent, and not waited for. Messages of
  // one `slot` keep their order, and wait for each other; other slots' are never taken for them. The memory is the caller's again
  // when this returns, also with an error.
  virtual std::string Exchange(int peer, uint64_t slot, const void* sent, size_t sent_bytes, void* received, size_t received_bytes,
                               Clock::time_point deadline) noexcept = 0;

  // Ends all connections for good, within milliseconds: a call under way fails. A peer whose connection ends closes its own, also
  // when it calls nothing, so that in the end no rank waits.
  virtual void Close() noexcept = 0;
};

// The plugin's one function. `address`: the machine's own, as a number ("10.0.0.7"), to which others connect. Ranks are below
// `ranks`. `timeout`: how long one connection may take to be made. The result is the caller's.
using GlooTransportMaker = RingTransport* (*)(const char* address, int rank, int ranks, std::chrono::milliseconds timeout);

// Where a process' rings are. `transports`: null where the process can form no ring but of itself.
struct RingPlace {
  GlooTransportMaker transports = nullptr;
  std::string address = {};
};
inline constexpr const char* kGlooTransport = "gluond_gloo_transport_1";

}  // namespace gluond::server

#endif  // SERVER_GROUP_RING_TRANSPORT_H_
