// Dense, Embedding, Flatten, Dropout, Identity, and Lambda: any operator by name.

#include "engine/core/op.h"
#include "engine/nn/blocks.h"
#include "engine/nn/initializer.h"
#include "engine/nn/node_spec.h"

namespace gluond {
namespace {

struct DenseParam : Param<DenseParam> {
  int64_t units;
  std::optional<std::string> activation;
  bool use_bias;
  bool flatten;
  DType dtype;
  std::optional<std::string> weight_initializer;
  std::optional<std::string> bias_initializer;
  int64_t in_units;
  static void Fields(Schema<DenseParam>& s) {
    s.Field("units", &DenseParam::units).AtLeast(1).Describe("Outputs.");
    s.Field("activation", &DenseParam::activation).Default(std::nullopt).Describe("relu, sigmoid, tanh, softrelu, softsign.");
    s.Field("use_bias", &DenseParam::use_bias).Default(true).Describe("Adds a bias.");
    s.Field("flatten", &DenseParam::flatten)
        .Default(true)
        .Describe("All axes but the first are one; otherwise the last axis is transformed.");
    s.Field("dtype", &DenseParam::dtype).Default(DType::kFloat32).Describe("Of weight and bias.");
    s.Field("weight_initializer", &DenseParam::weight_initializer)
        .Default(std::nullopt)
        .Describe("As 'Xavier(magnitude=2)'; None: the model's.");
    s.Field("bias_initializer", &DenseParam::bias_initializer).Default("zeros").Describe("As weight_initializer.");
    s.Field("in_units", &DenseParam::in_units).Default(int64_t{0}).AtLeast(0).Describe("Inputs; 0: from the first batch.");
  }
};

// y = act(x W' + b).
absl::StatusOr<NodeEntry> Dense(const DenseParam& p, const BlockScope& scope, NodeEntry x) {
  ASSIGN_OR_RETURN(NodeEntry weight,
                   LayerParameter(scope, "weight", {p.units, SizeOrUnknown(p.in_units)}, p.dtype, p.weight_initializer));
  std::vector<NodeEntry> inputs = {std::move(x), std::move(weight)};
  if (p.use_bias) {
    ASSIGN_OR_RETURN(NodeEntry bias, LayerParameter(scope, "bias", {p.units}, p.dtype, p.bias_initializer));
    inputs.push_back(std::move(bias));
  }
  ASSIGN_OR_RETURN(NodeEntry y,
                   scope.Call("FullyConnected", "fwd", std::move(inputs),
                              {{"num_hidden", Text(p.units)}, {"no_bias", Text(!p.use_bias)}, {"flatten", Text(p.flatten)}}));
  return Activate(scope, p.activation, std::move(y));
}

struct EmbeddingFields {
  int64_t input_dim;
  int64_t output_dim;
  DType dtype;
  std::optional<std::string> weight_initializer;
};
template <class P>
void AddEmbeddingFields(Schema<P>& s) {
  s.template Field<int64_t>("input_dim", &P::input_dim).AtLeast(1).Describe("Size of the vocabulary.");
  s.template Field<int64_t>("output_dim", &P::output_dim).AtLeast(1).Describe("Size of a vector.");
  s.template Field<DType>("dtype", &P::dtype).Default(DType::kFloat32).Describe("Of the vectors.");
  s.template Field<std::optional<std::string>>("weight_initializer", &P::weight_initializer)
      .Default(std::nullopt)
      .Describe("As 'Normal(sigma=0.1)'; None: the model's.");
}

struct EmbeddingParam : Param<EmbeddingParam>, EmbeddingFields {
  bool sparse_grad;
  static void Fields(Schema<EmbeddingParam>& s) {
    AddEmbeddingFields(s);
    s.Field("sparse_grad", &EmbeddingParam::sparse_grad).Default(false).Describe("Not used: gradients are dense.");
  }
};
struct SparseEmbeddingParam : Param<SparseEmbeddingParam>, EmbeddingFields {
  static void Fields(Schema<SparseEmbeddingParam>& s) { AddEmbeddingFields(s); }
};

absl::StatusOr<NodeEntry> Embedding(const EmbeddingFields& p, const BlockScope& scope, NodeEntry x) {
  ASSIGN_OR_RETURN(NodeEntry weight, LayerParameter(scope, "weight", {p.input_dim, p.output_dim}, p.dtype, p.weight_initializer));
  return scope.Call("Embedding", "fwd", {std::move(x), std::move(weight)},
                    {{"input_dim", Text(p.input_dim)}, {"output_dim", Text(p.output_dim)}, {"dtype", Text(p.dtype)}});
}

struct DropoutParam : Param<DropoutParam> {
  double rate;
  std::vector<int64_t> axes;
  static void Fields(Schema<DropoutParam>& s) {
    s.Field("rate", &DropoutParam::rate).Range(0, 1).Describe("Share of the elements that training zeroes.");
    s.Field("axes", &DropoutParam::axes).Default(std::vector<int64_t>{}).Describe("Axes that share one mask.");
  }
};

absl::StatusOr<NodeEntry> Dropout(const DropoutParam& p, const BlockScope& scope, NodeEntry x) {
  if (p.rate == 0) return x;
  return scope.Call("Dropout", "fwd", {std::move(x)}, {{"p", Text(p.rate)}, {"axes", Text(p.axes)}});
}

// The operator's first input is x; its other inputs become parameters of the same names.
absl::StatusOr<NodeEntry> Lambda(const BlockSpec& block, const BlockScope& scope, NodeEntry x, const BlockChildren&) {
  if (!block.children.empty()) return absl::InvalidArgumentError("takes no children");
  NodeAttrs attrs;
  attrs.dict = block.attrs;
  const auto function = attrs.dict.find("function");
  if (function == attrs.dict.end()) {
    return absl::InvalidArgumentError("required attribute 'function' (the name of an operator) is missing");
  }
  const std::string name = function->second;
  attrs.dict.erase(function);
  const AttrDict dict = attrs.dict;
  ASSIGN_OR_RETURN(const Op* op, OfferedOp(name));
  RETURN_IF_ERROR(op->ParseAttrs(&attrs, 1));
  std::vector<NodeEntry> inputs = {std::move(x)};
  const uint32_t count = op->num_inputs(attrs);
  if (count != kVarg) {
    const std::vector<std::string> names = op->input_names(attrs, count);
    for (uint32_t i = 1; i < count; ++i) {
      Parameter parameter;
      parameter.initializer = InitializerByName(names[i]);
      inputs.push_back(scope.NewParameter(names[i], std::move(parameter)));
    }
    if (count == 0) inputs.clear();
  }
  return scope.Call(name, "fwd", std::move(inputs), dict);
}

}  // namespace

std::vector<BlockCatalog::Entry> BasicBlocks() {
  const std::vector<ArgumentDoc> function = {
      {"function", "string", true, "", "The operator; all other attributes are passed to it."}};
  return {
      Layer<DenseParam>("Dense", "y = activation(x weight' + bias).", &Dense),
      Layer<EmbeddingParam>("Embedding", "Looks up the vector of each index.", &Embedding),
      Layer<SparseEmbeddingParam>("SparseEmbedding", "Embedding; gradients here are dense.", &Embedding),
      Layer<NoParam>(
          "Flatten", "All axes but the first become one.",
          [](const NoParam&, const BlockScope& scope, NodeEntry x) { return scope.Call("Flatten", "fwd", {std::move(x)}); }),
      Layer<DropoutParam>("Dropout", "In training, zeroes a share of the elements and scales up the others.", &Dropout),
      Layer<NoParam>("Identity", "Its input: a branch of HybridConcurrent that skips.",
                     [](const NoParam&, const BlockScope&, NodeEntry x) -> absl::StatusOr<NodeEntry> { return x; }),
      {"Lambda", "Any operator by name. Its first input is the block's; others become parameters.", function, &Lambda},
      {"HybridLambda", "The same as Lambda.", function, &Lambda},
  };
}

}  // namespace gluond
