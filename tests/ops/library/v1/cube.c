// A library in C by version 1 of the header: cube, whose gradient is a graph, and which does all that the header offers.

#include <stdio.h>

#include "gluond_op.h"

static const gluond_op_api* gluond;

struct piece {
  const gluond_call* call;
  const gluond_tensor *in, *out;
  float* powers;
  int32_t request;
};

static void compute_piece(void* user, int64_t begin, int64_t end) {
  const struct piece* p = user;
  const float* x = p->in->data;
  float* y = p->out->data;
  for (int64_t i = begin; i < end; ++i) p->powers[i] = x[i] * x[i] * x[i];
  for (int64_t i = begin; i < end; ++i) {
    const float value = p->powers[i] * (float)p->call->attributes[0].number;
    y[i] = p->request == GLUOND_ADD_TO ? y[i] + value : value;
  }
}

static int32_t compute(const gluond_call* call, const gluond_run* run, const gluond_tensor* in, const int32_t* requests,
                       const gluond_tensor* out, gluond_error* error) {
  if (requests[0] == GLUOND_NULL_OP) return GLUOND_OK;
  if (in->size > 1000000) return gluond->fail(error, GLUOND_UNIMPLEMENTED, "more than a million elements");
  float* powers = gluond->scratch(run, sizeof(float) * (size_t)in->size, error);
  if (powers == NULL) return GLUOND_RESOURCE_EXHAUSTED;
  struct piece piece = {call, in, out, powers, requests[0]};
  gluond->parallel_for(run, in->size, 1024, compute_piece, &piece);
  return GLUOND_OK;
}

// dx = 3 scale x^2 dy.
static int32_t gradient(const gluond_call* call, gluond_graph* graph, gluond_error* error) {
  char factor[64];
  (void)error;
  snprintf(factor, sizeof(factor), "%.17g", 3 * call->attributes[0].number);
  const char* const attributes[] = {"scalar", factor, NULL};
  const uint32_t x = gluond->graph_input(graph, 0), dy = gluond->graph_head(graph, 0);
  const uint32_t square = gluond->graph_node(graph, "square", &x, 1, NULL);
  const uint32_t scaled = gluond->graph_node(graph, "_mul_scalar", &square, 1, attributes);
  const uint32_t factors[] = {scaled, dy};
  return gluond->graph_gradient(graph, 0, gluond->graph_node(graph, "elemwise_mul", factors, 2, NULL));
}

static const gluond_input inputs[] = {{"data", "Any shape.", 0}};
static const gluond_attribute attributes[] = {{"scale", "Multiplies the cube.", "1.0", NULL, GLUOND_ATTR_FLOAT, 0}};

static int32_t register_operators(const gluond_op_api* api, gluond_registration* registration) {
  gluond = api;
  const gluond_op_facts cube = {
      .sizes = GLUOND_SIZES,
      .name = "cube",
      .description = "y = scale x^3, elementwise.",
      .inputs = inputs,
      .num_inputs = 1,
      .num_outputs = 1,
      .num_attributes = 1,
      .attributes = attributes,
      .dtypes = 1 << GLUOND_DTYPE_FLOAT32,
      .gradient = gradient,
      .compute_cpu = compute,
  };
  return api->register_op(registration, &cube);
}

GLUOND_OPERATOR_LIBRARY(register_operators);
