// gluond: neural networks that a server trains and serves, for C++ programs. This header has the whole library, in the namespace
// gluond.
//
//   gluond::Client client = gluond::Client::Connect("127.0.0.1:50051").value();
//
// Programs link gluond::gluond, which gluondConfig.cmake defines, or what `pkg-config gluond` says. client/cpp/README.md tells more.

#ifndef GLUOND_GLUOND_H_
#define GLUOND_GLUOND_H_

#include "gluond/client.h"
#include "gluond/dtype.h"
#include "gluond/error.h"
#include "gluond/fields.h"
#include "gluond/model.h"
#include "gluond/network.h"
#include "gluond/options.h"
#include "gluond/tensor.h"
#include "gluond/types.h"
#include "gluond/value.h"
#include "gluond/version.h"

namespace gluond {

using namespace client;

}  // namespace gluond

#endif  // GLUOND_GLUOND_H_
