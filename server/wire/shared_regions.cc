#include "server/wire/shared_regions.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/core/error_info.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"

namespace gluond::server {
namespace {

// Files have no more bytes: an offset is a signed number for the kernel.
constexpr uint64_t kMostBytes = uint64_t{1} << 62;

// A name without a folder: "/in" or "in", of letters, digits, '.', '-' and '_'.
absl::Status CheckKey(const std::string& key) {
  absl::string_view name = key;
  absl::ConsumePrefix(&name, "/");
  bool is_good = !name.empty() && name.size() <= SharedRegions::kLongestName && name != "." && name != "..";
  for (const char c : name) {
    is_good &= std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  }
  if (is_good) return absl::OkStatus();
  return InField("key", Invalid("'", Excerpt(key), "' is no key of shared memory; want a name of shm_open: 1 to ",
                                SharedRegions::kLongestName, " letters, digits, '.', '-' or '_', after a '/' or none"));
}

}  // namespace

// An object of shared memory, open.
class SharedRegions::Region {
 public:
  Region(int fd, Facts facts, std::string owner) : fd_(fd), facts_(std::move(facts)), owner_(std::move(owner)) {}
  Region(const Region&) = delete;
  ~Region() { close(fd_); }

  const Facts& facts() const { return facts_; }
  bool IsOf(const RegionUser& user) const { return user.is_everybody || (!owner_.empty() && user.name == owner_); }

  // INVALID_ARGUMENT: the object does not have these bytes now.
  absl::Status CheckBytes(uint64_t offset, uint64_t bytes) const {
    struct stat state = {};
    if (fstat(fd_, &state) != 0 || !S_ISREG(state.st_mode)) {
      return Invalid("'", facts_.key, "' is no shared memory");
    }
    if (offset + bytes <= static_cast<uint64_t>(state.st_size)) return absl::OkStatus();
    return Invalid("'", facts_.key, "' has ", state.st_size, " bytes; want ", bytes, " from ", offset, " on");
  }

  // `offset` and `bytes` lie in the region. `move`: pread or pwrite.
  template <class Move, class T>
  absl::Status Copy(Move move, uint64_t offset, size_t bytes, T* memory) const {
    if (offset > facts_.byte_size || bytes > facts_.byte_size - offset) {
      return Invalid(bytes, " bytes from ", offset, " on do not lie in its ", facts_.byte_size, " bytes");
    }
    uint64_t at = facts_.offset + offset;
    RETURN_IF_ERROR(CheckBytes(at, bytes));  // A write beyond the end would make the object larger.
    while (bytes > 0) {
      const ssize_t moved = move(fd_, memory, bytes, static_cast<off_t>(at));
      if (moved < 0 && errno == EINTR) continue;
      if (moved <= 0) return Invalid("'", facts_.key, "' has become smaller");
      at += static_cast<uint64_t>(moved);
      bytes -= static_cast<size_t>(moved);
      memory += moved;
    }
    return absl::OkStatus();
  }

 private:
  const int fd_;
  const Facts facts_;
  const std::string owner_;
};

absl::Status SharedRegions::Register(const std::string& name, const Facts& facts, const std::string& owner) {
  if (name.empty() || name.size() > kLongestName) {
    return InField("name", Invalid("the region's name has ", name.size(), " bytes; want 1 to ", kLongestName));
  }
  RETURN_IF_ERROR(CheckKey(facts.key));
  if (facts.byte_size < 1 || facts.byte_size > kMostBytes || facts.offset > kMostBytes) {
    return InField("byte_size", Invalid("a region of ", facts.byte_size, " bytes from ", facts.offset, " on can be in no object"));
  }
  const int fd = shm_open(facts.key.c_str(), O_RDWR, 0);
  if (fd < 0) {
    return NotFound("the shared memory '", facts.key, "' cannot be opened: ", std::strerror(errno),
                    "; it is to be on the server's machine, and the server's to write");
  }
  RegionPtr region = std::make_shared<const Region>(fd, facts, owner);
  RETURN_IF_ERROR(InField("byte_size", region->CheckBytes(facts.offset, facts.byte_size)));
  MutexLock lock(mu_);
  if (regions_.contains(name)) {
    return WithInfo(absl::AlreadyExistsError(
                        absl::StrCat("there is a region '", Excerpt(name), "' already; unregister it, or choose another name")),
                    reason::kAlreadyExists, {{"kind", "region"}, {"name", Excerpt(name)}});
  }
  if (regions_.size() >= kMost) {
    return absl::ResourceExhaustedError(absl::StrCat("there are ", kMost, " regions; unregister one"));
  }
  regions_[name] = std::move(region);
  return absl::OkStatus();
}

void SharedRegions::Unregister(const std::string& name) {
  std::map<std::string, RegionPtr> gone;  // Closed without the lock.
  MutexLock lock(mu_);
  if (name.empty()) {
    gone.swap(regions_);
  } else if (auto node = regions_.extract(name); !node.empty()) {
    gone.insert(std::move(node));
  }
}

absl::StatusOr<SharedRegions::RegionPtr> SharedRegions::Find(const std::string& name, const RegionUser& user) const {
  MutexLock lock(mu_);
  if (const auto found = regions_.find(name); found != regions_.end() && found->second->IsOf(user)) return found->second;
  std::vector<std::string> names;
  for (const auto& [each, region] : regions_) {
    if (region->IsOf(user)) names.push_back(each);
  }
  return WithInfo(NotFound("there is no region '", Excerpt(name), "' of shared memory", DidYouMean(name, names),
                           " (SystemSharedMemoryRegister makes one, for the identity that calls it)"),
                  reason::kNotFound, {{"kind", "region"}, {"name", Excerpt(name)}});
}

absl::StatusOr<std::map<std::string, SharedRegions::Facts>> CallersRegions::List(const std::string& name) const {
  std::map<std::string, SharedRegions::Facts> list;
  if (!name.empty()) {
    ASSIGN_OR_RETURN(const SharedRegions::RegionPtr region, regions_->Find(name, user_));
    list[name] = region->facts();
    return list;
  }
  MutexLock lock(regions_->mu_);
  for (const auto& [each, region] : regions_->regions_) {
    if (region->IsOf(user_)) list[each] = region->facts();
  }
  return list;
}

absl::Status CallersRegions::Read(const std::string& name, uint64_t offset, size_t bytes, void* to) const {
  ASSIGN_OR_RETURN(const SharedRegions::RegionPtr region, regions_->Find(name, user_));
  return Annotate(region->Copy(&pread, offset, bytes, static_cast<char*>(to)), absl::StrCat("the region '", Excerpt(name), "'"));
}

absl::Status CallersRegions::Write(const std::string& name, uint64_t offset, size_t bytes, const void* from) const {
  ASSIGN_OR_RETURN(const SharedRegions::RegionPtr region, regions_->Find(name, user_));
  return Annotate(region->Copy(&pwrite, offset, bytes, static_cast<const char*>(from)),
                  absl::StrCat("the region '", Excerpt(name), "'"));
}

}  // namespace gluond::server
