#include "server/group/ring.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <map>
#include <new>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/core/start_thread.h"
#include "engine/core/status_macros.h"

namespace gluond::server {
namespace {

// Sums have other slots: their numbers begin at 1.
constexpr uint64_t kAuthenticationSlot = 0;
// Callbacks and compiling take minutes on another rank, and whether it lives is for the leader to say.
constexpr std::chrono::hours kSumTimeout{24};
constexpr size_t kMacBytes = 32;
constexpr size_t kLongestLayout = 2048;  // Bytes.

bool IsPowerOfTwo(int64_t value) { return value > 0 && (value & (value - 1)) == 0; }

absl::Status CheckOptions(const Ring::Options& options) {
  const auto& [rank, size, spares, generation, key, timeout] = options;
  if (!IsPowerOfTwo(size) || spares < 0 || spares >= size || size + spares > Ring::kMostRanks) {
    return Invalid("Ring: a power of two of ranks, fewer spares, and at most ", Ring::kMostRanks, " of both are expected, not ",
                   size, " ranks and ", spares, " spares");
  }
  if (rank < 0 || rank >= size + spares) return Invalid("Ring: no rank of ", size + spares, " is ", rank);
  if (size > 1 && key.size() < Ring::kKeyBytes) {
    return Invalid("Ring: a key of ", Ring::kKeyBytes, " random bytes is expected, not of ", key.size(), "; see NewKey");
  }
  return absl::OkStatus();
}

std::string KeyOfAddress(absl::string_view generation, int64_t from, int64_t to) {
  return absl::StrCat(generation, "/address/", from, "/", to);
}

// A code of a text, which only ranks with the key can make.
std::string Mac(const Ring::Options& options, absl::string_view text) {
  std::string mac(kMacBytes, '\0');
  HMAC(EVP_sha256(), options.key.data(), static_cast<int>(options.key.size()), reinterpret_cast<const unsigned char*>(text.data()),
       text.size(), reinterpret_cast<unsigned char*>(mac.data()), nullptr);
  return mac;
}

// The proof of `from` to `to` that it has the key.
std::string Proof(const Ring::Options& options, int64_t from, int64_t to) {
  return Mac(options, absl::StrCat("gluond ring ", options.generation, " from ", from, " to ", to));
}

// A text that two layouts share if they are equal. Join carries short texts, so a long list ends with a code of the whole.
std::string LayoutText(const Ring::Options& options, absl::Span<const GradientBucket> layout) {
  std::string text;
  for (const GradientBucket& bucket : layout) absl::StrAppend(&text, Name(bucket.dtype), " x ", bucket.elements, ", ");
  if (text.size() <= kLongestLayout) return text;
  return absl::StrCat(text.substr(0, kLongestLayout), "... of ", layout.size(), " buckets, ",
                      absl::BytesToHexString(Mac(options, text)));
}

// A sum's messages have a slot of their own. Ranks whose buckets differ wait for each other until somebody aborts; in one slot a
// longer message than expected would end the process.
uint64_t SlotOf(uint64_t sum, int64_t elements, size_t element_bytes) {
  return sum << 40 ^ static_cast<uint64_t>(elements) << 4 ^ element_bytes;
}

}  // namespace

absl::StatusOr<std::string> Ring::NewKey() {
  std::string key(kKeyBytes, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(key.data()), static_cast<int>(key.size())) != 1) {
    return Unavailable("Ring: the system has no random bytes for a key");
  }
  return key;
}

absl::StatusOr<std::unique_ptr<Ring>> Ring::Form(Options options, std::unique_ptr<RingTransport> transport,
                                                 std::shared_ptr<Rendezvous> rendezvous, Done formed) {
  RETURN_IF_ERROR(CheckOptions(options));
  if (options.size > 1 && (transport == nullptr || rendezvous == nullptr)) {
    return Invalid("Ring: a ring of ", options.size, " needs a transport and a rendezvous");
  }
  std::unique_ptr<Ring> ring(new Ring(std::move(options), std::move(transport), std::move(rendezvous)));
  ring->Add([ring = ring.get()] { return ring->Connect(); }, std::move(formed));
  if (!TryToStart(&ring->thread_, [ring = ring.get()] { ring->Run(); })) {
    return Unavailable("Ring: this process has all threads that it may have (ulimit -u, pids.max)");
  }
  return ring;
}

Ring::~Ring() {
  Abort();
  {
    MutexLock lock(mu_);
    ends_ = true;
  }
  changed_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void Ring::Add(std::function<absl::Status()> run, Done done) {
  MutexLock lock(mu_);
  ++started_;
  works_.push_back({std::move(run), std::move(done)});
  changed_.NotifyAll();
}

void Ring::Run() {
  for (;;) {
    Work work;
    absl::Status status;
    {
      MutexLock lock(mu_);
      while (works_.empty() && !ends_) changed_.Wait(mu_);
      if (works_.empty()) return;
      work = std::move(works_.front());
      works_.pop_front();
      status = broken_;
    }
    if (status.ok()) status = work.run();
    if (!status.ok()) status = Break(std::move(status));
    if (work.done) work.done(status);
    MutexLock lock(mu_);
    ++ended_;
    changed_.NotifyAll();
  }
}

absl::Status Ring::Break(absl::Status error) {
  {
    MutexLock lock(mu_);
    if (!broken_.ok()) return broken_;
    broken_ = error;
  }
  if (rendezvous_ != nullptr) rendezvous_->Cancel();
  if (transport_ != nullptr) transport_->Close();
  return error;
}

absl::Status Ring::Wait() {
  MutexLock lock(mu_);
  const int64_t started = started_;
  while (ended_ < started) changed_.Wait(mu_);
  return broken_;
}

std::vector<int> Ring::Peers() const {
  const auto rank = static_cast<int>(options_.rank), size = static_cast<int>(options_.size);
  if (rank >= size) return {rank - size};
  std::vector<int> peers;
  for (int distance = 1; distance < size; distance *= 2) peers.push_back(rank ^ distance);
  if (rank < options_.spares) peers.push_back(size + rank);
  return peers;
}

absl::Status Ring::Connect() {
  const std::vector<int> peers = Peers();
  if (peers.empty()) return absl::OkStatus();
  const auto deadline = std::chrono::steady_clock::now() + options_.timeout;
  std::map<int, std::string> addresses;
  for (const int peer : peers) addresses[peer];
  if (const std::string error = transport_->Listen(&addresses); !error.empty()) {
    return FaultOf(rank(), Unavailable("Ring: rank ", rank(), " cannot listen: ", error));
  }
  for (const auto& [peer, address] : addresses) {
    RETURN_IF_ERROR(rendezvous_->Set(KeyOfAddress(options_.generation, rank(), peer), address));
  }
  for (auto& [peer, address] : addresses) {
    absl::StatusOr<std::string> told = rendezvous_->Get(KeyOfAddress(options_.generation, peer, rank()), deadline);
    if (!told.ok())
      return FaultOf(peer, Annotate(told.status(), absl::StrCat("Ring: rank ", rank(), " has no address of rank ", peer)));
    address = *std::move(told);
  }
  if (const std::string error = transport_->Connect(addresses); !error.empty()) {
    const absl::Status unconnected = Unavailable("Ring: rank ", rank(), " cannot connect to its peers: ", error);
    return peers.size() == 1 ? FaultOf(peers.front(), unconnected) : unconnected;
  }
  for (const int peer : peers) RETURN_IF_ERROR(Authenticate(peer, deadline));
  return absl::OkStatus();
}

absl::Status Ring::Authenticate(int peer, Rendezvous::Time deadline) {
  const std::string own = Proof(options_, rank(), peer), expected = Proof(options_, peer, rank());
  std::string received(kMacBytes, '\0');
  RETURN_IF_ERROR(Exchange(peer, kAuthenticationSlot, own.data(), own.size(), received.data(), received.size(), deadline));
  if (CRYPTO_memcmp(received.data(), expected.data(), kMacBytes) == 0) return absl::OkStatus();
  return FaultOf(peer, absl::UnauthenticatedError(absl::StrCat("Ring: who connected to rank ", rank(), " as rank ", peer,
                                                               " does not have the key of generation ", options_.generation)));
}

absl::Status Ring::Exchange(int peer, uint64_t slot, const void* sent, size_t sent_bytes, void* received, size_t received_bytes,
                            Rendezvous::Time deadline) {
  if (sent_bytes == 0 && received_bytes == 0) return absl::OkStatus();
  const std::string error = transport_->Exchange(peer, slot, sent, sent_bytes, received, received_bytes, deadline);
  if (error.empty()) return absl::OkStatus();
  return FaultOf(peer, Unavailable("Ring: rank ", rank(), " has lost rank ", peer, ": ", error));
}

absl::Status Ring::FaultOf(int64_t rank, absl::Status error) {
  MutexLock lock(mu_);
  if (broken_.ok() && !unreached_.has_value()) unreached_ = rank;
  return error;
}

void Ring::Compare(std::string name, std::vector<GradientBucket> layout, Done done) {
  Add([this, name = std::move(name), layout = std::move(layout)] { return CompareNow(name, layout); }, std::move(done));
}

absl::Status Ring::CompareNow(absl::string_view name, absl::Span<const GradientBucket> layout) {
  if (options_.size == 1 || !compared_.emplace(name).second) return absl::OkStatus();
  const std::string own = LayoutText(options_, layout);
  const std::string key = absl::StrCat(options_.generation, "/layout/", name);
  if (rank() == 0) return rendezvous_->Set(key, own);
  ASSIGN_OR_RETURN(const std::string first, Annotate(rendezvous_->Get(key, std::chrono::steady_clock::now() + kSumTimeout),
                                                     absl::StrCat("Ring: rank 0 has no layout of ", name)));
  if (first == own) return absl::OkStatus();
  const size_t at = std::mismatch(own.begin(), own.end(), first.begin(), first.end()).first - own.begin();
  const size_t begin = at == 0 ? 0 : own.rfind(' ', at - 1) + 1;
  return FailedPrecondition("Ring: the gradients of ", name, " have other buckets in rank ", rank(), " than in rank 0: from byte ",
                            begin, " of the list on '", own.substr(begin, 40), "', where rank 0 has '", first.substr(begin, 40),
                            "'");
}

void Ring::Start(const GradientBucket& bucket, Done done) {
  Add(
      [this, bucket]() -> absl::Status {
        if (bucket.dtype == DType::kFloat32) return Sum(static_cast<float*>(bucket.data), bucket.elements);
        if (bucket.dtype == DType::kFloat64) return Sum(static_cast<double*>(bucket.data), bucket.elements);
        return Invalid("Ring: float32 or float64 can be added up, not ", Name(bucket.dtype));
      },
      std::move(done));
}

// Halves what it adds up with each peer: each of the two adds up one half of what they both have, and goes on with it to the next
// peer. Then the halves come back, in the other order.
template <class T>
absl::Status Ring::Sum(T* data, int64_t elements) {
  struct Step {
    int peer;
    int64_t kept, kept_elements, given, given_elements;
  };
  const auto deadline = std::chrono::steady_clock::now() + kSumTimeout;
  const uint64_t slot = SlotOf(++sums_, elements, sizeof(T));
  const auto rank = static_cast<int>(options_.rank), size = static_cast<int>(options_.size);
  const size_t bytes = elements * sizeof(T);
  if (rank >= size) return Exchange(rank - size, slot, nullptr, 0, data, bytes, deadline);
  if (size > 1 && scratch_bytes_ < (elements + 1) / 2 * static_cast<int64_t>(sizeof(T))) {
    scratch_bytes_ = (elements + 1) / 2 * sizeof(T);
    scratch_.reset();
    scratch_.reset(new (std::nothrow) char[scratch_bytes_]);
    if (scratch_ == nullptr) return absl::ResourceExhaustedError(absl::StrCat("Ring: no memory for ", scratch_bytes_, " bytes"));
  }
  std::vector<Step> steps;
  int64_t begin = 0;
  int64_t count = elements;
  for (int distance = 1; distance < size; distance *= 2) {
    const int64_t low = (count + 1) / 2;
    Step step{rank ^ distance, begin, low, begin + low, count - low};
    if ((rank & distance) != 0) {
      std::swap(step.kept, step.given);
      std::swap(step.kept_elements, step.given_elements);
    }
    const T* const received = reinterpret_cast<T*>(scratch_.get());
    RETURN_IF_ERROR(Exchange(step.peer, slot, data + step.given, step.given_elements * sizeof(T), scratch_.get(),
                             step.kept_elements * sizeof(T), deadline));
    for (int64_t i = 0; i < step.kept_elements; ++i) data[step.kept + i] += received[i];
    begin = step.kept;
    count = step.kept_elements;
    steps.push_back(step);
  }
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    RETURN_IF_ERROR(Exchange(step->peer, slot, data + step->kept, step->kept_elements * sizeof(T), data + step->given,
                             step->given_elements * sizeof(T), deadline));
  }
  if (rank < options_.spares) RETURN_IF_ERROR(Exchange(size + rank, slot, data, bytes, nullptr, 0, deadline));
  return absl::OkStatus();
}

}  // namespace gluond::server
