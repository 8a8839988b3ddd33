// gluond train: the images go to the server once; every call then takes many steps on them.

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands.h"
#include "client/cli/curve.h"
#include "client/cli/idx.h"
#include "client/cli/progress.h"
#include "client/cli/recipe.h"
#include "gluond/error.h"
#include "gluond/status_macros.h"

namespace gluond::cli {
namespace {

constexpr int64_t kClasses = 10;
constexpr int64_t kStepsPerCall = 20;  // About four calls a second: the progress line moves.

struct TrainOptions {
  std::string recipe = "lenet";
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string model;
  std::string checkpoint;
  std::string curve = "training-curve.svg";
  std::string device;
  int64_t epochs = 0;
  int64_t batch_size = 64;
  double learning_rate = 0;
  int64_t seed = 1;
  bool replace = false;
  bool resume = false;
  bool group = false;
  int64_t virtual_shards = 0;

  void AddTo(Options* options);
  absl::Status Complete();
};

void TrainOptions::AddTo(Options* options) {
  options->Add("recipe", &recipe, "The network: lenet or mlp.");
  options->Add("data", &data, "Folder with the idx files train-images-idx3-ubyte[.gz] and so on, of MNIST's form.");
  options->Add("model", &model, "The model's name on the server. Default: the recipe's.");
  options->Add("checkpoint", &checkpoint,
               "The name under which the trained model is saved. Default: the model's. \"-\": not saved.");
  options->Add("curve", &curve, "File for the picture of the training curve. \"-\": no picture.");
  options->Add("device", &device, "Where the server trains: cpu, gpu:0. Default: its first device.");
  options->Add("epochs", &epochs, "Passes over the training images. 0: the recipe's own number.");
  options->Add("batch_size", &batch_size, "Images per step.");
  options->Add("learning_rate", &learning_rate, "At the top of the schedule. 0: the recipe's own.");
  options->Add("seed", &seed, "Decides initial values and the images' order.");
  options->Add("replace", &replace, "Replaces a model and a checkpoint of the same names.");
  options->Add("resume", &resume,
               "Goes on with the model from the step that its trainer is at, after a crash of the server or of this command. "
               "Wants the other options as they were.");
  options->Add("group", &group, "All servers of the group that the server leads train together; `gluond group` shows them.");
  options->Add(
      "virtual_shards", &virtual_shards,
      "The parts into which the group cuts a batch, a power of two. Equal numbers give equal bits. 0: as many as the group "
      "may have servers.");
}

absl::Status TrainOptions::Complete() {
  if (batch_size <= 0 || epochs < 0 || learning_rate < 0 || seed < 0) {
    return absl::InvalidArgumentError(
        "--batch_size must be positive; --epochs, --learning_rate and --seed must not be "
        "negative.");
  }
  if (virtual_shards < 0 || (virtual_shards > 0 && !group)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--virtual_shards is ", virtual_shards, "; want a power of two, with --group, or 0"));
  }
  if (model.empty()) model = recipe;
  if (checkpoint.empty()) checkpoint = model;
  return absl::OkStatus();
}

// Uploads the images, unless the server has them.
absl::Status Upload(const client::Client& client, const std::string& name, LabelledImages part) {
  return client.UploadDataset(name,
                              {{"data", std::move(part.images), kPixelScale, kPixelShift}, {"label", std::move(part.labels)}});
}

absl::StatusOr<client::Model> Define(const client::Client& client, const TrainOptions& options, const Recipe& recipe,
                                     const client::Shape& image, int64_t all_steps) {
  client::DefineOptions define = {
      .device = options.device, .seed = static_cast<uint64_t>(options.seed), .replace = options.replace, .group = options.group};
  if (options.virtual_shards > 0) define.virtual_shards = options.virtual_shards;
  GLUOND_ASSIGN_OR_RETURN(
      const client::Model model,
      client.DefineModel(options.model, recipe.network, {client::Input("data", {-1, image[1], image[2], image[3]})}, define));
  GLUOND_RETURN_IF_ERROR(model.Initialize(client::Named("Xavier")));
  GLUOND_RETURN_IF_ERROR(
      model
          .CreateTrainer({.loss = client::Named("SoftmaxCrossEntropyLoss"),
                          .optimizer = client::Named("sgd", {{"learning_rate", recipe.learning_rate}, {"momentum", 0.9}}),
                          .lr_scheduler = client::Named(
                              "cosine", {{"max_update", all_steps}, {"warmup_steps", std::min<int64_t>(100, all_steps / 10)}}),
                          .metrics = {client::Named("accuracy")}})
          .status());
  return model;
}

// The model that an earlier run of the command has left, and the steps that it has taken.
absl::StatusOr<std::pair<client::Model, int64_t>> Resume(const client::Client& client, const std::string& name) {
  const client::Model model = client.GetModel(name);
  GLUOND_ASSIGN_OR_RETURN(const client::ModelDescription found, model.Describe());
  if (!found.has_trainer) {
    return absl::FailedPreconditionError(absl::StrCat("model '", name,
                                                      "' has no trainer, so that nothing goes on; leave --resume out, "
                                                      "and --replace replaces it"));
  }
  return std::pair(model, found.step);
}

// `status` of a training whose server was away, with the way back.
absl::Status WithWayBack(const absl::Status& status) {
  if (!absl::IsUnavailable(status) && client::ReasonOf(status) != "REWOUND") return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), " `gluond train --resume` with these options goes on."));
}

double Accuracy(const std::map<std::string, double>& metrics) {
  const auto it = metrics.find("accuracy");
  return it == metrics.end() ? 0 : it->second;
}

// One pass over the training images, from position `begin` on. Appends each call's loss to the curve.
absl::StatusOr<EpochReport> TrainEpoch(const client::Model& model, const std::string& dataset, const TrainOptions& options,
                                       int64_t epoch, int64_t begin, int64_t images, const Progress& progress,
                                       TrainingCurve* curve) {
  client::Rows rows;
  rows.dataset = dataset;
  rows.shuffle = true;
  rows.seed = static_cast<uint64_t>(options.seed);
  rows.epoch = static_cast<uint64_t>(epoch);
  rows.begin = begin;
  EpochReport report;
  while (rows.begin < images) {
    GLUOND_ASSIGN_OR_RETURN(const client::TrainStepResponse step, model.TrainStep(rows, options.batch_size, kStepsPerCall));
    if (step.report.nonfinite) {
      return absl::OutOfRangeError(absl::StrCat("the gradient is no longer finite at step ", step.report.step,
                                                ": the training diverged. Try a smaller --learning_rate than ",
                                                options.learning_rate, "."));
    }
    if (step.next_begin <= rows.begin) return absl::InternalError("the server took no step.");
    rows.begin = step.next_begin;
    report.Add(step.samples, step.loss, Accuracy(step.metrics));
    curve->losses.push_back(static_cast<float>(step.loss));
    curve->steps = step.report.step;
    progress.Update(epoch, report);
  }
  return report;
}

absl::StatusOr<double> Test(const client::Model& model, const std::string& dataset) {
  client::Rows rows;
  rows.dataset = dataset;
  GLUOND_ASSIGN_OR_RETURN(const client::EvaluateResponse response, model.Evaluate(rows));
  return Accuracy(response.metrics);
}

// Takes the steps after the first `done`, measures after each epoch, saves the model and draws the curve.
absl::Status TrainFrom(int64_t done, const client::Model& model, const std::string& dataset, const TrainOptions& options,
                       int64_t images) {
  const int64_t steps_per_epoch = (images + options.batch_size - 1) / options.batch_size;
  TrainingCurve curve;
  curve.title = absl::StrFormat("%s on %s, batch %d, seed %d", options.recipe, dataset, options.batch_size, options.seed);
  const Progress progress(options.epochs, images, isatty(STDOUT_FILENO) == 1);
  for (int64_t epoch = done / steps_per_epoch; epoch < options.epochs; ++epoch) {
    const int64_t begin = epoch == done / steps_per_epoch ? done % steps_per_epoch * options.batch_size : 0;
    GLUOND_ASSIGN_OR_RETURN(const EpochReport report,
                            TrainEpoch(model, dataset + "-train", options, epoch, begin, images, progress, &curve));
    GLUOND_ASSIGN_OR_RETURN(const double accuracy, Test(model, dataset + "-test"));
    progress.Finish(epoch, report, accuracy);
    curve.train_accuracy.push_back(report.accuracy);
    curve.test_accuracy.push_back(accuracy);
  }
  if (curve.test_accuracy.empty()) {  // All steps were taken before.
    GLUOND_ASSIGN_OR_RETURN(const double accuracy, Test(model, dataset + "-test"));
    curve.test_accuracy.push_back(accuracy);
  }

  if (options.checkpoint != "-") {
    GLUOND_ASSIGN_OR_RETURN(const client::Checkpoint saved, model.Save(options.checkpoint, options.replace));
    std::cout << "checkpoint: " << saved.name << ", step " << saved.step << "\n";
  }
  if (options.curve != "-") {
    GLUOND_RETURN_IF_ERROR(WriteSvg(curve, options.curve));
    std::cout << "training curve: " << options.curve << "\n";
  }
  std::cout << absl::StrFormat("test accuracy: %.4f\n", curve.test_accuracy.back());
  return absl::OkStatus();
}

absl::Status Run(TrainOptions options, const ServerOptions& server) {
  GLUOND_RETURN_IF_ERROR(options.Complete());
  GLUOND_ASSIGN_OR_RETURN(const Recipe recipe, FindRecipe(options.recipe, kClasses));
  if (options.epochs == 0) options.epochs = recipe.epochs;
  if (options.learning_rate == 0) options.learning_rate = recipe.learning_rate;

  GLUOND_ASSIGN_OR_RETURN(LabelledImages train, ReadLabelledImages(options.data, "train"));
  GLUOND_ASSIGN_OR_RETURN(LabelledImages test, ReadLabelledImages(options.data, "t10k"));
  const int64_t images = train.count();
  const client::Shape shape = train.images.shape();
  const int64_t steps_per_epoch = (images + options.batch_size - 1) / options.batch_size;
  const int64_t steps = options.epochs * steps_per_epoch;
  if (steps == 0) return absl::InvalidArgumentError("there are no training images in " + options.data);

  GLUOND_ASSIGN_OR_RETURN(const client::Client client, server.Connect());
  const std::string name = std::filesystem::path(options.data + "/").parent_path().filename();
  std::cout << "sending " << images << " training and " << test.count() << " test images" << std::endl;
  GLUOND_RETURN_IF_ERROR(Upload(client, name + "-train", std::move(train)));
  GLUOND_RETURN_IF_ERROR(Upload(client, name + "-test", std::move(test)));

  Recipe tuned = recipe;
  tuned.learning_rate = options.learning_rate;
  client::Model model = client.GetModel(options.model);
  int64_t done = 0;
  if (options.resume) {
    GLUOND_ASSIGN_OR_RETURN(std::tie(model, done), Resume(client, options.model));
    std::cout << "going on after step " << done << " of " << steps << std::endl;
  } else {
    GLUOND_ASSIGN_OR_RETURN(model, Define(client, options, tuned, shape, steps));
  }
  return WithWayBack(TrainFrom(done, model, name, options, images));
}

}  // namespace

absl::Status Train(const Arguments& arguments) {
  TrainOptions train;
  ServerOptions server;
  Options options("gluond train",
                  "Defines a network on a server, trains it there on labelled images, measures it on the "
                  "test images after each epoch, saves a checkpoint and draws the training curve. The "
                  "last line is the accuracy on the test images.");
  options.AddExample("gluond train --curve=lenet.svg");
  options.AddExample("gluond train --curve=lenet.svg --resume");
  options.AddExample("gluond train --recipe=mlp --model=mlp2 --epochs=3 --address=gpu-box:50051");
  train.AddTo(&options);
  server.AddTo(&options);
  GLUOND_ASSIGN_OR_RETURN(const bool go_on, options.Parse(arguments));
  return go_on ? Run(std::move(train), server) : absl::OkStatus();
}

}  // namespace gluond::cli
