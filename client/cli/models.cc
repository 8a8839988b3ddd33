// gluond models: lists the models that the server holds.

#include <iostream>

#include "absl/strings/str_cat.h"
#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "gluond/status_macros.h"

namespace gluond::cli {
namespace {

void Describe(const client::ModelDescription& model) {
  std::cout << model.name << " on " << model.device << ": " << model.node_count << " nodes, " << model.parameter_elements
            << " parameters, " << Bytes(model.tensor_bytes) << ", "
            << (model.has_trainer ? absl::StrCat("trained for ", model.step, " steps") : std::string("no trainer"))
            << (model.placement.group
                    ? absl::StrCat(", by a group of servers in ", model.placement.virtual_shards.value_or(0), " virtual shards")
                    : "")
            << "\n\n";
  Table rows = {{"name", "kind", "shape", "dtype", "state"}};
  const auto add = [&](const auto& variables, const std::string& kind, bool has_value) {
    for (const client::Variable& variable : variables) {
      rows.push_back({variable.name, kind.empty() ? client::ToString(variable.kind) : kind, client::ToString(variable.shape),
                      client::ToString(variable.dtype.value_or(client::DType::kFloat32)),
                      !has_value             ? ""
                      : variable.initialized ? "initialized"
                                             : "without value"});
    }
  };
  add(model.inputs, "INPUT", false);
  add(model.parameters, "", true);
  add(model.outputs, "OUTPUT", false);
  std::cout << Aligned(rows);
}

}  // namespace

absl::Status Models(const Arguments& arguments) {
  std::string name;
  bool erase = false, json = false;
  ServerOptions server;
  Options options("gluond models", "Lists the models of a server, describes one or deletes it.");
  options.AddExample("gluond models");
  options.AddExample("gluond models lenet");
  options.AddExample("gluond models lenet --delete");
  options.AddPositional("NAME", &name, "The model to describe with inputs, outputs and parameters.");
  options.Add("delete", &erase, "Deletes the model NAME, with its trainer. Its checkpoints stay.");
  AddJson(&options, &json);
  server.AddTo(&options);
  GLUOND_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  if (!go_on) return absl::OkStatus();
  if (erase && name.empty()) {
    return options.Fail("--delete wants the NAME of a model, and `gluond models` lists them");
  }

  GLUOND_ASSIGN_OR_RETURN(const client::Client client, server.Connect());
  if (erase) {
    GLUOND_RETURN_IF_ERROR(client.GetModel(name).Delete());
    std::cout << "deleted model " << name << "\n";
    return absl::OkStatus();
  }
  if (!name.empty()) {
    GLUOND_ASSIGN_OR_RETURN(const client::ModelDescription model, client.GetModel(name).Describe());
    if (json) {
      PrintJson(std::vector<client::ModelDescription>{model});
      return absl::OkStatus();
    }
    Describe(model);
    return absl::OkStatus();
  }
  GLUOND_ASSIGN_OR_RETURN(const auto models, client.ListModels());
  if (json) {
    PrintJson(models);
    return absl::OkStatus();
  }
  Table rows = {{"model", "device", "parameters", "step", "memory"}};
  for (const client::ModelDescription& model : models) {
    rows.push_back({model.name, model.device, absl::StrCat(model.parameter_elements),
                    model.has_trainer ? absl::StrCat(model.step) : "-", Bytes(model.tensor_bytes)});
  }
  std::cout << (models.empty() ? "no models; `gluond train` makes one\n" : Aligned(rows));
  return absl::OkStatus();
}

}  // namespace gluond::cli
