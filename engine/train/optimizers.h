// Parts that the optimizers share. Only their files include this one.

#ifndef ENGINE_TRAIN_OPTIMIZERS_H_
#define ENGINE_TRAIN_OPTIMIZERS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/train/optimizer.h"

namespace gluond {

OptimizerCatalog::Entry SgdEntry();
OptimizerCatalog::Entry NagEntry();
OptimizerCatalog::Entry SignumEntry();
OptimizerCatalog::Entry SgldEntry();
OptimizerCatalog::Entry DcasgdEntry();
OptimizerCatalog::Entry LarsEntry();
OptimizerCatalog::Entry AdamEntry();
OptimizerCatalog::Entry AdamWEntry();
OptimizerCatalog::Entry AdamaxEntry();
OptimizerCatalog::Entry NadamEntry();
OptimizerCatalog::Entry FtmlEntry();
OptimizerCatalog::Entry LambEntry();
OptimizerCatalog::Entry AdaGradEntry();
OptimizerCatalog::Entry GroupAdaGradEntry();
OptimizerCatalog::Entry AdaDeltaEntry();
OptimizerCatalog::Entry RmsPropEntry();
OptimizerCatalog::Entry FtrlEntry();

// The fields of OptimizerParam, for a parameter struct P that derives from it.
template <class P>
void OptimizerFields(Schema<P>& s, double learning_rate) {
  s.template Field<double>("learning_rate", &P::learning_rate).Default(learning_rate).AtLeast(0).Describe("Step size.");
  s.template Field<double>("wd", &P::wd).Default(0.0).AtLeast(0).Describe("Weight decay.");
  s.template Field<std::optional<double>>("clip_gradient", &P::clip_gradient)
      .Default(std::nullopt)
      .Describe("Each element of a gradient is cut to this magnitude; None or 0: not cut.");
  s.template Field<bool>("multi_precision", &P::multi_precision)
      .Default(true)
      .Describe(
          "A float16 or bfloat16 parameter is updated by way of a float32 weight, which keeps what is too small "
          "for it. The other states are float32 in any case.");
}

template <class P>
void MomentumField(Schema<P>& s, double momentum = 0) {
  s.Field("momentum", &P::momentum).Default(momentum).AtLeast(0).Describe("Share of the step before.");
}

template <class P>
void LazyField(Schema<P>& s) {
  s.Field("lazy_update", &P::lazy_update).Default(true).Describe("Accepted for MXNet's sake: of sparse gradients only.");
}

template <class P>
void AverageFields(Schema<P>& s, double beta1 = 0.9) {
  s.Field("beta1", &P::beta1).Default(beta1).Range(0, 1).Describe("Decay of the gradient's average.");
  s.Field("beta2", &P::beta2).Default(0.999).Range(0, 1).Describe("Decay of the squared gradient's average.");
}

template <class P>
void EpsilonField(Schema<P>& s, double epsilon = 1e-8, const char* name = "epsilon") {
  s.Field(name, &P::epsilon).Default(epsilon).AtLeast(0).Describe("Keeps the quotient finite.");
}

// A step of momentum, for an optimizer that has its state only where it is not 0.
inline OptimizerStates MomentumState(double momentum) { return momentum == 0 ? OptimizerStates{} : OptimizerStates{{"mom"}}; }

// Makes an optimizer O from its parameters P.
template <class O, class P>
OptimizerCatalog::Entry MakeOptimizerEntry(const char* name, const char* description, std::vector<std::string> aliases = {}) {
  return {name, description, P::__FIELDS__(),
          [](const AttrDict& attrs) -> absl::StatusOr<std::unique_ptr<Optimizer>> {
            ASSIGN_OR_RETURN(const P p, ParseAttrs<P>(attrs));
            return std::make_unique<O>(p);
          },
          std::move(aliases)};
}

inline std::string Text(double value) { return param_internal::FormatValue(value); }

}  // namespace gluond

#endif  // ENGINE_TRAIN_OPTIMIZERS_H_
