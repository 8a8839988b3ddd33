// gluond: neural networks that a server trains and serves, for C++ programs. This header has the whole library, in the namespace
// gluond.
//
//   gluond::Client client = gluond::Client::Connect("127.0.0.1:50051").value();
//
// Programs link gluond::gluond, which gluondConfig.cmake defines, or what `pkg-config gluond` says. client/cpp/README.md tells more.

#ifndef GLUOND_GLUOND_H_
#define GLUOND_GLUOND_H_

#include "gluond/any_metric.h"
#include "gluond/autograd.h"
#include "gluond/block.h"
#include "gluond/client.h"
#include "gluond/custom_op.h"
#include "gluond/data.h"
#include "gluond/dlpack.h"
#include "gluond/dtype.h"
#include "gluond/error.h"
#include "gluond/fields.h"
#include "gluond/files.h"
#include "gluond/function.h"
#include "gluond/initializer.h"
#include "gluond/layer.h"
#include "gluond/loss.h"
#include "gluond/metric.h"
#include "gluond/model.h"
#include "gluond/ndarray.h"
#include "gluond/network.h"
#include "gluond/nn.h"
#include "gluond/op.h"
#include "gluond/optimizer.h"
#include "gluond/options.h"
#include "gluond/parameter.h"
#include "gluond/place.h"
#include "gluond/session.h"
#include "gluond/symbol.h"
#include "gluond/tensor.h"
#include "gluond/trainer.h"
#include "gluond/types.h"
#include "gluond/value.h"
#include "gluond/version.h"

namespace gluond {

using namespace client;

}  // namespace gluond

#endif  // GLUOND_GLUOND_H_
