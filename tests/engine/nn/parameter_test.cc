#include "engine/nn/parameter.h"

#include "gtest/gtest.h"

namespace gluond {
namespace {

Parameter Named(const char* name, Shape shape = {}) {
  Parameter p;
  p.name = name;
  p.shape = shape;
  return p;
}

TEST(ParameterStoreTest, FindsByNameAndSuggests) {
  ParameterStore store;
  ASSERT_TRUE(store.Add(Named("0.weight")).ok());
  ASSERT_TRUE(store.Add(Named("0.bias")).ok());
  EXPECT_EQ(*store.Find("0.bias"), 1u);
  EXPECT_EQ(store.Add(Named("0.bias")).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(store.Add(Named("")).code(), absl::StatusCode::kInvalidArgument);
  const absl::Status missing = store.Get("0.weigth").status();
  EXPECT_EQ(missing.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(missing.message().find("did you mean '0.weight'"), absl::string_view::npos) << missing;
}

TEST(ParameterStoreTest, OnlyUnknownDimensionsAreFilledIn) {
  ParameterStore store;
  ASSERT_TRUE(store.Add(Named("w", {4, -1})).ok());
  ASSERT_TRUE(store.MergeShape(0, {4, 7}).ok());
  EXPECT_EQ(store.Get("w")->shape, Shape({4, 7}));
  EXPECT_EQ(store.MergeShape(0, {4, 8}).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(store.Get("w")->shape, Shape({4, 7}));
}

TEST(ParameterStoreTest, WhatHasNoGradientCannotAskForOne) {
  ParameterStore store;
  Parameter mean = Named("mean");
  mean.auxiliary = true;
  ASSERT_TRUE(store.Add(mean).ok());
  EXPECT_EQ(store.Get("mean")->grad_req, GradReq::kNull);
  EXPECT_EQ(store.Configure("mean", {GradReq::kWrite, {}, {}}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ParameterStoreTest, TheVersionTellsOfNewGradients) {
  ParameterStore store;
  ASSERT_TRUE(store.Add(Named("w")).ok());
  ASSERT_TRUE(store.Configure("w", {{}, 0.5, 2.0}).ok());
  EXPECT_EQ(store.version(), 0u);
  EXPECT_EQ(store.Get("w")->lr_mult, 0.5);
  ASSERT_TRUE(store.Configure("w", {GradReq::kAdd, {}, {}}).ok());
  EXPECT_EQ(store.version(), 1u);
  EXPECT_EQ(store.Configure("w", {{}, -1.0, {}}).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gluond
