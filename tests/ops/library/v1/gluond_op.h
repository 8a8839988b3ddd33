// gluond_op.h: operators from a library of your own, which `gluond serve --operator_library=/path/x.so` loads.
//
// A library exports one symbol, gluond_operator_library. The server reads its version, and calls its function, which registers
// operators by api->register_op. An operator is a list of facts: its inputs and attributes, and functions that the server calls.
// The C++ above this is gluond_op.hpp; an example that builds is deploy/examples/operator_library.
//
// Version 1 of this header stays as it is: structures grow at their ends only, each says its size, and a field of zeros means
// what there was before it. Arrays' elements without a size (gluond_tensor, gluond_shape, gluond_value) do not grow.
//
// Threads: the server calls register_operators once. It calls all other functions from many threads at once.
// Memory: the server copies what register_op reads. Memory that it lends to a function ends with that call.
// Errors: a function returns GLUOND_OK, or what api->fail gave it. No C++ exception may leave a function.
// Shapes and types that a rule tells are checked before anything is allocated by them. A kernel writes where it is told, and
// nothing keeps it from writing elsewhere: a library is a part of the server.

#ifndef GLUOND_OP_H_
#define GLUOND_OP_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GLUOND_OP_VERSION 1u
#define GLUOND_MAX_RANK 8

// Statuses. INVALID_ARGUMENT: the caller is wrong. INTERNAL: the operator is.
enum {
  GLUOND_OK = 0,
  GLUOND_INVALID_ARGUMENT = 3,
  GLUOND_RESOURCE_EXHAUSTED = 8,
  GLUOND_FAILED_PRECONDITION = 9,
  GLUOND_UNIMPLEMENTED = 12,
  GLUOND_INTERNAL = 13,
};

// Types of elements, by MXNet's numbers.
enum {
  GLUOND_DTYPE_UNKNOWN = -1,
  GLUOND_DTYPE_FLOAT32 = 0,
  GLUOND_DTYPE_FLOAT64 = 1,
  GLUOND_DTYPE_FLOAT16 = 2,
  GLUOND_DTYPE_UINT8 = 3,
  GLUOND_DTYPE_INT32 = 4,
  GLUOND_DTYPE_INT8 = 5,
  GLUOND_DTYPE_INT64 = 6,
  GLUOND_DTYPE_BOOL = 7,
  GLUOND_DTYPE_BFLOAT16 = 12,
};

// Requests: how a kernel is to write an output.
enum {
  GLUOND_NULL_OP = 0,        // Do nothing.
  GLUOND_WRITE_TO = 1,       // Overwrite the memory, whose contents are unspecified.
  GLUOND_WRITE_INPLACE = 2,  // Overwrite it; an input lies in the same memory, as `inplace` allows.
  GLUOND_ADD_TO = 3,         // Add to the memory's contents.
};

enum { GLUOND_DEVICE_CPU = 1, GLUOND_DEVICE_GPU = 2 };

// Kinds of attributes. Values arrive as text, in Python's spelling: "(3, 3)", "True", "None", "float32".
enum {
  GLUOND_ATTR_BOOL = 1,
  GLUOND_ATTR_INT = 2,
  GLUOND_ATTR_FLOAT = 3,
  GLUOND_ATTR_STRING = 4,
  GLUOND_ATTR_DTYPE = 5,
  GLUOND_ATTR_INTS = 6,
  GLUOND_ATTR_FLOATS = 7,
  GLUOND_ATTR_ENUM = 8,  // One of `names`.
};

// Flags of an input.
enum {
  GLUOND_INPUT_SHAPE_ONLY = 1,  // The operator uses its shape and type alone: there may be no memory.
  GLUOND_INPUT_STATE = 2,       // The kernel writes it, too: a running mean, say.
};

typedef struct gluond_op_api gluond_op_api;
typedef struct gluond_registration gluond_registration;  // Handed by register_operators to register_op.
typedef struct gluond_error gluond_error;                // Handed by a function to fail.
typedef struct gluond_graph gluond_graph;                // A gradient that is being written.

// A tensor lies in row-major order without gaps, on the device of the run.
typedef struct gluond_tensor {
  void* data;
  const int64_t* dims;
  int64_t size;  // The number of elements.
  int32_t ndim;
  int32_t dtype;
} gluond_tensor;

// A shape that may be unknown: in its rank, an `ndim` of -1, or in some dimensions, each -1.
typedef struct gluond_shape {
  int32_t ndim;
  int32_t reserved;
  int64_t dims[GLUOND_MAX_RANK];
} gluond_shape;

// The value of an attribute.
typedef struct gluond_value {
  uint32_t is_none;         // 1: None, of an optional attribute. The rest is zeros then.
  uint32_t count;           // The number of `integers` or `numbers`.
  int64_t integer;          // A BOOL's (0 or 1), an INT's, a DTYPE's, or an ENUM's (the place among its names).
  double number;            // A FLOAT's.
  const char* text;         // As the caller wrote it.
  const int64_t* integers;  // INTS' own.
  const double* numbers;    // FLOATS' own.
} gluond_value;

// A call of an operator, without its tensors.
typedef struct gluond_call {
  size_t size;
  void* user;                      // The facts' own.
  const gluond_value* attributes;  // As many and in the order as in the facts.
  uint32_t num_attributes;
  uint32_t num_inputs;
  uint32_t num_outputs;
} gluond_call;

// A run of a kernel.
typedef struct gluond_run {
  size_t size;
  void* stream;    // The cudaStream_t on a GPU, on which the kernel enqueues its work without waiting. Null on a CPU.
  int32_t device;  // GLUOND_DEVICE_CPU or GLUOND_DEVICE_GPU.
  int32_t device_id;
  int32_t is_train;
} gluond_run;

typedef struct gluond_input {
  const char* name;
  const char* description;
  uint32_t flags;
} gluond_input;

typedef struct gluond_attribute {
  const char* name;
  const char* description;
  const char* default_text;  // Null: the attribute is required.
  const char* const* names;  // An ENUM's: they end with a null.
  int32_t kind;
  int32_t optional;  // 1: None is a value, too.
} gluond_attribute;

// An input and an output that may share memory.
typedef struct gluond_inplace {
  uint32_t input;
  uint32_t output;
} gluond_inplace;

// The sizes by which a server knows what a library was built with.
typedef struct gluond_sizes {
  uint32_t facts, input, attribute, reserved;
} gluond_sizes;
#define GLUOND_SIZES \
  { (uint32_t)sizeof(gluond_op_facts), (uint32_t)sizeof(gluond_input), (uint32_t)sizeof(gluond_attribute), 0 }

// The facts of an operator. Zeros stand for what it does not have.
typedef struct gluond_op_facts {
  gluond_sizes sizes;       // GLUOND_SIZES.
  const char* name;         // [A-Za-z_][A-Za-z0-9_]*, at most 64 characters. _backward... is for gradients: no client may call it.
  const char* description;  // UTF-8, as all texts.

  const gluond_input* inputs;
  uint32_t num_inputs;
  uint32_t num_outputs;             // At least 1.
  const char* const* output_names;  // Null: output, or output0 and so on.
  uint32_t num_visible_outputs;     // Outputs after these are hidden from callers. 0: none is.
  uint32_t num_attributes;
  const gluond_attribute* attributes;
  const gluond_inplace* inplace;
  uint32_t num_inplace;
  // Where the number of inputs is a call's own: the INT attribute that holds it, filled in when absent. `inputs` has one.
  const char* variable_inputs;

  // Types that inputs and outputs may have, as 1 << GLUOND_DTYPE_FLOAT32. 0: all. Not for an operator with infer_type.
  uint64_t dtypes;
  void* user;  // Passed on in each call.

  // May the attributes have these values together. Called first of all, with the other counts not yet known.
  int32_t (*check)(const gluond_call* call, gluond_error* error);
  // How many of `inputs`, the first ones, a call has, and how many outputs; where attributes decide that.
  uint32_t (*count_inputs)(const gluond_call* call);
  uint32_t (*count_outputs)(const gluond_call* call);
  // Fills shapes that are not known from those that are, either way. Null: all inputs and outputs have one shape.
  int32_t (*infer_shape)(const gluond_call* call, gluond_shape* inputs, gluond_shape* outputs, gluond_error* error);
  // The same for types. Null: all have one type.
  int32_t (*infer_type)(const gluond_call* call, int32_t* inputs, int32_t* outputs, gluond_error* error);
  // Writes the gradient as a graph of operators, by api->graph_*. Null: it cannot be differentiated.
  int32_t (*gradient)(const gluond_call* call, gluond_graph* graph, gluond_error* error);
  // The kernels. requests[i] says how outputs[i] is to be written.
  int32_t (*compute_cpu)(const gluond_call* call, const gluond_run* run, const gluond_tensor* inputs, const int32_t* requests,
                         const gluond_tensor* outputs, gluond_error* error);
  int32_t (*compute_gpu)(const gluond_call* call, const gluond_run* run, const gluond_tensor* inputs, const int32_t* requests,
                         const gluond_tensor* outputs, gluond_error* error);
} gluond_op_facts;

// The server's functions. The table lives as long as the process.
struct gluond_op_api {
  size_t size;
  uint32_t version;
  uint32_t reserved;

  // GLUOND_OK, or an error, which the server has noted: it does not start then.
  int32_t (*register_op)(gluond_registration* registration, const gluond_op_facts* facts);
  // Says why a function fails. Returns `code`.
  int32_t (*fail)(gluond_error* error, int32_t code, const char* text);

  // Space for this run, 64-byte aligned, on its device. Null: there is none, and `error` says so; return
  // GLUOND_RESOURCE_EXHAUSTED.
  void* (*scratch)(const gluond_run* run, size_t bytes, gluond_error* error);
  // Calls body(user, begin, end) for pieces of [0, n), of at least `grain` each, on the threads of the CPU; returns when all have
  // run.
  void (*parallel_for)(const gluond_run* run, int64_t n, int64_t grain, void (*body)(void* user, int64_t begin, int64_t end),
                       void* user);

  // Entries of a graph, by number; 0 is none. A mistake gives 0 and ends the gradient with an error.
  uint32_t (*graph_input)(gluond_graph* graph, uint32_t input);    // The call's own input.
  uint32_t (*graph_output)(gluond_graph* graph, uint32_t output);  // Its own output.
  uint32_t (*graph_head)(gluond_graph* graph, uint32_t output);    // The gradient of its output.
  // Output 0 of a call of an operator of the server's or a library's. `attributes`: names and texts in turn, and a null.
  uint32_t (*graph_node)(gluond_graph* graph, const char* op, const uint32_t* inputs, uint32_t num_inputs,
                         const char* const* attributes);
  // Another output of the call that `entry` is an output of.
  uint32_t (*graph_result)(gluond_graph* graph, uint32_t entry, uint32_t output);
  // Makes `entry` the gradient of the call's input. Inputs without one have none.
  int32_t (*graph_gradient)(gluond_graph* graph, uint32_t input, uint32_t entry);
};

typedef struct gluond_op_library {
  size_t size;
  uint32_t version;  // Both as of the header by which the library was compiled.
  uint32_t reserved;
  int32_t (*register_operators)(const gluond_op_api* api, gluond_registration* registration);
} gluond_op_library;

#define GLUOND_EXPORT __attribute__((visibility("default")))

// The one symbol of a library.
extern GLUOND_EXPORT const gluond_op_library gluond_operator_library;
#define GLUOND_OPERATOR_LIBRARY(function) \
  const gluond_op_library gluond_operator_library = {sizeof(gluond_op_library), GLUOND_OP_VERSION, 0, function}

#ifdef __cplusplus
}
#endif

#endif  // GLUOND_OP_H_
