// Losses: Gluon's, with its formulas, as graph builders. A loss maps predictions and labels to one value per sample.

#ifndef ENGINE_NN_LOSS_H_
#define ENGINE_NN_LOSS_H_

#include "absl/status/statusor.h"
#include "engine/core/graph.h"
#include "engine/nn/catalog.h"

namespace gluond {

struct LossInputs {
  NodeEntry prediction;
  NodeEntry label;
  NodeEntry sample_weight;  // Without a node: none. Broadcast to the loss, as Gluon does.
};

// The entry has the shape (batch,); PoissonNLLLoss is one number, as Gluon's. Losses with more inputs (TripletLoss,
// CosineEmbeddingLoss) are outputs of a graph.
using LossCatalog = Catalog<absl::StatusOr<NodeEntry>(const AttrDict&, const LossInputs&)>;
const LossCatalog& Losses();

}  // namespace gluond

#endif  // ENGINE_NN_LOSS_H_
