// Libraries that a server refuses: BAD says how each is bad.

#include <stdlib.h>
#include <unistd.h>

#include "gluond_op.h"

#define CRASHES_IN_CONSTRUCTOR 1
#define ABORTS_IN_CONSTRUCTOR 2
#define EXITS_IN_CONSTRUCTOR 3
#define CRASHES_IN_REGISTRATION 4
#define OTHER_VERSION 5
#define NO_SYMBOL 6
#define UNDEFINED_SYMBOL 7
#define DUPLICATE 8
#define TWICE 9
#define BAD_NAME 10
#define NOTHING 11
#define FAILS 12
#define DUPLICATE_ATTRIBUTE 13
#define WILD_POINTER 14
#define SHORT_SYMBOL 15
#define CRASHES_IN_CHECK 16

static int32_t compute(const gluond_call* call, const gluond_run* run, const gluond_tensor* in, const int32_t* requests,
                       const gluond_tensor* out, gluond_error* error) {
  (void)call, (void)run, (void)in, (void)requests, (void)out, (void)error;
  return GLUOND_OK;
}

#if BAD == CRASHES_IN_CHECK
static int32_t check(const gluond_call* call, gluond_error* error) {
  (void)error;
  return (int32_t)call->attributes[1000000000].integer;
}
#endif

#if BAD == CRASHES_IN_CONSTRUCTOR || BAD == ABORTS_IN_CONSTRUCTOR || BAD == EXITS_IN_CONSTRUCTOR
__attribute__((constructor)) static void construct(void) {
  (void)!write(STDERR_FILENO, "no\nlicence\n", 11);
  if (BAD == CRASHES_IN_CONSTRUCTOR) *(volatile int*)0 = 1;
  if (BAD == ABORTS_IN_CONSTRUCTOR) abort();
  _exit(7);
}
#endif

#if BAD == UNDEFINED_SYMBOL
extern int nobody_has_this(void);
int (*used)(void) = nobody_has_this;
#endif

static const gluond_input inputs[] = {{"data", "", 0}};
static const gluond_attribute twice[] = {{"a", "", "1", NULL, GLUOND_ATTR_INT, 0}, {"a", "", "1", NULL, GLUOND_ATTR_INT, 0}};

static int32_t register_operators(const gluond_op_api* api, gluond_registration* registration) {
  gluond_op_facts facts = {.sizes = GLUOND_SIZES, .name = "bad_one", .inputs = inputs, .num_inputs = 1, .num_outputs = 1,
                           .compute_cpu = compute};
  if (BAD == CRASHES_IN_REGISTRATION) *(volatile int*)0 = 1;
  if (BAD == NOTHING) return GLUOND_OK;
  if (BAD == FAILS) return GLUOND_INTERNAL;
  if (BAD == DUPLICATE) facts.name = "abs";
  if (BAD == BAD_NAME) facts.name = "a b\n";
  if (BAD == DUPLICATE_ATTRIBUTE) facts.attributes = twice, facts.num_attributes = 2;
  if (BAD == WILD_POINTER) facts.inputs = (const gluond_input*)8, facts.num_inputs = 3;
#if BAD == CRASHES_IN_CHECK
  facts.check = check;
#endif
  const int32_t code = api->register_op(registration, &facts);
  return BAD == TWICE ? api->register_op(registration, &facts) : code;
}

#if BAD == OTHER_VERSION
const gluond_op_library gluond_operator_library = {sizeof(gluond_op_library), 2, 0, register_operators};
#elif BAD == SHORT_SYMBOL
const gluond_op_library gluond_operator_library = {8, 1, 0, register_operators};
#elif BAD == NO_SYMBOL
const gluond_op_library another_name = {sizeof(gluond_op_library), 1, 0, register_operators};
#else
GLUOND_OPERATOR_LIBRARY(register_operators);
#endif
