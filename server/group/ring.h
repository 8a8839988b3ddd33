// Ring: the ranks that compute one step together, and add up their gradients. Each process has one Ring in a generation; a ring
// that has failed once has failed for good, and the next generation forms another.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<Ring> ring, Ring::Form({.rank = 1, .size = 4, .generation = "7", .key = key},
//                                                           std::move(transport), rendezvous, [](absl::Status formed) { ... }));
//   ring->Compare("resnet", buckets);           // Once for a model, before its first sum.
//   for (...) ring->Start(bucket);              // Backward goes on.
//   RETURN_IF_ERROR(ring->Wait());              // Each bucket holds the sum.
//
// A ring keeps half of its largest bucket in memory of its own (GradientReducer::ScratchBytes).
//
// A ring has a thread, which forms it and then does the works in the order in which they were started. All ranks start equal works
// in one order, spares too. A bucket's memory is the ring's from Start on until the bucket's `done` is called. With an error the
// memory holds partial sums, of which nobody may make use. Functions are thread-safe.
//
// Sums have one order of additions, a binary tree over the ranks: ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)). So all ranks have the
// same bits, and where each rank adds up its shards in the tree, too, any power of two of ranks has them. (Gloo's BCUBE has the
// same tree, by recursive halving and doubling. It is not used, since nobody wakes it when a rank dies within a message.)
//
// Only the neighbours of a dead rank notice. Each rank that fails closes its connections, so that its own neighbours fail, too. So does
// a rank that ends its ring while others still add up: a generation ends when all ranks have told that they are done.

#ifndef SERVER_GROUP_RING_H_
#define SERVER_GROUP_RING_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/core/dtype.h"
#include "engine/core/mutex.h"
#include "server/group/rendezvous.h"
#include "server/group/ring_transport.h"

namespace gluond::server {

// A view of gradients that are added up at once.
struct GradientBucket {
  DType dtype = DType::kFloat32;  // Or kFloat64.
  void* data = nullptr;
  int64_t elements = 0;
};

class Ring {
 public:
  static constexpr int64_t kMostRanks = 64;  // Spares included.
  using Done = std::function<void(absl::Status)>;

  struct Options {
    int64_t rank = 0;
    int64_t size = 1;             // Ranks that add, a power of two.
    int64_t spares = 0;           // Rank `size + i` receives what rank `i` has added up. Fewer than `size`.
    std::string generation = {};  // No two rings of a rendezvous have the same.
    std::string key = {};         // Random, kKeyBytes or more; a rank that does not know the key is refused.
    std::chrono::milliseconds timeout = std::chrono::seconds(10);  // For the ring to form.
  };
  static constexpr size_t kKeyBytes = 32;

  // A key for a ring.
  static absl::StatusOr<std::string> NewKey();

  // Begins to form. `formed` is called once, by the ring's thread. `transport` may be null for a ring of one.
  // INVALID_ARGUMENT: an option is out of its range.
  static absl::StatusOr<std::unique_ptr<Ring>> Form(Options options, std::unique_ptr<RingTransport> transport,
                                                    std::shared_ptr<Rendezvous> rendezvous, Done formed);
  // Aborts, and calls every `done` that is owed. Not to be called by one of them.
  ~Ring();
  Ring(const Ring&) = delete;

  int64_t rank() const { return options_.rank; }
  int64_t size() const { return options_.size; }
  // The rank that a ring which has failed could not reach, as far as this one can tell: itself, or a peer.
  std::optional<int64_t> unreached() const {
    MutexLock lock(mu_);
    return unreached_;
  }

  // Compares types and sizes of the buckets to come with those of rank 0; the first call of a name does. FAILED_PRECONDITION, and
  // the ring has failed: they differ.
  void Compare(std::string name, std::vector<GradientBucket> layout, Done done = nullptr);
  // Begins to add up. `done` is called once, by the ring's thread, and in the order of Start.
  void Start(const GradientBucket& bucket, Done done = nullptr);
  // Waits for all that has been started, and for the ring to form. OK: the ring is whole, and so is each bucket.
  absl::Status Wait();
  // Ends the ring: what is under way fails within milliseconds.
  void Abort() { Break(absl::CancelledError("the ring was aborted")).IgnoreError(); }

 private:
  struct Work {
    std::function<absl::Status()> run;
    Done done;
  };

  Ring(Options options, std::unique_ptr<RingTransport> transport, std::shared_ptr<Rendezvous> rendezvous)
      : options_(std::move(options)), transport_(std::move(transport)), rendezvous_(std::move(rendezvous)) {}

  // The other ranks with which this one exchanges messages, in the order in which it does.
  std::vector<int> Peers() const;
  void Add(std::function<absl::Status()> run, Done done);
  void Run();
  absl::Status Connect();
  absl::Status Authenticate(int peer, Rendezvous::Time deadline);
  absl::Status CompareNow(absl::string_view name, absl::Span<const GradientBucket> layout);
  template <class T>
  absl::Status Sum(T* data, int64_t elements);
  absl::Status Exchange(int peer, uint64_t slot, const void* sent, size_t sent_bytes, void* received, size_t received_bytes,
                        Rendezvous::Time deadline);
  // An error that is the fault of a rank, this one or a peer.
  absl::Status FaultOf(int64_t rank, absl::Status error);
  // The first error stays.
  absl::Status Break(absl::Status error);

  const Options options_;
  const std::unique_ptr<RingTransport> transport_;
  const std::shared_ptr<Rendezvous> rendezvous_;
  // The ring's thread alone uses these.
  std::unique_ptr<char[]> scratch_;
  int64_t scratch_bytes_ = 0;
  uint64_t sums_ = 0;
  std::set<std::string, std::less<>> compared_;

  mutable Mutex mu_;
  CondVar changed_;
  std::deque<Work> works_ ABSL_GUARDED_BY(mu_);
  int64_t started_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t ended_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status broken_ ABSL_GUARDED_BY(mu_);
  std::optional<int64_t> unreached_ ABSL_GUARDED_BY(mu_);
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace gluond::server

#endif  // SERVER_GROUP_RING_H_
