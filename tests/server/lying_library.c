// A library that a server takes, and whose operators then lie. Each has the name of its lie.

#include <string.h>

#include "gluond_op.h"

static const gluond_op_api* gluond;

static int32_t compute(const gluond_call* call, const gluond_run* run, const gluond_tensor* in, const int32_t* requests,
                       const gluond_tensor* out, gluond_error* error) {
  (void)run, (void)error;
  if (requests[0] == GLUOND_NULL_OP || call->num_inputs == 0) return GLUOND_OK;
  const size_t from = (size_t)in[0].size, to = (size_t)out[0].size;
  if (in[0].dtype == GLUOND_DTYPE_FLOAT32 && out[0].dtype == GLUOND_DTYPE_FLOAT32) {
    memcpy(out[0].data, in[0].data, 4 * (from < to ? from : to));
  }
  return GLUOND_OK;
}

static int32_t fail(const gluond_call* call, const gluond_run* run, const gluond_tensor* in, const int32_t* requests,
                    const gluond_tensor* out, gluond_error* error) {
  (void)call, (void)run, (void)in, (void)requests, (void)out;
  return gluond->fail(error, GLUOND_FAILED_PRECONDITION, "the\nlicence has \xff ended");
}

static int32_t fail_strangely(const gluond_call* call, const gluond_run* run, const gluond_tensor* in, const int32_t* requests,
                              const gluond_tensor* out, gluond_error* error) {
  (void)call, (void)run, (void)in, (void)requests, (void)out, (void)error;
  return -12345;
}

static int32_t no_scratch(const gluond_call* call, const gluond_run* run, const gluond_tensor* in, const int32_t* requests,
                          const gluond_tensor* out, gluond_error* error) {
  (void)call, (void)in, (void)requests, (void)out;
  return gluond->scratch(run, (size_t)1 << 60, error) == NULL ? GLUOND_RESOURCE_EXHAUSTED : GLUOND_OK;
}

#define SHAPE(name, rank, first)                                                                                       \
  static int32_t name(const gluond_call* call, gluond_shape* in, gluond_shape* out, gluond_error* error) {             \
    (void)call, (void)in, (void)error;                                                                                 \
    out[0].ndim = rank;                                                                                                \
    for (int i = 0; i < GLUOND_MAX_RANK; ++i) out[0].dims[i] = first;                                                  \
    return GLUOND_OK;                                                                                                  \
  }
SHAPE(negative_dims, 2, -7)
SHAPE(huge_dims, 8, (int64_t)1 << 40)
SHAPE(large_dims, 1, (int64_t)1 << 47)
SHAPE(high_rank, 1000000, 1)
SHAPE(negative_rank, -5, 1)
SHAPE(never_known, -1, 1)

static int32_t changes_input(const gluond_call* call, gluond_shape* in, gluond_shape* out, gluond_error* error) {
  (void)call, (void)error;
  in[0].ndim = out[0].ndim = 1;
  in[0].dims[0] = out[0].dims[0] = 1000000;
  return GLUOND_OK;
}

static int32_t unknown_type(const gluond_call* call, int32_t* in, int32_t* out, gluond_error* error) {
  (void)call, (void)in, (void)error;
  out[0] = 77;
  return GLUOND_OK;
}

// The gradient of the input is of another shape than the input.
static int32_t wide_gradient(const gluond_call* call, gluond_graph* graph, gluond_error* error) {
  (void)call, (void)error;
  const uint32_t dy = gluond->graph_head(graph, 0);
  const uint32_t pair[] = {dy, dy};
  const char* const attributes[] = {"dim", "0", NULL};
  return gluond->graph_gradient(graph, 0, gluond->graph_node(graph, "concat", pair, 2, attributes));
}

static int32_t gradient_of_nothing(const gluond_call* call, gluond_graph* graph, gluond_error* error) {
  (void)call, (void)error;
  return gluond->graph_gradient(graph, 0, 99);
}

static int32_t gradient_of_unknown(const gluond_call* call, gluond_graph* graph, gluond_error* error) {
  (void)call, (void)error;
  return gluond->graph_gradient(graph, 0, gluond->graph_node(graph, "no_such_operator", NULL, 0, NULL));
}

static const gluond_input inputs[] = {{"data", "", 0}};

static int32_t register_operators(const gluond_op_api* api, gluond_registration* registration) {
  gluond = api;
#define OP(text, ...)                                                                                                       \
  do {                                                                                                                      \
    const gluond_op_facts facts = {.sizes = GLUOND_SIZES, .name = text, .inputs = inputs, .num_inputs = 1, .num_outputs = 1, \
                                   __VA_ARGS__};                                                                            \
    if (api->register_op(registration, &facts) != GLUOND_OK) return GLUOND_INTERNAL;                                        \
  } while (0)
  OP("honest", .compute_cpu = compute);
  OP("negative_dims", .infer_shape = negative_dims, .compute_cpu = compute);
  OP("huge_dims", .infer_shape = huge_dims, .compute_cpu = compute);
  OP("large_dims", .infer_shape = large_dims, .compute_cpu = compute);
  OP("high_rank", .infer_shape = high_rank, .compute_cpu = compute);
  OP("negative_rank", .infer_shape = negative_rank, .compute_cpu = compute);
  OP("never_known", .infer_shape = never_known, .compute_cpu = compute);
  OP("changes_input", .infer_shape = changes_input, .compute_cpu = compute);
  OP("unknown_type", .infer_type = unknown_type, .compute_cpu = compute);
  OP("fails", .compute_cpu = fail);
  OP("fails_strangely", .compute_cpu = fail_strangely);
  OP("no_scratch", .compute_cpu = no_scratch);
  OP("wide_gradient", .gradient = wide_gradient, .compute_cpu = compute);
  OP("gradient_of_nothing", .gradient = gradient_of_nothing, .compute_cpu = compute);
  OP("gradient_of_unknown", .gradient = gradient_of_unknown, .compute_cpu = compute);
  return GLUOND_OK;
}

GLUOND_OPERATOR_LIBRARY(register_operators);
