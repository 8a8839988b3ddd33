#include "server/net/listener.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>  // Knows more of TCP_INFO than netinet/tcp.h does.
#include <netdb.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/start_thread.h"
#include "engine/core/status_macros.h"
#include "server/net/network.h"

namespace gluond::server {
namespace {

constexpr absl::string_view kUnix = "unix:", kAbstract = "unix-abstract:";
constexpr int kBacklog = 1024;
constexpr int kEvents = 64;
constexpr int kMostReads = 128;
// Bytes of a preface, settings and a call's headers, at least; and milliseconds, more than a connection lasts.
constexpr uint64_t kOneCall = 256;
constexpr int64_t kForEver = int64_t{1} << 40;
// The kernel's numbers of states, by netinet/tcp.h, which cannot stand beside the header that knows more.
constexpr int kFinWait1 = 4, kFinWait2 = 5, kClosed = 7, kCloseWait = 8, kClosing = 11;
// Without a file descriptor to be had, the next look comes after so long.
constexpr std::chrono::milliseconds kNoDescriptors{50};
// After a connection was ended the next of its network waits so long, and after many no longer than so.
constexpr std::chrono::milliseconds kWait{250}, kLongestWait{5000};

absl::Status Unavailable(const std::string& address, const std::string& why) {
  return absl::UnavailableError(
      absl::StrCat("cannot listen on ", address, ": ", why, "; is the address right, and free? Choose another --address"));
}

// gRPC's name for the connection: an address of version 4 is written so also within version 6. Empty for a Unix socket.
std::string NameOf(const sockaddr_storage& from) {
  char text[INET6_ADDRSTRLEN] = "";
  if (from.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(from);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v4.sin_port));
  }
  if (from.ss_family != AF_INET6) return "";
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(from);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof(text));
    return absl::StrCat("ipv4:", text, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof(text));
  return absl::StrCat("ipv6:%5B", text, "%5D:", ntohs(v6.sin6_port));
}

// The kernel's facts on a TCP connection; nothing: it is another socket.
std::optional<tcp_info> InfoOf(int fd) {
  tcp_info info{};
  socklen_t size = sizeof(info);
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 ? std::optional(info) : std::nullopt;
}

struct Silence {
  bool is_left;  // By the client: gRPC has yet to hear of it.
  int64_t milliseconds;
  auto operator<=>(const Silence&) const = default;
};

// For how long nothing has come, or nothing has gone; nullopt: not known. A client that sends byte by byte what never becomes a
// call gets nothing. A client that has sent less than a call takes counts as silent for longer than all others.
std::optional<Silence> SilenceOf(int fd) {
  const std::optional<tcp_info> info = InfoOf(fd);
  if (!info.has_value()) return std::nullopt;
  const int64_t silent = std::max(info->tcpi_last_data_recv, info->tcpi_last_data_sent);
  return Silence{info->tcpi_state == kCloseWait || info->tcpi_state == kClosed,
                 info->tcpi_bytes_received < kOneCall ? silent + kForEver : silent};
}

// Whether this side has shut the socket down, and the client has not done so before: it would be in another state.
bool IsShutHere(int fd) {
  const std::optional<tcp_info> info = InfoOf(fd);
  return info.has_value() && (info->tcpi_state == kFinWait1 || info->tcpi_state == kFinWait2 || info->tcpi_state == kClosing);
}

bool SomebodyServes(const sockaddr_un& name) {
  const Descriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  return connect(probe.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Listener>> Listener::Open(const std::string& address, int64_t max_connections,
                                                         std::vector<uint32_t> users) {
  std::unique_ptr<Listener> listener(new Listener(max_connections, std::move(users)));
  listener->epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  listener->wake_ = Descriptor(eventfd(0, EFD_CLOEXEC));
  RETURN_IF_ERROR(listener->Watch(listener->wake_.get(), EPOLLIN));
  if (absl::StartsWith(address, kUnix) || absl::StartsWith(address, kAbstract)) {
    RETURN_IF_ERROR(listener->ListenOnUnix(address));
  } else {
    const size_t colon = address.rfind(':');
    std::string host = address.substr(0, colon);
    if (absl::StartsWith(host, "[") && absl::EndsWith(host, "]")) host = host.substr(1, host.size() - 2);
    RETURN_IF_ERROR(listener->ListenOnTcp(host, colon == std::string::npos ? "0" : address.substr(colon + 1)));
  }
  for (const Descriptor& fd : listener->listening_) RETURN_IF_ERROR(listener->Watch(fd.get(), EPOLLIN));
  return listener;
}

Listener::~Listener() {
  Stop();
  if (!path_.empty()) unlink(path_.c_str());
}

absl::Status Listener::Watch(int fd, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.fd = fd;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot watch for connections: ", std::strerror(errno)));
}

absl::Status Listener::ListenOnUnix(const std::string& address) {
  const bool is_abstract = absl::StartsWith(address, kAbstract);
  const std::string text = address.substr((is_abstract ? kAbstract : kUnix).size());
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  if (text.empty() || text.size() >= sizeof(name.sun_path)) {
    return Unavailable(address, absl::StrCat("the ", is_abstract ? "name" : "path", " has ", text.size(), " bytes, want 1 to ",
                                             sizeof(name.sun_path) - 1));
  }
  // An abstract name is the kernel's own: it needs no folder that can be written, and goes with the socket.
  std::memcpy(name.sun_path + (is_abstract ? 1 : 0), text.data(), text.size());
  const size_t size = is_abstract ? offsetof(sockaddr_un, sun_path) + 1 + text.size() : sizeof(name);
  struct stat found;
  if (!is_abstract && stat(text.c_str(), &found) == 0 && S_ISSOCK(found.st_mode)) {
    if (SomebodyServes(name)) return Unavailable(address, "another process serves it");
    unlink(text.c_str());
  }
  Descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), static_cast<socklen_t>(size)) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return Unavailable(address, std::strerror(errno));
  }
  listening_.push_back(std::move(fd));
  if (!is_abstract) path_ = text;
  return absl::OkStatus();
}

absl::Status Listener::ListenOnTcp(const std::string& host, const std::string& port) {
  const std::string address = absl::StrCat(host, ":", port);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found); error != 0) {
    return Unavailable(address, gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(found, &freeaddrinfo);
  std::string why = "it means no address";
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    sockaddr_storage name{};
    std::memcpy(&name, one->ai_addr, one->ai_addrlen);
    // All addresses get the port that the first one was given.
    in_port_t& number = name.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(name).sin6_port
                                                   : reinterpret_cast<sockaddr_in&>(name).sin_port;
    if (number == 0) number = htons(static_cast<uint16_t>(port_));
    Descriptor fd(socket(one->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const int on = 1, off = 0;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    // Each accepted connection takes this option over. Without it the second piece of an answer would wait 40 ms for
    // the client's acknowledgement of the first.
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    // "[::]" alone means every address, IPv4's too.
    const int* const only_v6 = found->ai_next == nullptr ? &off : &on;
    if (one->ai_family == AF_INET6) setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, only_v6, sizeof(*only_v6));
    socklen_t size = one->ai_addrlen;
    if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&name), size) != 0 || listen(fd.get(), kBacklog) != 0 ||
        getsockname(fd.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) {
      why = std::strerror(errno);
      continue;
    }
    port_ = ntohs(number);
    listening_.push_back(std::move(fd));
  }
  return listening_.empty() ? Unavailable(address, why) : absl::OkStatus();
}

void Listener::Start(Give give, Busy busy) {
  give_ = std::move(give);
  busy_ = std::move(busy);
  StartOrExit(&thread_, "the listener", [this] { Loop(); });
}

void Listener::Stop() {
  {
    MutexLock lock(mu_);
    stopping_ = true;
  }
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
  if (thread_.joinable()) thread_.join();
  listening_.clear();
}

int64_t Listener::connections() const {
  MutexLock lock(mu_);
  return static_cast<int64_t>(connections_.size());
}

void Listener::Loop() {
  while (true) {
    epoll_event events[kEvents];
    const int until = HandOver();
    pulse_.Rest();
    const int count = epoll_wait(epoll_.get(), events, kEvents, until);
    pulse_.Beat();
    std::vector<int> ready;
    {
      MutexLock lock(mu_);
      if (stopping_) return pulse_.Rest();
      for (int i = 0; i < count; ++i) {
        const auto found = connections_.find(events[i].data.fd);
        if (found == connections_.end()) {
          ready.push_back(events[i].data.fd);
          continue;
        }
        if (!found->second.is_shut && IsShutHere(found->first)) ++ended_[static_cast<size_t>(Ending::kTransport)];
        Forget(found);
      }
    }
    for (const int fd : ready) {
      if (fd != wake_.get()) Accept(fd);
    }
  }
}

int Listener::HandOver() {
  std::vector<Descriptor> due;
  int until = -1;
  {
    MutexLock lock(mu_);
    const Clock::time_point now = Clock::now();
    for (auto first = waiting_.begin(); first != waiting_.end() && first->first <= now; first = waiting_.begin()) {
      due.push_back(std::move(connections_[first->second].first));
      waiting_.erase(first);
    }
    if (!waiting_.empty()) {
      until = 1 + static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(waiting_.begin()->first - now).count());
    }
    absl::erase_if(wait_until_, [now](const auto& entry) { return entry.second <= now; });
  }
  for (Descriptor& fd : due) give_(std::move(fd));
  return until;
}

void Listener::Forget(Connections::iterator connection) {
  // While gRPC has the first descriptor open, closing the second one would not end the watch.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection->first, nullptr);
  waiting_.erase({connection->second.due, connection->first});
  if (--of_network_[connection->second.network] == 0) of_network_.erase(connection->second.network);
  connections_.erase(connection);
}

void Listener::Accept(int listening) {
  sockaddr_storage from{};
  socklen_t size = sizeof(from);
  Descriptor fd(accept4(listening, reinterpret_cast<sockaddr*>(&from), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (fd.get() >= 0) {
    if (from.ss_family == AF_UNIX && !MayConnect(fd.get())) return;
    ++accepted_;
    std::string name = NameOf(from);
    std::string network = name.empty() ? "unix" : NetworkOf(name);
    return Add(std::move(fd), std::move(network), std::move(name));
  }
  if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM) return;
  std::string fullest;
  {
    MutexLock lock(mu_);
    fullest = Fullest("");
  }
  DropOne(fullest);
  std::this_thread::sleep_for(kNoDescriptors);
}

bool Listener::MayConnect(int fd) const {
  ucred caller{};
  socklen_t size = sizeof(caller);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &caller, &size) != 0) return false;
  return caller.uid == 0 || caller.uid == geteuid() || absl::c_linear_search(users_, caller.uid);
}

std::string Listener::Fullest(const std::string& further) const {
  std::string fullest = further;
  int64_t most = 0;
  if (const auto found = of_network_.find(further); found != of_network_.end()) most = found->second + 1;
  for (const auto& [network, count] : of_network_) {
    if (count <= most) continue;
    fullest = network;
    most = count;
  }
  return fullest;
}

void Listener::Add(Descriptor accepted, std::string network, std::string name) {
  std::string full;
  {
    MutexLock lock(mu_);
    const auto found = of_network_.find(network);
    const int64_t same = found == of_network_.end() ? 0 : found->second;
    if (same >= std::max<int64_t>(1, max_connections_ / 2)) {
      full = network;
    } else if (static_cast<int64_t>(connections_.size()) >= max_connections_) {
      full = Fullest(network);
    }
  }
  if (!full.empty() && !DropOne(full)) {
    ++dropped_;
    return;
  }
  auto second = std::make_shared<const Descriptor>(fcntl(accepted.get(), F_DUPFD_CLOEXEC, 0));
  if (second->get() < 0) return;  // No descriptor is left: the connection closes.
  const int key = second->get();
  MutexLock lock(mu_);
  ++of_network_[network];
  const auto wait = wait_until_.find(network);
  const Clock::time_point due = wait == wait_until_.end() ? Clock::time_point() : wait->second;
  connections_[key] = {std::move(second), std::move(accepted), due, std::move(network), std::move(name)};
  waiting_.insert({due, key});  // Loop hands it over.
  // gRPC shuts a socket down before it closes it, and that the second descriptor sees.
  if (!Watch(key, 0).ok()) Forget(connections_.find(key));
}

std::vector<Listener::Traffic> Listener::CountTraffic() const {
  MutexLock lock(mu_);
  std::vector<Traffic> traffic;
  for (const auto& [fd, connection] : connections_) {
    if (connection.name.empty() || connection.first.get() >= 0) continue;
    if (const std::optional<tcp_info> info = InfoOf(fd)) {
      traffic.push_back(
          {connection.name, static_cast<int64_t>(info->tcpi_bytes_received), static_cast<int64_t>(info->tcpi_bytes_acked)});
    }
  }
  return traffic;
}

std::weak_ptr<const Descriptor> Listener::Socket(const std::string& name) const {
  MutexLock lock(mu_);
  for (const auto& [fd, connection] : connections_) {
    if (!connection.name.empty() && connection.name == name) return connection.second;
  }
  return {};
}

void Listener::End(const std::string& name, Ending ending) {
  MutexLock lock(mu_);
  for (auto& [fd, connection] : connections_) {
    if (connection.name.empty() || connection.name != name) continue;
    Clock::time_point& until = wait_until_[connection.network];
    const Clock::time_point now = Clock::now();
    until = std::min(std::max(until, now) + kWait, now + kLongestWait);
    ++ended_[static_cast<size_t>(ending)];
    connection.is_shut = true;
    shutdown(fd, SHUT_RDWR);  // Loop hears of it.
    // gRPC would read the rest before it finds the end. The bytes that the client sends meanwhile have an end as well.
    char rest[64 << 10];
    for (int i = 0; i < kMostReads && recv(fd, rest, sizeof(rest), MSG_DONTWAIT) > 0; ++i) continue;
  }
}

bool Listener::DropOne(const std::string& network) {
  // Calls that were answered speak for their client. Calls that are open do less: a flood of new connections opens calls
  // that never come whole, and is no longer silent than a client that thinks between two calls.
  enum class Use { kAnswered, kUnanswered, kIdle };
  const absl::flat_hash_map<std::string, bool> busy = busy_();
  const auto use = [&busy](const Connection& connection) {
    const auto found = busy.find(connection.name);
    return found == busy.end() ? Use::kIdle : found->second ? Use::kAnswered : Use::kUnanswered;
  };
  MutexLock lock(mu_);
  Connections::value_type* one = nullptr;
  std::pair<Use, Silence> longest;  // The use of `one`, and its silence.
  for (auto& entry : connections_) {
    const Connection& connection = entry.second;
    if (connection.network != network || connection.is_shut) continue;
    const std::optional<Silence> silence = SilenceOf(entry.first);
    if (!silence.has_value()) continue;
    const std::pair time(silence->is_left ? Use::kIdle : use(connection), *silence);
    if (one != nullptr && !(longest < time)) continue;
    one = &entry;
    longest = time;
  }
  if (one == nullptr) return false;
  ++dropped_;
  one->second.is_shut = true;
  shutdown(one->first, SHUT_RDWR);  // Loop hears of it.
  return true;
}

}  // namespace gluond::server
