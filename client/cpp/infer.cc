// Model's published versions, by the open inference protocol.

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "client/cpp/connection.h"
#include "gluond/model.h"
#include "gluond/status_macros.h"

namespace gluond::client {
namespace {

using InferenceService = inference::GRPCInferenceService::Stub;

// The protocol's names of the dtypes.
struct Datatype {
  const char* name;
  DType dtype;
};
constexpr Datatype kDatatypes[] = {{"FP32", DType::kFloat32},  {"FP64", DType::kFloat64}, {"FP16", DType::kFloat16},
                                   {"BF16", DType::kBfloat16}, {"UINT8", DType::kUint8},  {"INT8", DType::kInt8},
                                   {"INT32", DType::kInt32},   {"INT64", DType::kInt64},  {"BOOL", DType::kBool}};

template <class Is>
absl::StatusOr<Datatype> FindDatatype(const std::string& tensor, const Is& is) {
  const auto* const found = std::find_if(std::begin(kDatatypes), std::end(kDatatypes), is);
  if (found != std::end(kDatatypes)) return *found;
  return absl::InvalidArgumentError(absl::StrCat("'", tensor, "' has a dtype that is not both the protocol's and the client's"));
}

}  // namespace

absl::StatusOr<Tensors> Model::Infer(const Tensors& inputs, const std::string& version) const {
  inference::ModelInferRequest request;
  request.set_model_name(name_);
  request.set_model_version(version);
  for (const auto& [name, value] : inputs) {
    const Tensor& tensor = value;
    GLUOND_ASSIGN_OR_RETURN(const Datatype datatype,
                            FindDatatype(name, [&](const Datatype& each) { return each.dtype == tensor.dtype(); }));
    auto* const input = request.add_inputs();
    input->set_name(name);
    input->set_datatype(datatype.name);
    input->mutable_shape()->Add(tensor.shape().begin(), tensor.shape().end());
    request.add_raw_input_contents(tensor.bytes().data(), tensor.bytes().size());
  }
  GLUOND_ASSIGN_OR_RETURN(auto response, connection_->Call(&InferenceService::ModelInfer, request, timeout_));
  if (response.outputs_size() != response.raw_output_contents_size()) {
    return absl::DataLossError(absl::StrCat("'", name_, "': ", response.outputs_size(), " outputs came with ",
                                            response.raw_output_contents_size(), " values"));
  }
  Tensors outputs;
  for (int i = 0; i < response.outputs_size(); ++i) {
    const auto& output = response.outputs(i);
    GLUOND_ASSIGN_OR_RETURN(const Datatype datatype,
                            FindDatatype(output.name(), [&](const Datatype& each) { return output.datatype() == each.name; }));
    GLUOND_ASSIGN_OR_RETURN(outputs[output.name()],
                            Tensor::FromBytes(datatype.dtype, Shape(output.shape().begin(), output.shape().end()),
                                              std::move(*response.mutable_raw_output_contents(i))));
  }
  return outputs;
}

absl::StatusOr<ModelMetadataResponse> Model::DescribeVersion(const std::string& version) const {
  inference::ModelMetadataRequest request;
  request.set_name(name_);
  request.set_version(version);
  return Described(connection_->Call(&InferenceService::ModelMetadata, request, timeout_));
}

}  // namespace gluond::client
