// Signum (Bernstein et al.): m <- mu m - (1 - mu) (wd w + g), w <- (1 - lr wd_lh) w + lr sign(m); without momentum
// w <- (1 - lr wd) w - lr sign(g).

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct SignumParam : Param<SignumParam>, OptimizerParam {
  double momentum, wd_lh;
  static void Fields(Schema<SignumParam>& s) {
    OptimizerFields(s, 0.01);
    MomentumField(s, 0.9);
    s.Field("wd_lh", &SignumParam::wd_lh).Default(0.0).AtLeast(0).Describe("Weight decay outside of the sign.");
  }
};

class Signum : public OperatorOptimizer {
 public:
  explicit Signum(const SignumParam& p) : OperatorOptimizer(p), p_(p) {}

  std::string op() const override { return p_.momentum == 0 ? "signsgd_update" : "signum_update"; }
  AttrDict attrs() const override {
    AttrDict attrs = param().UpdateAttrs();
    if (p_.momentum != 0) {
      attrs["momentum"] = Text(p_.momentum);
      attrs["wd_lh"] = Text(p_.wd_lh);
    }
    return attrs;
  }
  OptimizerStates states() const override { return MomentumState(p_.momentum); }

 private:
  const SignumParam p_;
};

}  // namespace

OptimizerCatalog::Entry SignumEntry() {
  return MakeOptimizerEntry<Signum, SignumParam>("signum", "Steps of one size, by the sign of the gradient's average.");
}

}  // namespace gluond
