// DLPack's structs of version 0, whose layout is frozen. Programs have them from a header of their own.

#ifndef GLUOND_CLIENT_CPP_DATA_DLPACK_STRUCTS_H_
#define GLUOND_CLIENT_CPP_DATA_DLPACK_STRUCTS_H_

#include <cstdint>

struct DLDevice {
  int32_t device_type;  // 1: the processor.
  int32_t device_id;
};

struct DLDataType {
  uint8_t code;  // 0: int, 1: uint, 2: float, 4: bfloat, 6: bool.
  uint8_t bits;
  uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t* shape;
  int64_t* strides;  // In elements. Null: row-major without gaps.
  uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);
};

static_assert(sizeof(void*) == 8 && sizeof(DLManagedTensor) == 64, "DLPack's layout on machines of 64 bits");

#endif  // GLUOND_CLIENT_CPP_DATA_DLPACK_STRUCTS_H_
