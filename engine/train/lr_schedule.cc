#include "engine/train/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace gluond {
namespace {

enum WarmUp { kLinear, kConstant };

// Every schedule begins with a warm-up: the first warmup_steps updates lead up to base_lr.
struct WarmUpAttributes {
  std::optional<double> base_lr;
  int64_t warmup_steps;
  double warmup_begin_lr;
  int warmup_mode;
};
template <class P>
void CommonFields(Schema<P>& s) {
  s.template Field<std::optional<double>>("base_lr", &P::base_lr)
      .Default(std::nullopt)
      .Describe("Where it starts; None: the optimizer's learning rate.");
  s.template Field<int64_t>("warmup_steps", &P::warmup_steps)
      .Default(int64_t{0})
      .AtLeast(0)
      .Describe("Updates before the schedule proper.");
  s.template Field<double>("warmup_begin_lr", &P::warmup_begin_lr).Default(0.0).AtLeast(0).Describe("At the start.");
  s.template Field<int>("warmup_mode", &P::warmup_mode)
      .Enum({{"linear", kLinear}, {"constant", kConstant}})
      .Default("linear")
      .Describe("Rises to base_lr, or stays at warmup_begin_lr.");
}

// `decay(param, base_lr, update)` is the rate after the warm-up.
template <class P>
class Schedule : public LrSchedule {
 public:
  using Decay = double (*)(const P&, double base_lr, int64_t update);
  Schedule(P p, double base_lr, Decay decay) : p_(std::move(p)), base_lr_(base_lr), decay_(decay) {}

  double operator()(int64_t update) const override {
    if (update >= p_.warmup_steps) return decay_(p_, base_lr_, update);
    if (p_.warmup_mode == kConstant) return p_.warmup_begin_lr;
    return p_.warmup_begin_lr +
           (base_lr_ - p_.warmup_begin_lr) * static_cast<double>(update) / static_cast<double>(p_.warmup_steps);
  }

 private:
  const P p_;
  const double base_lr_;
  const Decay decay_;
};

// The rate after `changes` multiplications one by one, as MXNet does them, so that it has the same bits. More than
// kOneByOne changes are one power: they would take longer than a step.
double Multiplied(double rate, double factor, int64_t changes) {
  constexpr int64_t kOneByOne = 1 << 14;
  for (int64_t i = 0; i < std::min(changes, kOneByOne); ++i) rate *= factor;
  return changes <= kOneByOne ? rate : rate * std::pow(factor, static_cast<double>(changes - kOneByOne));
}

struct FactorParam : Param<FactorParam>, WarmUpAttributes {
  int64_t step;
  double factor, stop_factor_lr;
  static void Fields(Schema<FactorParam>& s) {
    s.Field("step", &FactorParam::step).AtLeast(1).Describe("Updates between two changes.");
    s.Field("factor", &FactorParam::factor).Default(1.0).Range(0, 1).Describe("Multiplies the rate at each.");
    s.Field("stop_factor_lr", &FactorParam::stop_factor_lr).Default(1e-8).AtLeast(0).Describe("It falls no lower.");
    CommonFields(s);
  }
};
double Factor(const FactorParam& p, double base_lr, int64_t update) {
  const int64_t changes = std::max<int64_t>(update - 1, 0) / p.step;
  return changes == 0 ? base_lr : std::max(Multiplied(base_lr, p.factor, changes), p.stop_factor_lr);
}

struct MultiFactorParam : Param<MultiFactorParam>, WarmUpAttributes {
  std::vector<int64_t> step;
  double factor;
  static void Fields(Schema<MultiFactorParam>& s) {
    const auto rising = [](const std::vector<int64_t>& v) {
      return !v.empty() && v[0] >= 1 && std::is_sorted(v.begin(), v.end(), std::less_equal<>());
    };
    s.Field("step", &MultiFactorParam::step)
        .Check(rising, "want rising numbers of updates")
        .Describe("After these updates the rate changes.");
    s.Field("factor", &MultiFactorParam::factor).Default(1.0).Range(0, 1).Describe("Multiplies the rate at each.");
    CommonFields(s);
  }
};
double MultiFactor(const MultiFactorParam& p, double base_lr, int64_t update) {
  const auto passed = std::count_if(p.step.begin(), p.step.end(), [=](int64_t s) { return update > s; });
  return Multiplied(base_lr, p.factor, passed);
}

// How much of [warmup_steps, max_update] has passed, 0 to 1.
template <class P>
double Progress(const P& p, int64_t update) {
  const int64_t length = p.max_update - p.warmup_steps;
  if (length <= 0 || update >= p.max_update) return 1;
  return static_cast<double>(update - p.warmup_steps) / static_cast<double>(length);
}

struct PolyParam : Param<PolyParam>, WarmUpAttributes {
  int64_t max_update;
  double pwr, final_lr;
  static void Fields(Schema<PolyParam>& s) {
    s.Field("max_update", &PolyParam::max_update).AtLeast(1).Describe("When final_lr is reached.");
    s.Field("pwr", &PolyParam::pwr).Default(2.0).Describe("Power of what is left.");
    s.Field("final_lr", &PolyParam::final_lr).Default(0.0).AtLeast(0).Describe("The rate from max_update on.");
    CommonFields(s);
  }
};
double Poly(const PolyParam& p, double base_lr, int64_t update) {
  return p.final_lr + (base_lr - p.final_lr) * std::pow(1 - Progress(p, update), p.pwr);
}

struct CosineParam : Param<CosineParam>, WarmUpAttributes {
  int64_t max_update;
  double final_lr;
  static void Fields(Schema<CosineParam>& s) {
    s.Field("max_update", &CosineParam::max_update).AtLeast(1).Describe("When final_lr is reached.");
    s.Field("final_lr", &CosineParam::final_lr).Default(0.0).AtLeast(0).Describe("The rate from max_update on.");
    CommonFields(s);
  }
};
double Cosine(const CosineParam& p, double base_lr, int64_t update) {
  return p.final_lr + (base_lr - p.final_lr) * ((1 + std::cos(M_PI * Progress(p, update))) / 2);
}

template <class P>
LrScheduleCatalog::Entry Entry(const char* name, const char* alias, const char* description,
                               double (*decay)(const P&, double, int64_t)) {
  return {name,
          description,
          P::__FIELDS__(),
          [decay](const AttrDict& attrs, double base_lr) -> absl::StatusOr<std::unique_ptr<LrSchedule>> {
            ASSIGN_OR_RETURN(P p, ParseAttrs<P>(attrs));
            const double base = p.base_lr.value_or(base_lr);
            return std::make_unique<Schedule<P>>(std::move(p), base, decay);
          },
          {alias}};
}

}  // namespace

const LrScheduleCatalog& LrSchedules() {
  static const LrScheduleCatalog& catalog = *new LrScheduleCatalog(
      "learning rate schedule",
      {
          Entry("factor", "FactorScheduler", "Times `factor` every `step` updates.", &Factor),
          Entry("multifactor", "MultiFactorScheduler", "Times `factor` after each of the updates `step`.", &MultiFactor),
          Entry("poly", "PolyScheduler", "Falls to final_lr like a power of what is left.", &Poly),
          Entry("cosine", "CosineScheduler", "Falls to final_lr like half a cosine.", &Cosine),
      });
  return catalog;
}

}  // namespace gluond
