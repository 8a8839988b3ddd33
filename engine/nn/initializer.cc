#include "engine/nn/initializer.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/nn/orthogonal.h"

namespace gluond {
namespace {

enum Distribution { kUniform, kGaussian };
enum Factor { kAvg, kIn, kOut };

// Uniform in (-scale, scale).
void FillUniform(const InitializerTarget& to, double scale) {
  for (size_t i = 0; i < to.values.size(); ++i) {
    const double u = Philox::ToUniform(to.random.Word(i));
    to.values[i] = static_cast<float>((2 * u - 1) * scale);
  }
}

// Normal with deviation sigma, by Box and Muller: two words make one value.
void FillNormal(const InitializerTarget& to, double sigma) {
  for (size_t i = 0; i < to.values.size(); ++i) {
    const Philox::Block block = to.random(i / 2);
    const double u1 = (block.word[i % 2 * 2] + 0.5) * 0x1p-32;
    const double u2 = (block.word[i % 2 * 2 + 1] + 0.5) * 0x1p-32;
    to.values[i] = static_cast<float>(sigma * std::sqrt(-2 * std::log(u1)) * std::cos(2 * M_PI * u2));
  }
}

void FillConstant(const InitializerTarget& to, double value) {
  for (float& v : to.values) v = static_cast<float>(value);
}

// The scale is sqrt(magnitude / fan), as Glorot's and He's; the fan is the number of weights into, or out of, one unit.
absl::Status FillXavier(const InitializerTarget& to, int distribution, int factor, double magnitude) {
  if (to.shape.ndim() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("Xavier initializer cannot be applied to vector ", to.name,
                     ". It requires at least 2D, got shape ", to.shape.ToString()));
  }
  const double area = static_cast<double>(to.shape.Size(2, to.shape.ndim()));
  const double fan_in = static_cast<double>(to.shape[1]) * area;
  const double fan_out = static_cast<double>(to.shape[0]) * area;
  const double fan = factor == kAvg ? (fan_in + fan_out) / 2 : factor == kIn ? fan_in : fan_out;
  if (fan == 0) return absl::OkStatus();  // No elements.
  const double scale = std::sqrt(magnitude / fan);
  distribution == kUniform ? FillUniform(to, scale) : FillNormal(to, scale);
  return absl::OkStatus();
}

struct ConstantParam : Param<ConstantParam> {
  double value;
  static void Fields(Schema<ConstantParam>& s) {
    s.Field("value", &ConstantParam::value).Describe("The value of every element.");
  }
};

struct UniformParam : Param<UniformParam> {
  double scale;
  static void Fields(Schema<UniformParam>& s) {
    s.Field("scale", &UniformParam::scale).Default(0.07).AtLeast(0).Describe("Values lie in (-scale, scale).");
  }
};

struct NormalParam : Param<NormalParam> {
  double sigma;
  static void Fields(Schema<NormalParam>& s) {
    s.Field("sigma", &NormalParam::sigma).Default(0.01).AtLeast(0).Describe("Standard deviation.");
  }
};

struct OrthogonalParam : Param<OrthogonalParam> {
  double scale;
  int rand_type;
  static void Fields(Schema<OrthogonalParam>& s) {
    s.Field("scale", &OrthogonalParam::scale).Default(1.414).Describe("Length of each row (column, if tall).");
    s.Field("rand_type", &OrthogonalParam::rand_type).Enum({{"uniform", kUniform}, {"normal", kGaussian}})
        .Default("uniform").Describe("Distribution of the matrix that is made orthogonal.");
  }
};

struct XavierParam : Param<XavierParam> {
  int rnd_type;
  int factor_type;
  double magnitude;
  static void Fields(Schema<XavierParam>& s) {
    s.Field("rnd_type", &XavierParam::rnd_type).Enum({{"uniform", kUniform}, {"gaussian", kGaussian}})
        .Default("uniform").Describe("Distribution.");
    s.Field("factor_type", &XavierParam::factor_type).Enum({{"avg", kAvg}, {"in", kIn}, {"out", kOut}})
        .Default("avg").Describe("The fan that divides: incoming, outgoing, or their mean.");
    s.Field("magnitude", &XavierParam::magnitude).Default(3.0).AtLeast(0).Describe("scale = sqrt(magnitude / fan).");
  }
};

struct MsraPreluParam : Param<MsraPreluParam> {
  int factor_type;
  double slope;
  static void Fields(Schema<MsraPreluParam>& s) {
    s.Field("factor_type", &MsraPreluParam::factor_type).Enum({{"avg", kAvg}, {"in", kIn}, {"out", kOut}})
        .Default("avg").Describe("The fan that divides: incoming, outgoing, or their mean.");
    s.Field("slope", &MsraPreluParam::slope).Default(0.25).Describe("Of the PReLU that follows.");
  }
};

template <class P, class Fill>
InitializerCatalog::Entry Entry(const char* name, const char* description, Fill fill) {
  return {name, description, P::__FIELDS__(),
          [fill](const AttrDict& attrs, const InitializerTarget& to) -> absl::Status {
            ASSIGN_OR_RETURN(const P p, ParseAttrs<P>(attrs));
            return fill(p, to);
          }};
}

absl::Status Orthogonal(const OrthogonalParam& p, const InitializerTarget& to) {
  p.rand_type == kUniform ? FillUniform(to, 1.0) : FillNormal(to, 1.0);
  const int64_t rows = to.shape.ndim() == 0 ? 1 : to.shape[0];
  const int64_t cols = to.shape.ndim() == 0 ? 1 : to.shape.Size(1, to.shape.ndim());
  return Orthogonalize(to.values, rows, cols, p.scale);
}

}  // namespace

const InitializerCatalog& Initializers() {
  using To = InitializerTarget;
  const auto constant = [](double value) {
    return [value](const NoParam&, const To& to) { return FillConstant(to, value), absl::OkStatus(); };
  };
  static const InitializerCatalog& catalog = *new InitializerCatalog("initializer", {
      Entry<NoParam>("Zero", "0.", constant(0)),
      Entry<NoParam>("One", "1.", constant(1)),
      Entry<ConstantParam>("Constant", "One value everywhere.",
          [](const ConstantParam& p, const To& to) { return FillConstant(to, p.value), absl::OkStatus(); }),
      Entry<UniformParam>("Uniform", "Uniform in (-scale, scale).",
          [](const UniformParam& p, const To& to) { return FillUniform(to, p.scale), absl::OkStatus(); }),
      Entry<NormalParam>("Normal", "Normal with mean 0 and deviation sigma.",
          [](const NormalParam& p, const To& to) { return FillNormal(to, p.sigma), absl::OkStatus(); }),
      Entry<OrthogonalParam>("Orthogonal", "A random matrix with orthogonal rows (columns, if there are more rows).",
                             &Orthogonal),
      Entry<XavierParam>("Xavier", "Glorot and Bengio: scale = sqrt(magnitude / fan).",
          [](const XavierParam& p, const To& to) {
            return FillXavier(to, p.rnd_type, p.factor_type, p.magnitude);
          }),
      Entry<MsraPreluParam>("MSRAPrelu", "He et al.: normal, magnitude 2 / (1 + slope^2).",
          [](const MsraPreluParam& p, const To& to) {
            return FillXavier(to, kGaussian, p.factor_type, 2 / (1 + p.slope * p.slope));
          }),
  });
  return catalog;
}

absl::StatusOr<Spec> ParseInitializer(absl::string_view text) {
  // '["xavier", {"magnitude": 2}]' and 'Xavier(magnitude=2)' differ in punctuation only.
  text = absl::StripAsciiWhitespace(text);
  if (text.empty()) return Spec{};
  const bool json = absl::ConsumePrefix(&text, "[");
  const size_t name_end = text.find_first_of(json ? "," : "(");
  const auto strip = [](absl::string_view s) {
    s = absl::StripAsciiWhitespace(s);
    if (s.size() >= 2 && s.front() == '"' && s.back() == '"') s = s.substr(1, s.size() - 2);
    return s;
  };
  const absl::string_view name = strip(absl::StripSuffix(text.substr(0, name_end), "]"));
  Spec spec;
  for (const auto& entry : Initializers().entries()) {
    if (absl::EqualsIgnoreCase(entry.name, name) || absl::EqualsIgnoreCase(absl::StrCat(entry.name, "s"), name) ||
        (absl::EqualsIgnoreCase(name, "zeros") && entry.name == "Zero")) {
      spec.type = entry.name;
    }
  }
  if (spec.type.empty()) return Initializers().Find(name).status();
  absl::string_view rest = name_end == absl::string_view::npos ? "" : text.substr(name_end + 1);
  const size_t attrs_end = rest.find_last_of(json ? "}" : ")");
  if (!rest.empty() && attrs_end == absl::string_view::npos) {
    return absl::InvalidArgumentError(absl::StrCat("initializer '", Excerpt(text), "' lacks its closing bracket"));
  }
  rest = absl::StripAsciiWhitespace(rest.substr(0, attrs_end));
  if (json) absl::ConsumePrefix(&rest, "{");
  for (absl::string_view pair : absl::StrSplit(rest, ',', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> sides = absl::StrSplit(pair, absl::MaxSplits(json ? ':' : '=', 1));
    if (sides.size() != 2) {
      return absl::InvalidArgumentError(absl::StrCat("initializer '", Excerpt(text), "': want name=value, got '",
                                                     Excerpt(pair), "'"));
    }
    spec.attrs[std::string(strip(sides[0]))] = std::string(strip(sides[1]));
  }
  return spec;
}

Spec InitializerByName(absl::string_view name) {
  const auto ends_with = [name](absl::string_view end) { return absl::EndsWith(name, end); };
  if (ends_with("bias") || ends_with("beta") || ends_with("mean")) return {"Zero", {}};
  if (ends_with("gamma") || ends_with("var")) return {"One", {}};
  return {};
}

}  // namespace gluond
