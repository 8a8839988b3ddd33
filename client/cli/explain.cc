// gluond explain: what the server compiles a model to.

#include <fstream>
#include <iostream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands.h"
#include "client/cli/json.h"
#include "client/cli/program_table.h"
#include "client/cpp/status_macros.h"

namespace gluond::cli {
namespace {

// "data=32,1,28,28", or several with semicolons between.
absl::Status ParseInputs(const std::string& text, const Options& options, v1::ExplainRequest* request) {
  for (const absl::string_view each : absl::StrSplit(text, ';', absl::SkipWhitespace())) {
    const std::vector<std::string> parts = absl::StrSplit(each, absl::MaxSplits('=', 1));
    v1::ExplainRequest::Input* const input = request->add_inputs();
    input->set_name(parts[0]);
    bool is_shape = parts.size() == 2;
    if (is_shape) {
      for (const absl::string_view size : absl::StrSplit(parts[1], ',', absl::SkipEmpty())) {
        int64_t axis = 0;
        is_shape = is_shape && absl::SimpleAtoi(size, &axis) && axis >= 0;
        input->add_shape(axis);
      }
    }
    if (!is_shape)
      return options.Fail(absl::StrCat("--input wants NAME=SIZE,SIZE,..., as in data=32,1,28,28, and got '", each, "'"));
  }
  return absl::OkStatus();
}

absl::Status WritePicture(const v1::ExplainResponse& program, const std::string& path) {
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
  CLIENT_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  if (!go_on) return absl::OkStatus();
  if (model.empty()) return options.Fail("which MODEL? `gluond models` lists them");
  if (mode != "predict" && mode != "train")
    return options.Fail(absl::StrCat("--mode wants `predict` or `train`, and got '", mode, "'"));
  v1::ExplainRequest request;
  request.set_mode(mode == "train" ? v1::ExplainRequest::TRAIN_STEP : v1::ExplainRequest::PREDICT);
  const std::vector<std::string> parts = absl::StrSplit(model, absl::MaxSplits(':', 1));
  parts.size() == 1 ? request.set_model(model) : request.set_served(parts[0]);
  if (parts.size() == 2) request.set_version(parts[1]);
  CLIENT_RETURN_IF_ERROR(ParseInputs(inputs, options, &request));
  CLIENT_ASSIGN_OR_RETURN(const client::Client client, server.Connect());
  CLIENT_ASSIGN_OR_RETURN(const v1::ExplainResponse program, client.Explain(request));
  if (!svg.empty()) {
    CLIENT_RETURN_IF_ERROR(WritePicture(program, svg));
  }
  if (json) return PrintJson(std::vector<v1::ExplainResponse>{program});
  std::cout << ProgramTable(program);
  return absl::OkStatus();
}

}  // namespace gluond::cli
