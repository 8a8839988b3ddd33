// Layer is a block whose operators the server knows: nn::Dense and its like, losses. gluond/nn.h and gluond/loss.h have them by name,
// with their options; a layer that only the server knows is there by its name:
//
//   gluon::Layer dense("Dense", {{"units", 10}});

#ifndef GLUOND_LAYER_H_
#define GLUOND_LAYER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "gluond/block.h"
#include "gluond/export.h"
#include "gluond/ndarray.h"
#include "gluond/parameter.h"
#include "gluond/symbol.h"
#include "gluond/types.h"
#include "gluond/value.h"

namespace gluond::client {

struct LayerState;

namespace gluon {

class GLUOND_EXPORT Layer : public BlockBase {
 public:
  // The server's block of this name. children: blocks within it, as in Residual, which the server must know, too.
  explicit Layer(const std::string& block, const Attributes& attributes = {}, const std::vector<BlockBase>& children = {});
  // Any tree of the server's blocks.
  explicit Layer(const BlockTree& tree);

  NDArray operator()(const NDArray& x, Place place = Place::Here()) const { return Call({x}, place); }
  Symbol operator()(const Symbol& x, Place place = Place::Here()) const { return Call({x}, place); }

  // Has the parameters of another layer of the same kind.
  void Share(const Layer& other);

  const BlockTree& tree() const;

 protected:
  explicit Layer(std::shared_ptr<LayerState> layer);
  NDArray Call(const std::vector<NDArray>& inputs, Place place) const;
  Symbol Call(const std::vector<Symbol>& inputs, Place place) const;
  // The output; and, if `states` were given, the recurrent operator's states after the last step.
  std::vector<Symbol> Trace(const std::vector<Symbol>& inputs, absl::Span<const Symbol> states, Place place) const;

  std::shared_ptr<LayerState> layer_;
};

// A layer that computes whole sequences by one operator: rnn::RNN, rnn::LSTM, rnn::GRU. It begins with zeros, or with states that it
// is given: of shape (layers times directions, samples, hidden_size); an LSTM has two of them, h and c.
//
//   rnn::LSTM lstm({.hidden_size = 20, .num_layers = 2});
//   std::vector<NDArray> states = lstm.BeginState(samples);
//   std::tie(y, states) = lstm(x, states);
class GLUOND_EXPORT RecurrentLayer : public Layer {
 public:
  using Layer::Layer;
  using Layer::operator();
  // The output, and the states after the last step.
  std::pair<NDArray, std::vector<NDArray>> operator()(const NDArray& x, const std::vector<NDArray>& states,
                                                      Place place = Place::Here()) const;
  std::pair<Symbol, std::vector<Symbol>> operator()(const Symbol& x, const std::vector<Symbol>& states,
                                                    Place place = Place::Here()) const;
  // Zeros for so many samples.
  std::vector<NDArray> BeginState(int64_t samples, const ArrayOptions& options = {}, Place place = Place::Here()) const;
};

// One value for each sample, as Gluon's losses.
class GLUOND_EXPORT Loss : public Layer {
 public:
  explicit Loss(const std::string& loss, const Attributes& attributes = {});

  NDArray operator()(const NDArray& prediction, const NDArray& label, const NDArray& sample_weight = {},
                     Place place = Place::Here()) const;
  Symbol operator()(const Symbol& prediction, const Symbol& label, const Symbol& sample_weight = {},
                    Place place = Place::Here()) const;
  const Component& component() const;

 private:
  Loss(const Component& loss, bool weighted);
  std::shared_ptr<Loss> weighted_;  // The same loss with a third input.
};

}  // namespace gluon
}  // namespace gluond::client

#endif  // GLUOND_LAYER_H_
