// Parts that the optimizers share. Only their files include this one.

#ifndef ENGINE_TRAIN_OPTIMIZERS_H_
#define ENGINE_TRAIN_OPTIMIZERS_H_

#include <memory>
#include <string>

#include "engine/train/optimizer.h"

namespace gluond {

OptimizerCatalog::Entry SgdEntry();
OptimizerCatalog::Entry NagEntry();
OptimizerCatalog::Entry AdamEntry();
OptimizerCatalog::Entry AdamWEntry();
OptimizerCatalog::Entry RmsPropEntry();

// The fields of OptimizerParam, for a parameter struct P that derives from it.
template <class P>
void OptimizerFields(Schema<P>& s, double learning_rate) {
  s.template Field<double>("learning_rate", &P::learning_rate).Default(learning_rate).AtLeast(0).Describe("Step size.");
  s.template Field<double>("wd", &P::wd).Default(0.0).AtLeast(0).Describe("Weight decay.");
  s.template Field<double>("clip_gradient", &P::clip_gradient).Default(0.0)
      .Describe("Each element of a gradient is cut to this magnitude; 0: not cut.");
  s.template Field<bool>("multi_precision", &P::multi_precision).Default(true)
      .Describe("A float16 or bfloat16 parameter is updated by way of a float32 weight, which keeps what is too small "
                "for it. The other states are float32 in any case.");
}

// Makes an optimizer O from its parameters P.
template <class O, class P>
OptimizerCatalog::Entry MakeOptimizerEntry(const char* name, const char* description) {
  return {name, description, P::__FIELDS__(), [](const AttrDict& attrs) -> absl::StatusOr<std::unique_ptr<Optimizer>> {
            ASSIGN_OR_RETURN(const P p, ParseAttrs<P>(attrs));
            return std::make_unique<O>(p);
          }};
}

inline std::string Text(double value) { return param_internal::FormatValue(value); }

}  // namespace gluond

#endif  // ENGINE_TRAIN_OPTIMIZERS_H_
