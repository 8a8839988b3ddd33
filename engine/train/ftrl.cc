// Follow the regularized leader (McMahan et al.):
//   z <- z + g - (sqrt(n + g^2) - sqrt(n)) w / lr, n <- n + g^2
//   w <- (sign(z) lamda1 - z) / ((beta + sqrt(n)) / lr + wd) where |z| > lamda1, else 0

#include "engine/train/optimizers.h"

namespace gluond {
namespace {

struct FtrlParam : Param<FtrlParam>, OptimizerParam {
  double lamda1, beta;
  static void Fields(Schema<FtrlParam>& s) {
    OptimizerFields(s, 0.1);
    s.Field("lamda1", &FtrlParam::lamda1).Default(0.01).AtLeast(0).Describe("L1 regularization.");
    s.Field("beta", &FtrlParam::beta).Default(1.0).Describe("Added to the learning rate's divisor.");
  }
};

class Ftrl : public OperatorOptimizer {
 public:
  explicit Ftrl(const FtrlParam& p) : OperatorOptimizer(p), p_(p) {}

  std::string op() const override { return "ftrl_update"; }
  AttrDict attrs() const override {
    AttrDict attrs = param().UpdateAttrs();
    attrs["lamda1"] = Text(p_.lamda1);
    attrs["beta"] = Text(p_.beta);
    return attrs;
  }
  OptimizerStates states() const override { return {{"z"}, {"n"}}; }

 private:
  const FtrlParam p_;
};

}  // namespace

OptimizerCatalog::Entry FtrlEntry() {
  return MakeOptimizerEntry<Ftrl, FtrlParam>("ftrl", "Follow the regularized leader; small weights become 0.");
}

}  // namespace gluond
