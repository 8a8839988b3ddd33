// BlockState: what the handles of one block share.

#ifndef GLUOND_CLIENT_CPP_GLUON_BLOCK_STATE_H_
#define GLUOND_CLIENT_CPP_GLUON_BLOCK_STATE_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/gluon/graph.h"
#include "gluond/block.h"
#include "gluond/parameter.h"

namespace gluond::client {

struct BlockState {
  // Makes the block's own parameters where they are not there yet; null: they are.
  std::function<absl::Status()> prepare;
  // The block as the server knows it; null: the server does not.
  std::function<absl::StatusOr<BlockTree>()> tree;
  gluon::ParameterDict params;

  std::mutex mutex;
  std::vector<std::pair<std::string, std::shared_ptr<BlockState>>> children;  // Guarded by mutex, as all from here on.
  bool is_hybrid = false;
  // By session and by the form of the inputs: the graph, or why there is none, and the form of its outputs.
  struct Traced {
    absl::StatusOr<std::shared_ptr<const SessionGraph>> graph;
    internal::Sizes out;
    size_t outputs = 1;
  };
  std::map<std::pair<SessionCore*, internal::Sizes>, Traced> graphs;
  // The last graph that ran, and its inputs; null: none has.
  std::shared_ptr<const SessionGraph> last;
  std::vector<Variable> last_inputs;
};

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_GLUON_BLOCK_STATE_H_
