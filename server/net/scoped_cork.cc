#include "server/net/scoped_cork.h"

#include <algorithm>

namespace gluond::server {

ScopedCork::ScopedCork(std::vector<Peer*> peers) {
  std::sort(peers.begin(), peers.end());
  for (size_t i = 1; i < peers.size(); ++i) {
    if (peers[i] != peers[i - 1] || (!corked_.empty() && corked_.back() == peers[i])) continue;
    peers[i]->Cork(true);
    corked_.push_back(peers[i]);
  }
}

ScopedCork::~ScopedCork() {
  for (Peer* const peer : corked_) peer->Cork(false);
}

}  // namespace gluond::server
