#include "engine/train/optimizer.h"

#include "engine/train/optimizers.h"

namespace gluond {

AttrDict OptimizerParam::UpdateAttrs() const {
  // "lr" has no default; each step sets it.
  return {{"lr", "0"}, {"clip_gradient", Text(clip_gradient > 0 ? clip_gradient : -1)}};
}

const OptimizerCatalog& Optimizers() {
  static const OptimizerCatalog& catalog =
      *new OptimizerCatalog("optimizer", {SgdEntry(), NagEntry(), AdamEntry(), AdamWEntry(), RmsPropEntry()});
  return catalog;
}

}  // namespace gluond
