#include "server/serving/lineage.h"

#include <random>
#include <utility>

#include "absl/algorithm/container.h"
#include "engine/core/status_macros.h"

namespace gluond::server {

Lineage::Lineage(bool follows) : process_(uint64_t{std::random_device()()} << 32 | std::random_device()()), is_ready_(!follows) {}

std::vector<uint64_t> Lineage::Line() const {
  MutexLock lock(mu_);
  std::vector<uint64_t> line = leaders_;
  line.insert(line.begin(), process_);
  return line;
}

absl::Status Lineage::SetLeader(std::vector<uint64_t> line) {
  if (line.size() > kMost) return FailedPrecondition("more than ", kMost, " servers follow one another");
  const auto own = absl::c_find(line, process_);
  const bool is_loop = own != line.end(), is_itself = is_loop && own == line.begin();
  line.erase(own, line.end());  // The others of a loop find themselves in the rest.
  {
    MutexLock lock(mu_);
    leaders_ = std::move(line);
  }
  if (!is_loop) return absl::OkStatus();
  return FailedPrecondition(is_itself ? "this server follows itself" : "that server follows this one, so nobody leads",
                            "; name by --follow the server where versions are published");
}

bool Lineage::is_ready() const {
  MutexLock lock(mu_);
  return is_ready_;
}

void Lineage::SetReady() {
  MutexLock lock(mu_);
  is_ready_ = true;
}

}  // namespace gluond::server
