// gluond explain: what the server compiles a model to.

#include <fstream>
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/program_table.h"
#include "gluond/status_macros.h"

namespace gluond::cli {
namespace {

// "data=32,1,28,28", or several with semicolons between.
absl::Status ParseInputs(const std::string& text, const Options& options, client::ExplainRequest* request) {
  for (const absl::string_view each : absl::StrSplit(text, ';', absl::SkipWhitespace())) {
    const std::vector<std::string> parts = absl::StrSplit(each, absl::MaxSplits('=', 1));
    client::ExplainRequest::Input& input = request->inputs.emplace_back();
    input.name = parts[0];
    bool is_shape = parts.size() == 2;
    if (is_shape) {
      for (const absl::string_view size : absl::StrSplit(parts[1], ',', absl::SkipEmpty())) {
        int64_t axis = 0;
        is_shape = is_shape && absl::SimpleAtoi(size, &axis) && axis >= 0;
        input.shape.push_back(axis);
      }
    }
    if (!is_shape)
      return options.Fail(absl::StrCat("--input wants NAME=SIZE,SIZE,..., as in data=32,1,28,28, and got '", each, "'"));
  }
  return absl::OkStatus();
}

absl::Status WritePicture(const client::ExplainResponse& program, const std::string& path) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << ProgramPicture(program);
  file.close();
  if (file) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(path, ": the picture cannot be written there; --svg names another file"));
}

}  // namespace

absl::Status Explain(const Arguments& arguments) {
  std::string model, mode = "predict", inputs, svg;
  bool json = false;
  ServerOptions server;
  Options options("gluond explain",
                  "Shows the program that a model is compiled to: each step with its FLOP, the bytes that it moves and its place "
                  "in memory, and what each pass of the compiler did. Nothing is computed.");
  options.AddExample("gluond explain lenet");
  options.AddExample("gluond explain lenet:stable --input=data=32,1,28,28");
  options.AddExample("gluond explain lenet --mode=train --svg=step.svg");
  options.AddPositional("MODEL[:VERSION]", &model, "The model, or a published version of it by number or label.");
  options.Add("mode", &mode, "`predict`, or `train` for a training step, from its forward pass to the update.");
  options.Add(
      "input", &inputs,
      "An input's shape: NAME=SIZE,SIZE,..., and more of them after semicolons. Default: the declared shapes, with one row.");
  options.Add("svg", &svg, "Draws the program into this file, too.");
  AddJson(&options, &json);
  server.AddTo(&options);
  GLUOND_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  if (!go_on) return absl::OkStatus();
  if (model.empty()) return options.Fail("which MODEL? `gluond models` lists them");
  if (mode != "predict" && mode != "train")
    return options.Fail(absl::StrCat("--mode wants `predict` or `train`, and got '", mode, "'"));
  client::ExplainRequest request;
  request.mode = mode == "train" ? client::ExplainRequest::Mode::kTrainStep : client::ExplainRequest::Mode::kPredict;
  const std::vector<std::string> parts = absl::StrSplit(model, absl::MaxSplits(':', 1));
  (parts.size() == 1 ? request.model : request.served) = parts[0];
  if (parts.size() == 2) request.version = parts[1];
  GLUOND_RETURN_IF_ERROR(ParseInputs(inputs, options, &request));
  GLUOND_ASSIGN_OR_RETURN(const client::Client client, server.Connect());
  GLUOND_ASSIGN_OR_RETURN(const client::ExplainResponse program, client.Explain(request));
  if (!svg.empty()) {
    GLUOND_RETURN_IF_ERROR(WritePicture(program, svg));
  }
  if (json) {
    PrintJson(std::vector<client::ExplainResponse>{program});
    return absl::OkStatus();
  }
  std::cout << ProgramTable(program);
  return absl::OkStatus();
}

}  // namespace gluond::cli
