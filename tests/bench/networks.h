// The networks of the figures, as peer_torch.py and peer_mxnet.py have them.

#ifndef TESTS_BENCH_NETWORKS_H_
#define TESTS_BENCH_NETWORKS_H_

#include <cstdlib>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/shape.h"
#include "gluond/network.h"

namespace gluond::bench {

struct Network {
  client::BlockTree block;
  Shape image;  // One sample.

  Shape Batch(int64_t size) const {
    Shape shape = {size};
    for (const int64_t d : image) shape.Append(d);
    return shape;
  }
  client::Variable Input() const {
    const Shape shape = Batch(Shape::kUnknown);
    return client::Input("data", {shape.begin(), shape.end()});
  }
};

inline client::BlockTree Block(std::string block, client::Attributes attributes = {},
                               std::vector<client::BlockTree> children = {}) {
  client::BlockTree tree;
  tree.block = std::move(block);
  tree.attributes = std::move(attributes);
  tree.children = std::move(children);
  return tree;
}
inline client::BlockTree Sequential(std::vector<client::BlockTree> children) {
  return Block("HybridSequential", {}, std::move(children));
}
inline client::BlockTree Dense(int64_t units, client::Attributes attributes = {}) {
  attributes.emplace_back("units", units);
  return Block("Dense", std::move(attributes));
}
inline client::BlockTree Conv2D(int64_t channels, int64_t kernel, client::Attributes attributes = {}) {
  attributes.emplace_back("channels", channels);
  attributes.emplace_back("kernel_size", kernel);
  return Block("Conv2D", std::move(attributes));
}
inline client::BlockTree MaxPool2D(int64_t size, client::Attributes attributes = {}) {
  attributes.emplace_back("pool_size", size);
  return Block("MaxPool2D", std::move(attributes));
}

inline client::BlockTree ConvBatchNorm(int64_t channels, int64_t kernel, int64_t stride, bool relu) {
  std::vector<client::BlockTree> layers = {
      Conv2D(channels, kernel, {{"strides", stride}, {"padding", kernel / 2}, {"use_bias", false}}), Block("BatchNorm")};
  if (relu) layers.push_back(Block("Activation", {{"activation", "relu"}}));
  return Sequential(std::move(layers));
}

// relu(body(x) + shortcut(x)).
inline client::BlockTree ResidualBlock(int64_t channels, int64_t stride, bool match) {
  std::vector<client::BlockTree> paths = {
      Sequential({ConvBatchNorm(channels, 3, stride, true), ConvBatchNorm(channels, 3, 1, false)})};
  if (match) paths.push_back(ConvBatchNorm(channels, 1, stride, false));
  return Sequential({Block("Residual", {}, std::move(paths)), Block("Activation", {{"activation", "relu"}})});
}

// The same of three convolutions, in ResNet-50.
inline client::BlockTree Bottleneck(int64_t channels, int64_t stride, bool match) {
  std::vector<client::BlockTree> paths = {Sequential(
      {ConvBatchNorm(channels, 1, stride, true), ConvBatchNorm(channels, 3, 1, true), ConvBatchNorm(4 * channels, 1, 1, false)})};
  if (match) paths.push_back(ConvBatchNorm(4 * channels, 1, stride, false));
  return Sequential({Block("Residual", {}, std::move(paths)), Block("Activation", {{"activation", "relu"}})});
}

inline Network FindNetwork(const std::string& name) {
  const client::Attributes relu = {{"activation", "relu"}};
  if (name == "mlp") {
    return {Sequential({Dense(128, relu), Dense(64, relu), Dense(10)}), {1, 28, 28}};
  }
  if (name == "lenet") {
    return {Sequential({Conv2D(20, 5, relu), MaxPool2D(2), Conv2D(50, 5, relu), MaxPool2D(2), Dense(500, relu), Dense(10)}),
            {1, 28, 28}};
  }
  if (name == "resnet20") {
    std::vector<client::BlockTree> layers = {ConvBatchNorm(16, 3, 1, true)};
    for (const int64_t channels : {16, 32, 64}) {
      for (int i = 0; i < 3; ++i) {
        const bool first = i == 0 && channels != 16;
        layers.push_back(ResidualBlock(channels, first ? 2 : 1, first));
      }
    }
    layers.push_back(Block("GlobalAvgPool2D"));
    layers.push_back(Dense(10));
    return {Sequential(std::move(layers)), {3, 32, 32}};
  }
  if (name == "wide") {
    return {Sequential({Dense(2048, relu), Dense(2048, relu), Dense(2048, relu), Dense(2048)}), {2048}};
  }
  if (name == "resnet50") {
    std::vector<client::BlockTree> layers = {ConvBatchNorm(64, 7, 2, true), MaxPool2D(3, {{"strides", 2}, {"padding", 1}})};
    int64_t channels = 64;
    for (const int blocks : {3, 4, 6, 3}) {
      for (int i = 0; i < blocks; ++i) layers.push_back(Bottleneck(channels, i == 0 && channels != 64 ? 2 : 1, i == 0));
      channels *= 2;
    }
    layers.push_back(Block("GlobalAvgPool2D"));
    layers.push_back(Dense(1000));
    return {Sequential(std::move(layers)), {3, 224, 224}};
  }
  std::cerr << "no network '" << name << "'; there are mlp, wide, lenet, resnet20 and resnet50\n";
  std::exit(2);
}

}  // namespace gluond::bench

#endif  // TESTS_BENCH_NETWORKS_H_
