#include "engine/nn/initializer.h"

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/core/status_macros.h"
#include "engine/nn/orthogonal.h"
#include "engine/runtime/random_stream.h"
#include "engine/runtime/transfer.h"

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
    return absl::InvalidArgumentError(absl::StrCat("Xavier initializer cannot be applied to vector ", to.name,
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
  std::vector<double> value;
  static void Fields(Schema<ConstantParam>& s) {
    s.Field("value", &ConstantParam::value).Describe("The value of every element, or all elements' values, the last axis first.");
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
    s.Field("rand_type", &OrthogonalParam::rand_type)
        .Enum({{"uniform", kUniform}, {"normal", kGaussian}})
        .Default("uniform")
        .Describe("Distribution of the matrix that is made orthogonal.");
  }
};

struct XavierParam : Param<XavierParam> {
  int rnd_type;
  int factor_type;
  double magnitude;
  static void Fields(Schema<XavierParam>& s) {
    s.Field("rnd_type", &XavierParam::rnd_type)
        .Enum({{"uniform", kUniform}, {"gaussian", kGaussian}})
        .Default("uniform")
        .Describe("Distribution.");
    s.Field("factor_type", &XavierParam::factor_type)
        .Enum({{"avg", kAvg}, {"in", kIn}, {"out", kOut}})
        .Default("avg")
        .Describe("The fan that divides: incoming, outgoing, or their mean.");
    s.Field("magnitude", &XavierParam::magnitude).Default(3.0).AtLeast(0).Describe("scale = sqrt(magnitude / fan).");
  }
};

struct MsraPreluParam : Param<MsraPreluParam> {
  int factor_type;
  double slope;
  static void Fields(Schema<MsraPreluParam>& s) {
    s.Field("factor_type", &MsraPreluParam::factor_type)
        .Enum({{"avg", kAvg}, {"in", kIn}, {"out", kOut}})
        .Default("avg")
        .Describe("The fan that divides: incoming, outgoing, or their mean.");
    s.Field("slope", &MsraPreluParam::slope).Default(0.25).Describe("Of the PReLU that follows.");
  }
};

struct LstmBiasParam : Param<LstmBiasParam> {
  double forget_bias;
  static void Fields(Schema<LstmBiasParam>& s) {
    s.Field("forget_bias", &LstmBiasParam::forget_bias).Default(1.0).Describe("Of the forget gates, the second quarter.");
  }
};

enum RnnMode { kRnnRelu, kRnnTanh, kLstm, kGru };

struct FusedRnnParam : Param<FusedRnnParam> {
  std::string init;
  int64_t num_hidden, num_layers;
  int mode;
  bool bidirectional;
  double forget_bias;
  static void Fields(Schema<FusedRnnParam>& s) {
    using P = FusedRnnParam;
    s.Field("init", &P::init).Describe("Initializer of the gates' matrices, as 'Xavier(magnitude=2)'.");
    s.Field("num_hidden", &P::num_hidden).Range(1, 1 << 20).Describe("The operator's state_size.");
    s.Field("num_layers", &P::num_layers).Range(1, 1 << 10).Describe("The operator's num_layers.");
    s.Field("mode", &P::mode)
        .Enum({{"rnn_relu", kRnnRelu}, {"rnn_tanh", kRnnTanh}, {"lstm", kLstm}, {"gru", kGru}})
        .Describe("The operator's mode.");
    s.Field("bidirectional", &P::bidirectional).Default(false).Describe("The operator's bidirectional.");
    s.Field("forget_bias", &P::forget_bias).Default(1.0).Describe("Biases of the forget gates; all others are 0.");
  }
};

absl::Status WrongShape(const char* initializer, const InitializerTarget& to, absl::string_view want) {
  return absl::InvalidArgumentError(
      absl::StrCat(initializer, " initializer cannot be applied to ", to.name, " of shape ", to.shape.ToString(), "; want ", want));
}

absl::Status Constant(const ConstantParam& p, const InitializerTarget& to) {
  if (p.value.size() == 1) return FillConstant(to, p.value[0]), absl::OkStatus();
  if (p.value.size() != to.values.size()) {
    return WrongShape("Constant", to, absl::StrCat("one number or ", to.values.size(), ", not ", p.value.size()));
  }
  for (size_t i = 0; i < p.value.size(); ++i) to.values[i] = static_cast<float>(p.value[i]);
  return absl::OkStatus();
}

// A Deconvolution with this weight enlarges by bilinear interpolation. As in MXNet, the width decides for both axes.
absl::Status Bilinear(const NoParam&, const InitializerTarget& to) {
  if (to.shape.ndim() < 2) return WrongShape("Bilinear", to, "(..., height, width)");
  const int64_t height = to.shape[to.shape.ndim() - 2], width = to.shape[to.shape.ndim() - 1];
  const double half = std::ceil(static_cast<double>(width) / 2);
  const double center = (2 * half - 1 - std::fmod(half, 2)) / (2 * half);
  const auto weight = [&](int64_t i) { return 1 - std::abs(static_cast<double>(i) / half - center); };
  for (size_t i = 0; i < to.values.size(); ++i) {
    const int64_t at = static_cast<int64_t>(i);
    to.values[i] = static_cast<float>(weight(at / width % height) * weight(at % width));
  }
  return absl::OkStatus();
}

absl::Status LstmBias(const LstmBiasParam& p, const InitializerTarget& to) {
  if (to.shape.ndim() < 1) return WrongShape("LSTMBias", to, "(4 hidden_size)");
  FillConstant(to, 0);
  const size_t quarter = static_cast<size_t>(to.shape[0] / 4 * to.shape.Size(1, to.shape.ndim()));
  for (float& v : to.values.subspan(quarter, quarter)) v = static_cast<float>(p.forget_bias);
  return absl::OkStatus();
}

// The one vector of the RNN operator's parameters: the matrices of all gates, then their biases, two for each gate.
absl::Status FusedRnn(const FusedRnnParam& p, const InitializerTarget& to) {
  ASSIGN_OR_RETURN(const Spec init, ParseInitializer(p.init));
  const int64_t gates = p.mode == kLstm ? 4 : p.mode == kGru ? 3 : 1;
  const int64_t directions = p.bidirectional ? 2 : 1, hidden = p.num_hidden;
  const int64_t rows = directions * gates * hidden;
  const int64_t later = (p.num_layers - 1) * rows * (directions * hidden + hidden + 2);
  const int64_t total = static_cast<int64_t>(to.values.size()), first = (total - later) / rows - hidden - 2;
  if (to.shape.ndim() != 1 || first < 1 || later + rows * (first + hidden + 2) != total) {
    return WrongShape("FusedRNN", to, absl::StrCat("(", later + rows * (hidden + 2), " + ", rows, " input_size,)"));
  }
  InitializerTarget gate = to;
  size_t at = 0;
  for (int64_t i = 0; i < p.num_layers * directions; ++i) {
    for (const int64_t columns : {i < directions ? first : directions * hidden, hidden}) {
      for (int64_t g = 0; g < gates; ++g) {
        gate.shape = {hidden, columns};
        gate.values = to.values.subspan(at, static_cast<size_t>(hidden * columns));
        ++gate.random.run;  // Numbers of its own.
        RETURN_IF_ERROR(Initializers().Make(init.type, init.attrs, gate));
        at += gate.values.size();
      }
    }
  }
  const size_t of_gate = static_cast<size_t>(hidden);
  for (size_t i = 0; at < to.values.size(); at += of_gate, ++i) {
    const bool forget = p.mode == kLstm && i % 4 == 1;
    for (float& v : to.values.subspan(at, of_gate)) v = forget ? static_cast<float>(p.forget_bias) : 0.0f;
  }
  return absl::OkStatus();
}

template <class P, class Fill>
InitializerCatalog::Entry Entry(const char* name, const char* description, Fill fill) {
  return {name, description, P::__FIELDS__(), [fill](const AttrDict& attrs, const InitializerTarget& to) -> absl::Status {
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
  static const InitializerCatalog& catalog = *new InitializerCatalog(
      "initializer",
      {
          Entry<NoParam>("Zero", "0.", constant(0)),
          Entry<NoParam>("One", "1.", constant(1)),
          Entry<ConstantParam>("Constant", "One value everywhere, or given ones.", &Constant),
          Entry<UniformParam>("Uniform", "Uniform in (-scale, scale).",
                              [](const UniformParam& p, const To& to) { return FillUniform(to, p.scale), absl::OkStatus(); }),
          Entry<NormalParam>("Normal", "Normal with mean 0 and deviation sigma.",
                             [](const NormalParam& p, const To& to) { return FillNormal(to, p.sigma), absl::OkStatus(); }),
          Entry<OrthogonalParam>("Orthogonal", "A random matrix with orthogonal rows (columns, if there are more rows).",
                                 &Orthogonal),
          Entry<XavierParam>(
              "Xavier", "Glorot and Bengio: scale = sqrt(magnitude / fan).",
              [](const XavierParam& p, const To& to) { return FillXavier(to, p.rnd_type, p.factor_type, p.magnitude); }),
          Entry<MsraPreluParam>("MSRAPrelu", "He et al.: normal, magnitude 2 / (1 + slope^2).",
                                [](const MsraPreluParam& p, const To& to) {
                                  return FillXavier(to, kGaussian, p.factor_type, 2 / (1 + p.slope * p.slope));
                                }),
          Entry<NoParam>("Bilinear", "The weight of a Deconvolution that enlarges by bilinear interpolation.", &Bilinear),
          Entry<LstmBiasParam>("LSTMBias", "The bias of an LSTM: 0, but for the forget gates.", &LstmBias),
          Entry<FusedRnnParam>("FusedRNN", "The RNN operator's parameters: matrices by another initializer, biases.", &FusedRnn),
      });
  return catalog;
}

Spec InitializerByName(absl::string_view name) {
  const auto ends_with = [name](absl::string_view end) { return absl::EndsWith(name, end); };
  for (absl::string_view zero : {"bias", "beta", "mean", "min", "moving_avg", "moving_inv_var"}) {
    if (ends_with(zero)) return {"Zero", {}};
  }
  for (absl::string_view one : {"gamma", "var", "max"}) {
    if (ends_with(one)) return {"One", {}};
  }
  return {};
}

absl::StatusOr<Tensor> InitialValue(const Spec& initializer, absl::string_view name, const Shape& shape, DType dtype, uint64_t seed,
                                    Allocator& host) {
  ASSIGN_OR_RETURN(Tensor values, Tensor::Empty(host, shape, DType::kFloat32));
  const InitializerTarget target = {name, shape, RandomStream(seed, RandomDomain::kParameter, NameHash(name)),
                                    absl::MakeSpan(values.data<float>(), static_cast<size_t>(values.Size()))};
  RETURN_IF_ERROR(
      Annotate(Initializers().Make(initializer.type, initializer.attrs, target), absl::StrCat("parameter '", name, "'")));
  return AsType(values, dtype, host);
}

}  // namespace gluond
