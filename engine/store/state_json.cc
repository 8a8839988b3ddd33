#include "engine/store/state_json.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/core/custom_spec.h"
#include "engine/core/status_macros.h"
#include "engine/core/text.h"
#include "engine/nn/node_spec.h"

namespace gluond {
namespace {

Json ToJson(const AttrDict& attrs) {
  Json json = Json::Object();
  for (const auto& [key, value] : attrs) json.Set(key, value);
  return json;
}
absl::Status Read(const Json& parent, absl::string_view key, AttrDict* attrs) {
  ASSIGN_OR_RETURN(const Json* json, parent.GetChild(key, Json::kObject));
  for (const auto& [name, value] : json->members()) RETURN_IF_ERROR(value.Get(&(*attrs)[name]));
  return absl::OkStatus();
}

Json ToJson(const Spec& spec) {
  Json json = Json::Object();
  json.Set("type", spec.type);
  json.Set("attrs", ToJson(spec.attrs));
  return json;
}
absl::Status Read(const Json& json, Spec* spec) {
  RETURN_IF_ERROR(json.Get("type", &spec->type));
  return Read(json, "attrs", &spec->attrs);
}
absl::Status Read(const Json& parent, absl::string_view key, Spec* spec) {
  ASSIGN_OR_RETURN(const Json* json, parent.GetChild(key, Json::kObject));
  return Read(*json, spec);
}

// null: the rank is unknown.
Json ToJson(const Shape& shape) {
  if (!shape.rank_known()) return Json();
  Json json = Json::Array();
  for (int64_t dim : shape.dims()) json.Append(dim);
  return json;
}
absl::Status Read(const Json& parent, absl::string_view key, Shape* shape) {
  const Json* json = parent.Find(key);
  if (json != nullptr && json->kind() == Json::kNull) return *shape = Shape(), absl::OkStatus();
  ASSIGN_OR_RETURN(json, parent.GetChild(key, Json::kArray));
  std::vector<int64_t> dims;
  for (const Json& dim : json->elements()) RETURN_IF_ERROR(dim.Get(&dims.emplace_back()));
  ASSIGN_OR_RETURN(*shape, Shape::FromDims(dims));
  return absl::OkStatus();
}

Json ToJson(DType dtype) { return Json(std::string(Name(dtype))); }
absl::Status Read(const Json& parent, absl::string_view key, DType* dtype) {
  std::string name;
  RETURN_IF_ERROR(parent.Get(key, &name));
  ASSIGN_OR_RETURN(*dtype, ParseDType(name));
  return absl::OkStatus();
}

Json ToJson(const Parameter& p) {
  Json json = Json::Object();
  json.Set("name", p.name);
  json.Set("shape", ToJson(p.shape));
  json.Set("dtype", ToJson(p.dtype));
  json.Set("grad_req", std::string(Name(p.grad_req)));
  json.Set("lr_mult", p.lr_mult);
  json.Set("wd_mult", p.wd_mult);
  json.Set("differentiable", p.differentiable);
  json.Set("auxiliary", p.auxiliary);
  json.Set("initializer", ToJson(p.initializer));
  if (!p.deferred.type.empty()) json.Set("deferred", ToJson(p.deferred));
  return json;
}
absl::Status Read(const Json& json, Parameter* p) {
  std::string grad_req;
  RETURN_IF_ERROR(json.Get("name", &p->name));
  RETURN_IF_ERROR(Read(json, "shape", &p->shape));
  RETURN_IF_ERROR(Read(json, "dtype", &p->dtype));
  RETURN_IF_ERROR(json.Get("grad_req", &grad_req));
  ASSIGN_OR_RETURN(p->grad_req, ParseGradReq(grad_req));
  RETURN_IF_ERROR(json.Get("lr_mult", &p->lr_mult));
  RETURN_IF_ERROR(json.Get("wd_mult", &p->wd_mult));
  RETURN_IF_ERROR(json.Get("differentiable", &p->differentiable));
  RETURN_IF_ERROR(json.Get("auxiliary", &p->auxiliary));
  if (json.Find("deferred") != nullptr) RETURN_IF_ERROR(Read(json, "deferred", &p->deferred));
  return Read(json, "initializer", &p->initializer);
}

Json ToJson(const EntrySpec& entry) {
  Json json = Json::Array();
  json.Append(entry.node);
  json.Append(uint64_t{entry.index});
  return json;
}
absl::Status Read(const Json& json, EntrySpec* entry) {
  uint64_t index = 0;
  if (json.elements().size() != 2) return absl::InvalidArgumentError("an entry is [node, index]");
  RETURN_IF_ERROR(json.elements()[0].Get(&entry->node));
  RETURN_IF_ERROR(json.elements()[1].Get(&index));
  entry->index = static_cast<uint32_t>(std::min<uint64_t>(index, UINT32_MAX));
  return absl::OkStatus();
}

// A custom operator as checkpoints held it before CustomSpec: an attribute for each fact, and one that names the client,
// which may be a secret and is dropped. `__arguments__` and the like have names with commas between; `__dependencies__`
// are CustomSpec's numbers; `__rules__` names what the server infers itself. Without `__scope__` it is a shared one.
absl::Status ReadOldCustom(AttrDict* attrs) {
  CustomSpec spec;
  spec.arguments = {"data"};
  bool is_old = false;
  const auto take = [&](const char* key, auto read) {
    const auto found = attrs->find(key);
    if (found == attrs->end()) return;
    is_old = true;
    read(std::vector<std::string>(absl::StrSplit(found->second, ',', absl::SkipEmpty())));
    attrs->erase(found);
  };
  const auto into = [](std::vector<std::string>* names) {
    return [names](std::vector<std::string> found) { *names = std::move(found); };
  };
  bool numbers_ok = true;
  spec.shared = !attrs->contains("__scope__");
  take("__scope__", [](const std::vector<std::string>&) {});
  take("__arguments__", into(&spec.arguments));
  take("__outputs__", into(&spec.outputs));
  take("__auxiliary__", into(&spec.auxiliary));
  take("__dependencies__", [&](const std::vector<std::string>& numbers) {
    spec.dependencies.emplace();
    for (const std::string& number : numbers) {
      numbers_ok = absl::SimpleAtoi(number, &spec.dependencies->emplace_back()) && numbers_ok;
    }
  });
  take("__rules__", [&](const std::vector<std::string>& rules) {
    for (const std::string& rule : rules) (rule == "shape" ? spec.same_shape : spec.same_dtype) = true;
  });
  if (!is_old) return absl::OkStatus();
  if (!numbers_ok) return absl::InvalidArgumentError("'__dependencies__' has something else than numbers");
  if (const auto version = attrs->find("__version__"); version != attrs->end()) {
    (void)absl::SimpleAtoi(version->second, &spec.version);
    attrs->erase(version);
  }
  RETURN_IF_ERROR(spec.Check());
  (*attrs)[kCustomAttribute] = spec.ToText();
  return absl::OkStatus();
}

Json ToJson(const NodeSpec& node) {
  Json json = Json::Object();
  json.Set("op", node.op);
  json.Set("name", node.name);
  Json inputs = Json::Array();
  for (const EntrySpec& input : node.inputs) inputs.Append(ToJson(input));
  json.Set("inputs", std::move(inputs));
  json.Set("attrs", ToJson(node.attrs));
  return json;
}
absl::Status Read(const Json& json, NodeSpec* node) {
  RETURN_IF_ERROR(json.Get("op", &node->op));
  RETURN_IF_ERROR(json.Get("name", &node->name));
  ASSIGN_OR_RETURN(const Json* inputs, json.GetChild("inputs", Json::kArray));
  for (const Json& input : inputs->elements()) RETURN_IF_ERROR(Read(input, &node->inputs.emplace_back()));
  RETURN_IF_ERROR(Read(json, "attrs", &node->attrs));
  return node->op == "Custom" ? ReadOldCustom(&node->attrs) : absl::OkStatus();
}

Json ToJson(const ModelInput& input) {
  Json json = Json::Object();
  json.Set("name", input.name);
  json.Set("shape", ToJson(input.shape));
  json.Set("dtype", ToJson(input.dtype));
  return json;
}
absl::Status Read(const Json& json, ModelInput* input) {
  RETURN_IF_ERROR(json.Get("name", &input->name));
  RETURN_IF_ERROR(Read(json, "shape", &input->shape));
  return Read(json, "dtype", &input->dtype);
}

// A list of elements with a ToJson and a Read.
template <class T>
Json ListToJson(const std::vector<T>& list) {
  Json json = Json::Array();
  for (const T& element : list) json.Append(ToJson(element));
  return json;
}
template <class T>
absl::Status ReadList(const Json& parent, absl::string_view key, std::vector<T>* list) {
  ASSIGN_OR_RETURN(const Json* json, parent.GetChild(key, Json::kArray));
  for (const Json& element : json->elements()) {
    RETURN_IF_ERROR(Annotate(Read(element, &list->emplace_back()), absl::StrCat(key, "[", list->size() - 1, "]")));
  }
  return absl::OkStatus();
}

}  // namespace

Json DefinitionToJson(const ModelDefinition& definition) {
  std::vector<NodeSpec> nodes = ListNodes(definition.outputs);
  absl::flat_hash_set<std::string> listed;
  for (const NodeSpec& node : nodes) listed.insert(node.name);
  for (const Parameter& p : definition.parameters) {
    if (!listed.contains(p.name)) nodes.push_back({"", p.name});  // No output depends on it.
  }
  Json outputs = Json::Array();
  for (size_t i = 0; i < definition.outputs.size(); ++i) {
    Json output = ToJson(EntrySpec{definition.outputs[i].node->name(), definition.outputs[i].index});
    output.Append(definition.output_names[i]);
    outputs.Append(std::move(output));
  }
  Json json = Json::Object();
  json.Set("inputs", ListToJson(definition.inputs));
  json.Set("outputs", std::move(outputs));
  json.Set("parameters", ListToJson(definition.parameters));
  json.Set("nodes", ListToJson(nodes));
  return json;
}

absl::StatusOr<ModelDefinition> DefinitionFromJson(const Json& json) {
  std::vector<ModelInput> inputs;
  std::vector<Parameter> parameters;
  std::vector<NodeSpec> nodes;
  std::vector<EntrySpec> entries;
  std::vector<std::string> names;
  RETURN_IF_ERROR(ReadList(json, "inputs", &inputs));
  RETURN_IF_ERROR(ReadList(json, "parameters", &parameters));
  RETURN_IF_ERROR(ReadList(json, "nodes", &nodes));
  ASSIGN_OR_RETURN(const Json* outputs, json.GetChild("outputs", Json::kArray));
  for (const Json& output : outputs->elements()) {
    if (output.elements().size() != 3) return absl::InvalidArgumentError("an output is [node, index, name]");
    Json entry = Json::Array();
    entry.Append(output.elements()[0]);
    entry.Append(output.elements()[1]);
    RETURN_IF_ERROR(Read(entry, &entries.emplace_back()));
    RETURN_IF_ERROR(output.elements()[2].Get(&names.emplace_back()));
  }
  if (entries.empty()) return absl::InvalidArgumentError("'outputs' is empty");
  ASSIGN_OR_RETURN(ModelDefinition definition, ExpandNodes(nodes, std::move(inputs), entries, parameters));
  definition.output_names = std::move(names);
  return definition;
}

Json RandomToJson(const RandomState& random) {
  Json json = Json::Object();
  json.Set("seed", random.seed);
  json.Set("runs", uint64_t{random.runs});
  return json;
}

absl::StatusOr<RandomState> RandomFromJson(const Json& json) {
  RandomState random;
  uint64_t runs = 0;
  RETURN_IF_ERROR(json.Get("seed", &random.seed));
  RETURN_IF_ERROR(json.Get("runs", &runs));
  if (runs > UINT32_MAX) return absl::InvalidArgumentError(absl::StrCat("'runs' is ", runs, ", more than 32 bits"));
  random.runs = static_cast<uint32_t>(runs);
  return random;
}

Json TrainerToJson(const TrainerState& state) {
  const TrainerOptions& options = state.options;
  Json json = Json::Object();
  json.Set("loss", ToJson(options.loss));
  json.Set("prediction", options.prediction);
  json.Set("label_dtype", ToJson(options.label_dtype));
  json.Set("optimizer", ToJson(options.optimizer));
  json.Set("lr_schedule", ToJson(options.lr_schedule));
  json.Set("metrics", ListToJson(options.metrics));
  json.Set("clip_global_norm", options.clip_global_norm);
  json.Set("skip_nonfinite", options.skip_nonfinite);
  json.Set("report_norm", options.report_norm);
  json.Set("step", state.step);
  json.Set("learning_rate", state.learning_rate.has_value() ? Json(*state.learning_rate) : Json());
  Json position = Json::Object();
  position.Set("seed", state.position.seed);
  position.Set("epoch", state.position.epoch);
  position.Set("row", state.position.row);
  json.Set("position", std::move(position));
  Json updates = Json::Object();
  for (const auto& [name, count] : state.updates) updates.Set(name, count);
  json.Set("updates", std::move(updates));
  return json;
}

absl::StatusOr<TrainerState> TrainerFromJson(const Json& json) {
  TrainerState state;
  TrainerOptions& options = state.options;
  RETURN_IF_ERROR(Read(json, "loss", &options.loss));
  RETURN_IF_ERROR(json.Get("prediction", &options.prediction));
  RETURN_IF_ERROR(Read(json, "label_dtype", &options.label_dtype));
  RETURN_IF_ERROR(Read(json, "optimizer", &options.optimizer));
  RETURN_IF_ERROR(Read(json, "lr_schedule", &options.lr_schedule));
  RETURN_IF_ERROR(ReadList(json, "metrics", &options.metrics));
  RETURN_IF_ERROR(json.Get("clip_global_norm", &options.clip_global_norm));
  RETURN_IF_ERROR(json.Get("skip_nonfinite", &options.skip_nonfinite));
  if (json.Find("report_norm") != nullptr) RETURN_IF_ERROR(json.Get("report_norm", &options.report_norm));
  RETURN_IF_ERROR(json.Get("step", &state.step));
  const Json* learning_rate = json.Find("learning_rate");
  if (learning_rate != nullptr && learning_rate->kind() != Json::kNull) {
    RETURN_IF_ERROR(learning_rate->Get(&state.learning_rate.emplace()));
  }
  ASSIGN_OR_RETURN(const Json* position, json.GetChild("position", Json::kObject));
  RETURN_IF_ERROR(position->Get("seed", &state.position.seed));
  RETURN_IF_ERROR(position->Get("epoch", &state.position.epoch));
  RETURN_IF_ERROR(position->Get("row", &state.position.row));
  bool negative = state.step < 0 || state.position.row < 0;
  ASSIGN_OR_RETURN(const Json* updates, json.GetChild("updates", Json::kObject));
  for (const auto& [name, count] : updates->members()) {
    state.updates.emplace_back(name, 0);
    RETURN_IF_ERROR(Annotate(count.Get(&state.updates.back().second), absl::StrCat("updates of ", Excerpt(name))));
    negative = negative || state.updates.back().second < 0;
  }
  if (negative) return absl::InvalidArgumentError("a number of steps, updates or rows is negative");
  return state;
}

}  // namespace gluond
