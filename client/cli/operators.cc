// gluond operators: lists the operators that the server has.

#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/table.h"
#include "gluond/status_macros.h"

namespace gluond::cli {
namespace {

std::string FirstSentence(const std::string& text) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(text, absl::MaxSplits('\n', 1));
  return parts.first;
}

std::string Details(const client::Operator::Parameter& parameter) {
  std::string text = parameter.type;
  if (!parameter.values.empty()) {
    absl::StrAppend(&text, ", one of ", absl::StrJoin(parameter.values, ", "));
  }
  if (!parameter.range.empty()) absl::StrAppend(&text, ", in ", parameter.range);
  absl::StrAppend(&text, parameter.required ? ", required" : ", default ", parameter.default_value);
  return text;
}

void Describe(const client::Operator& op) {
  std::cout << op.name << "\n\n" << op.description << "\n\n";
  if (!op.aliases.empty()) std::cout << "Also called " << absl::StrJoin(op.aliases, ", ") << "\n";
  std::cout << (op.differentiable ? "Has a gradient" : "Has no gradient") << "; runs on " << absl::StrJoin(op.devices, ", ")
            << "\n";
  Table rows;
  for (const auto& input : op.inputs) {
    rows.push_back({"  " + input.name, input.type, input.description});
  }
  if (!op.variable_inputs.empty()) {
    rows.push_back({"  ...", "", absl::StrCat("as many as the parameter ", op.variable_inputs)});
  }
  if (!rows.empty()) std::cout << "\nInputs:\n" << Aligned(rows);
  rows.clear();
  for (const auto& parameter : op.parameters) {
    rows.push_back({"  " + parameter.name, Details(parameter), parameter.description});
  }
  if (!rows.empty()) std::cout << "\nParameters:\n" << Aligned(rows);
  std::cout << "\nOutputs: " << absl::StrJoin(op.outputs, ", ") << "\n";
}

}  // namespace

absl::Status Operators(const Arguments& arguments) {
  std::string name;
  std::string contains;
  bool json = false;
  ServerOptions server;
  Options options("gluond operators", "Lists the operators of a server, or describes one of them.");
  options.AddExample("gluond operators --contains=conv");
  options.AddExample("gluond operators Convolution");
  options.AddPositional("NAME", &name, "The operator to describe with its inputs and parameters.");
  options.Add("contains", &contains, "Lists only operators whose name contains this.");
  AddJson(&options, &json);
  server.AddTo(&options);
  GLUOND_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  if (!go_on) return absl::OkStatus();

  GLUOND_ASSIGN_OR_RETURN(const client::Client client, server.Connect());
  if (!name.empty()) {
    GLUOND_ASSIGN_OR_RETURN(const client::Operator op, client.DescribeOperator(name));
    if (json) {
      PrintJson(std::vector<client::Operator>{op});
      return absl::OkStatus();
    }
    Describe(op);
    return absl::OkStatus();
  }
  GLUOND_ASSIGN_OR_RETURN(const auto operators, client.ListOperators(contains));
  if (json) {
    PrintJson(operators);
    return absl::OkStatus();
  }
  Table rows;
  for (const client::Operator& op : operators) {
    rows.push_back({op.name, absl::StrJoin(op.devices, ","), FirstSentence(op.description)});
  }
  std::cout << Aligned(rows) << operators.size() << " operators; `gluond operators NAME` describes one.\n";
  return absl::OkStatus();
}

}  // namespace gluond::cli
