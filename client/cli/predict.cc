// gluond predict: a few test images, side by side, with predicted and true labels.

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/idx.h"
#include "client/cli/layout.h"
#include "client/cli/picture.h"
#include "client/cli/recipe.h"
#include "gluond/status_macros.h"

namespace gluond::cli {
namespace {

constexpr int64_t kPerLine = 5;
constexpr int64_t kMostImages = 1000;

struct Selection {
  std::vector<uint8_t> pixels;
  std::vector<uint8_t> labels;
  int64_t height = 0;
  int64_t width = 0;

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  absl::Span<const uint8_t> image(int64_t i) const {
    return absl::MakeConstSpan(pixels).subspan(i * height * width, height * width);
  }
};

absl::StatusOr<Selection> Select(const std::string& folder, int64_t first, int64_t count) {
  GLUOND_ASSIGN_OR_RETURN(const LabelledImages all, ReadLabelledImages(folder, "t10k"));
  if (first < 0 || count < 1 || count > kMostImages || first >= all.count() || count > all.count() - first) {
    return absl::InvalidArgumentError(absl::StrCat("--first and --count want some of the ", all.count(), " test images, at most ",
                                                   kMostImages, " at a time; got ", first, " and ", count, "."));
  }
  Selection selection{{}, {}, all.images.shape()[2], all.images.shape()[3]};
  const int64_t size = selection.height * selection.width;
  const absl::string_view pixels = all.images.bytes().substr(first * size, count * size);
  const absl::string_view labels = all.labels.bytes().substr(first, count);
  selection.pixels.assign(pixels.begin(), pixels.end());
  selection.labels.assign(labels.begin(), labels.end());
  return selection;
}

// Published versions are asked in place of the model.
struct Published {
  bool asked = false;
  std::string version;
};

// The shape that a model tells of the input `data`. Empty: it tells none.
template <class Inputs>
client::Shape ShapeOfData(const Inputs& inputs) {
  for (const auto& input : inputs) {
    if (input.name == "data") return input.shape;
  }
  return {};
}

absl::StatusOr<client::Shape> InputShape(const client::Model& model, const Published& published) {
  if (published.asked) {
    GLUOND_ASSIGN_OR_RETURN(const client::ModelMetadataResponse version, model.DescribeVersion(published.version));
    return ShapeOfData(version.inputs);
  }
  GLUOND_ASSIGN_OR_RETURN(const client::ModelDescription described, model.Describe());
  return ShapeOfData(described.inputs);
}

// The most likely class of each image.
absl::StatusOr<std::vector<int64_t>> Classify(const client::Model& model, const Published& published, const Selection& images) {
  std::vector<float> input(images.pixels.size());
  std::transform(images.pixels.begin(), images.pixels.end(), input.begin(),
                 [](uint8_t pixel) { return static_cast<float>(pixel * kPixelScale + kPixelShift); });
  GLUOND_ASSIGN_OR_RETURN(const client::Shape taken, InputShape(model, published));
  GLUOND_ASSIGN_OR_RETURN(const client::Shape shape, ShapeOfImages(taken, images.count(), images.height, images.width));
  const client::Tensors inputs = {{"data", client::Tensor::Of<float>(shape, input)}};
  GLUOND_ASSIGN_OR_RETURN(const client::Tensors outputs,
                          published.asked ? model.Infer(inputs, published.version) : model.Predict(inputs));
  if (outputs.size() != 1 || outputs.begin()->second.shape().size() != 2 || outputs.begin()->second.shape()[0] != images.count()) {
    return absl::FailedPreconditionError(
        absl::StrCat("model '", model.name(), "' is no classifier of images: it has ", outputs.size(), " outputs."));
  }
  GLUOND_ASSIGN_OR_RETURN(const std::vector<float> scores, outputs.begin()->second.Values<float>());
  const int64_t classes = outputs.begin()->second.shape()[1];
  std::vector<int64_t> best;
  for (auto row = scores.begin(); classes > 0 && row != scores.end(); row += classes) {
    best.push_back(std::max_element(row, row + classes) - row);
  }
  return best;
}

std::string Name(const std::vector<std::string>& names, int64_t label) {
  return label < static_cast<int64_t>(names.size()) ? names[label] : absl::StrCat(label);
}

void Show(const Selection& images, const std::vector<int64_t>& predicted, const std::vector<std::string>& names, bool color) {
  const int width = static_cast<int>(images.width);
  for (int64_t begin = 0; begin < images.count(); begin += kPerLine) {
    const int64_t end = std::min(begin + kPerLine, images.count());
    std::vector<std::string> lines((images.height + 1) / 2);
    std::string said, truth;
    for (int64_t i = begin; i < end; ++i) {
      const auto picture = Draw(images.image(i), images.height, images.width, color);
      for (size_t y = 0; y < lines.size(); ++y) absl::StrAppend(&lines[y], picture[y], " ");
      const bool right = predicted[i] == images.labels[i];
      absl::StrAppendFormat(&said, "%-*s ", width, absl::StrCat(right ? "+ " : "- ", Name(names, predicted[i])));
      absl::StrAppendFormat(&truth, "%-*s ", width, absl::StrCat("  is ", Name(names, images.labels[i])));
    }
    for (const std::string& line : lines) std::cout << line << "\n";
    std::cout << said << "\n" << truth << "\n\n";
  }
}

}  // namespace

absl::Status Predict(const Arguments& arguments) {
  std::string name = "lenet";
  std::string checkpoint;
  Published published;
  std::string data = "/usr/share/datasets/fashion-mnist";
  int64_t first = 0;
  int64_t count = 10;
  bool color = isatty(STDOUT_FILENO) == 1;
  ServerOptions server;
  Options options("gluond predict",
                  "Shows test images in the terminal with the label that a model predicts (+ right, - "
                  "wrong) and the true one.");
  options.AddExample("gluond predict --checkpoint=lenet");
  options.AddExample("gluond predict --model=mlp --first=100 --count=5");
  options.AddExample("gluond predict --model=mlp --version=stable");
  options.Add("model", &name, "The model that predicts.");
  options.Add("checkpoint", &checkpoint, "Loads this checkpoint into the model first.");
  options.Add("published", &published.asked, "Asks what is published under that name, which needs the role infer alone.");
  options.Add("version", &published.version,
              "A published version's number or label. Default: with --published the server chooses.");
  options.Add("data", &data, "Folder with t10k-images-idx3-ubyte[.gz] and its labels.");
  options.Add("first", &first, "Number of the first image, from 0.");
  options.Add("count", &count, "How many images.");
  options.Add("color", &color, "Draws in shades of grey. Default: only on a terminal.");
  server.AddTo(&options);
  GLUOND_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  if (!go_on) return absl::OkStatus();

  published.asked = published.asked || !published.version.empty();
  if (published.asked && !checkpoint.empty()) {
    return absl::InvalidArgumentError("--checkpoint is loaded into the model, and --published and --version ask others.");
  }

  GLUOND_ASSIGN_OR_RETURN(const Selection images, Select(data, first, count));
  GLUOND_ASSIGN_OR_RETURN(const client::Client client, server.Connect());
  if (!checkpoint.empty()) {
    GLUOND_RETURN_IF_ERROR(client.LoadCheckpoint(checkpoint, name).status());
  }
  GLUOND_ASSIGN_OR_RETURN(const auto predicted, Classify(client.GetModel(name), published, images));
  if (static_cast<int64_t>(predicted.size()) != images.count()) {
    return absl::FailedPreconditionError(absl::StrCat("model '", name, "' answers with no classes."));
  }
  Show(images, predicted, LabelNames(data), color);
  int64_t right = 0;
  for (int64_t i = 0; i < images.count(); ++i) right += predicted[i] == images.labels[i];
  std::cout << right << " of " << images.count() << " right\n";
  return absl::OkStatus();
}

}  // namespace gluond::cli
