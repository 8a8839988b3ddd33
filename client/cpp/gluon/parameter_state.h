// ParameterState: a parameter behind its handles.

#ifndef GLUOND_CLIENT_CPP_GLUON_PARAMETER_STATE_H_
#define GLUOND_CLIENT_CPP_GLUON_PARAMETER_STATE_H_

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "client/cpp/session/core.h"
#include "gluond/parameter.h"

namespace gluond::client {

struct ParameterState {
  explicit ParameterState(std::string name) : name(std::move(name)), path(this->name) {}

  const std::string name;
  std::mutex mutex;
  std::string path;  // Its name in the network: random values depend on it. Guarded by mutex, as all from here on.
  gluon::ParameterOptions options;
  bool is_auxiliary = false;  // Operators write it.
  NDArray data;               // Not defined: it has no value yet.
  bool is_due = false;        // It gets one when its shape is known.
  Component fallback;         // The initializer, where options has none.
  std::string device;
};

// Whether each dimension is known.
bool IsKnown(const Shape& shape);
// Whether a value of this shape may be the parameter's, of whose own shape all or a part may be unknown.
bool Fits(const Shape& own, const Shape& given);
// Gives values to parameters whose shapes are known.
absl::Status Begin(SessionCore& session, absl::Span<const std::shared_ptr<ParameterState>> parameters, Place place);
// The parameter as a model has it, under this name.
Variable DescribeParameter(ParameterState& state, const std::string& name);
// Attaches the gradient that the parameter asks for.
void Attach(ParameterState& state, Place place);

}  // namespace gluond::client

#endif  // GLUOND_CLIENT_CPP_GLUON_PARAMETER_STATE_H_
