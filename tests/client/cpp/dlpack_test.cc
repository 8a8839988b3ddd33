// Tensors of other libraries of the process, by DLPack.

#include "gluond/dlpack.h"

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "client/cpp/data/dlpack_structs.h"
#include "gluond/gluond.h"
#include "gtest/gtest.h"

namespace gluond::client {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// A tensor of another library's: 12 floats, 0 to 11, and the number of times that its deleter was called.
struct Foreign {
  Foreign() {
    for (int i = 0; i < 12; ++i) values[i] = static_cast<float>(i);
    managed.dl_tensor = {values, {1, 0}, 2, {2, 32, 1}, shape, nullptr, 0};
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensor* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
  }

  DLManagedTensor managed;
  float values[12];
  int64_t shape[4] = {3, 4, 0, 0};
  int64_t strides[4] = {4, 1, 0, 0};
  int deleted = 0;
};

std::vector<float> Floats(const absl::StatusOr<Tensor>& tensor) { return tensor.value().Values<float>().value(); }

TEST(DLPackTest, ValuesAreCopiedAndGivenBack) {
  Foreign foreign;
  const absl::StatusOr<Tensor> tensor = TensorFromDLPack(&foreign.managed);
  EXPECT_EQ(foreign.deleted, 1);
  foreign.values[0] = 99;
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->shape(), (Shape{3, 4}));
  EXPECT_EQ(Floats(tensor), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
  foreign.managed.deleter = nullptr;
  EXPECT_TRUE(TensorFromDLPack(&foreign.managed).ok());
}

TEST(DLPackTest, StridesAndOffsets) {
  Foreign foreign;
  DLTensor& tensor = foreign.managed.dl_tensor;
  tensor.strides = foreign.strides;
  EXPECT_EQ(Floats(TensorFromDLPack(&foreign.managed))[5], 5);
  // The transpose.
  foreign.shape[0] = 4, foreign.shape[1] = 3, foreign.strides[0] = 1, foreign.strides[1] = 4;
  EXPECT_EQ(Floats(TensorFromDLPack(&foreign.managed)), (std::vector<float>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}));
  // Every other column of rows 1 and 2.
  foreign.shape[0] = 2, foreign.shape[1] = 2, foreign.strides[0] = 4, foreign.strides[1] = 2;
  tensor.byte_offset = 16;
  EXPECT_EQ(Floats(TensorFromDLPack(&foreign.managed)), (std::vector<float>{4, 6, 8, 10}));
  // An axis of one has any stride.
  foreign.shape[0] = 1, foreign.strides[0] = -7;
  EXPECT_EQ(Floats(TensorFromDLPack(&foreign.managed)), (std::vector<float>{4, 6}));
}

TEST(DLPackTest, ScalarsAndTensorsOfNothing) {
  Foreign foreign;
  foreign.managed.dl_tensor.ndim = 0;
  foreign.managed.dl_tensor.shape = nullptr;
  EXPECT_EQ(*TensorFromDLPack(&foreign.managed), Tensor::Of<float>({}, {0}));
  foreign.managed.dl_tensor.ndim = 2;
  foreign.managed.dl_tensor.shape = foreign.shape;
  foreign.managed.dl_tensor.data = nullptr;
  foreign.shape[0] = kMost, foreign.shape[1] = 0;
  const absl::StatusOr<Tensor> empty = TensorFromDLPack(&foreign.managed);
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->shape(), (Shape{kMost, 0}));
}

template <class T>
void ComesBack(const Tensor& values, const std::vector<T>&, uint8_t code) {
  const absl::StatusOr<DLManagedTensor*> managed = ToDLPack(values);
  ASSERT_TRUE(managed.ok()) << managed.status();
  const DLTensor& tensor = (*managed)->dl_tensor;
  EXPECT_EQ(tensor.dtype.code, code);
  EXPECT_EQ(tensor.dtype.bits, 8 * sizeof(T));
  EXPECT_EQ(tensor.dtype.lanes, 1);
  EXPECT_EQ(tensor.device.device_type, 1);
  EXPECT_EQ(reinterpret_cast<uint64_t>(tensor.data) % 64, 0u);
  EXPECT_EQ(std::vector<int64_t>(tensor.shape, tensor.shape + tensor.ndim), values.shape());
  EXPECT_EQ(std::vector<int64_t>(tensor.strides, tensor.strides + tensor.ndim), (std::vector<int64_t>{2, 1}));
  const absl::StatusOr<Tensor> back = TensorFromDLPack(*managed);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(*back == values);
}

template <class T>
void ComesBack(const std::vector<T>& values, uint8_t code) {
  ComesBack(Tensor::Of<T>({2, 2}, values), values, code);
}

TEST(DLPackTest, EveryDTypeComesBack) {
  ComesBack<float>({1, -2, 3, 4}, 2);
  ComesBack<double>({1, -2, 3, 4}, 2);
  ComesBack<Float16>({Float16(1), Float16(2), Float16(3), Float16(-4)}, 2);
  ComesBack<Bfloat16>({Bfloat16(1), Bfloat16(2), Bfloat16(3), Bfloat16(-4)}, 4);
  ComesBack<uint8_t>({1, 2, 3, 255}, 1);
  ComesBack<int8_t>({1, 2, 3, -128}, 0);
  ComesBack<int32_t>({1, 2, 3, INT32_MIN}, 0);
  ComesBack<int64_t>({1, 2, 3, INT64_MIN}, 0);
  ComesBack<bool>({true, false, true, true}, 6);
}

struct Unwanted {
  const char* name;
  std::function<void(Foreign&)> change;
  const char* why;
};

class UnwantedTest : public testing::TestWithParam<Unwanted> {};

INSTANTIATE_TEST_SUITE_P(DLPack, UnwantedTest,
                         testing::ValuesIn(std::vector<Unwanted>{
                             {"Gpu", [](Foreign& x) { x.managed.dl_tensor.device.device_type = 2; }, "device of type 2"},
                             {"Lanes", [](Foreign& x) { x.managed.dl_tensor.dtype.lanes = 4; }, "4 lanes, expected 1"},
                             {"Complex",
                              [](Foreign& x) {
                                x.managed.dl_tensor.dtype = {5, 64, 1};
                              },
                              "code 5 and 64 bits"},
                             {"Uint64",
                              [](Foreign& x) {
                                x.managed.dl_tensor.dtype = {1, 64, 1};
                              },
                              "code 1 and 64 bits"},
                             {"FourBits",
                              [](Foreign& x) {
                                x.managed.dl_tensor.dtype = {0, 4, 1};
                              },
                              "code 0 and 4 bits"},
                             {"NegativeRank", [](Foreign& x) { x.managed.dl_tensor.ndim = -1; }, "-1 axes"},
                             {"ManyAxes", [](Foreign& x) { x.managed.dl_tensor.ndim = 33; }, "33 axes"},
                             {"NoShape", [](Foreign& x) { x.managed.dl_tensor.shape = nullptr; }, "no shape"},
                             {"NoData", [](Foreign& x) { x.managed.dl_tensor.data = nullptr; }, "no data"},
                             {"NegativeSize", [](Foreign& x) { x.shape[0] = -1; }, "no negative size"},
                             {"SizesOverflow", [](Foreign& x) { x.shape[0] = kMost, x.shape[1] = kMost; }, "no memory holds"},
                             {"BeyondTheMemory", [](Foreign& x) { x.shape[0] = int64_t{1} << 55; }, "this machine's memory"},
                             {"OffsetOverflow", [](Foreign& x) { x.managed.dl_tensor.byte_offset = ~uint64_t{0}; },
                              "behind all memory"},
                             {"NegativeStride",
                              [](Foreign& x) {
                                x.managed.dl_tensor.strides = x.strides;
                                x.strides[0] = -4;
                              },
                              "a stride is -4, expected 1 or more"},
                             {"Broadcast",
                              [](Foreign& x) {
                                x.managed.dl_tensor.strides = x.strides;
                                x.strides[0] = 0;
                              },
                              "a stride is 0, expected 1 or more"},
                             {"Overlap",
                              [](Foreign& x) {
                                x.managed.dl_tensor.strides = x.strides;
                                x.strides[0] = 3;
                              },
                              "elements lie in one place"},
                             {"StrideOverflow",
                              [](Foreign& x) {
                                x.managed.dl_tensor.strides = x.strides;
                                x.strides[0] = kMost;
                              },
                              "no memory holds"},
                         }),
                         [](const auto& each) { return std::string(each.param.name); });

TEST_P(UnwantedTest, IsAnErrorThatSaysWhatIsWanted) {
  Foreign foreign;
  GetParam().change(foreign);
  const absl::Status status = TensorFromDLPack(&foreign.managed).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find(GetParam().why), absl::string_view::npos) << status;
  EXPECT_EQ(foreign.deleted, 1);
}

TEST(DLPackTest, ArraysComeAndGo) {
  setenv("GLUOND_SERVER", "server/gluond-server", 0);
  Session::SetDefault(Session::StartServer().value());
  Foreign foreign;
  const NDArray x = FromDLPack(&foreign.managed) * 2;
  const absl::StatusOr<DLManagedTensor*> managed = ToDLPack(x);
  ASSERT_TRUE(managed.ok()) << managed.status();
  EXPECT_EQ(static_cast<float*>((*managed)->dl_tensor.data)[11], 22);
  (*managed)->deleter(*managed);

  foreign.managed.dl_tensor.device.device_type = 2;
  const int line = __LINE__ + 1;
  const absl::Status status = FromDLPack(&foreign.managed).Wait();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_NE(status.message().find("dlpack_test.cc:" + std::to_string(line)), absl::string_view::npos) << status;
  EXPECT_TRUE(absl::IsInvalidArgument(FromDLPack(nullptr).Wait()));
  EXPECT_TRUE(absl::IsInvalidArgument(ToDLPack(NDArray()).status()));
}

}  // namespace
}  // namespace gluond::client
