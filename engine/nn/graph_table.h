// GraphTable: a model's graphs by what each is for; the one that was used least recently goes first. Only the model's strand
// uses it. The executors of a graph, for each signature, lie in an ExecutorCache.

#ifndef ENGINE_NN_GRAPH_TABLE_H_
#define ENGINE_NN_GRAPH_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/core/lru_map.h"
#include "engine/core/status_macros.h"
#include "engine/nn/parameter.h"
#include "engine/runtime/cancellation_scope.h"
#include "engine/runtime/lane.h"
#include "engine/runtime/posted.h"
#include "engine/runtime/task.h"

namespace gluond {

// `Made`: a graph with what belongs to it.
template <class Made>
class GraphTable {
 public:
  using MadePtr = std::shared_ptr<Made>;

  // Keeps at most so many graphs. References must outlive it.
  GraphTable(size_t most, const ParameterStore& parameters, Lane& lane)
      : parameters_(parameters), lane_(lane), version_(parameters.version()), graphs_(most) {}

  // The graph for that purpose, which `make` makes where there is none yet: beside the lane, for that takes long.
  Task<absl::StatusOr<MadePtr>> Find(std::string purpose, std::function<absl::StatusOr<MadePtr>()> make,
                                     std::shared_ptr<Cancellation> cancellation) {
    // Which gradients a graph makes depends on the version. An older graph serves nobody.
    if (const uint64_t version = parameters_.version(); version != version_) graphs_.Clear(), version_ = version;
    if (const MadePtr* const known = graphs_.Find(purpose)) co_return *known;
    co_await RunAside(lane_);
    absl::StatusOr<MadePtr> made;
    {
      const CancellationScope scope(cancellation.get());
      made = make();
    }
    co_await PostedTo(lane_);
    if (made.ok()) graphs_.Insert(std::move(purpose), *made);
    co_return made;
  }
  // Such a graph, made since the table is there.
  void Put(std::string purpose, MadePtr made) { graphs_.Insert(std::move(purpose), std::move(made)); }

 private:
  const ParameterStore& parameters_;
  Lane& lane_;
  uint64_t version_;  // The store's, of which the graphs are.
  LruMap<std::string, MadePtr> graphs_;
};

}  // namespace gluond

#endif  // ENGINE_NN_GRAPH_TABLE_H_
