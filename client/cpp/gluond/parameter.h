// Parameter is an array that a block keeps, and that a Trainer changes. Copies are the same parameter.
//
//   gluon::Parameter weight = params().Get("weight", {.shape = {10, 0}});   // 0: the first batch tells.
//
// A parameter gets its values by Initialize; where its shape is not known by then, with the first batch.

#ifndef GLUOND_PARAMETER_H_
#define GLUOND_PARAMETER_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gluond/export.h"
#include "gluond/ndarray.h"
#include "gluond/place.h"
#include "gluond/symbol.h"
#include "gluond/types.h"
#include "gluond/value.h"

namespace gluond::client {
struct ParameterState;

namespace gluon {

struct ParameterOptions {
  Shape shape = {};  // 0: not known before the first batch. Empty: nothing is known.
  DType dtype = DType::kFloat32;
  // The values that it begins with: Named("Xavier"). Default: those of Block::Initialize.
  Component initializer = {};
  GradReq grad_req = GradReq::kWrite;
  double lr_mult = 1;
  double wd_mult = 1;
};

struct InitializeOptions {
  std::string device = "";    // Default: the session's.
  bool force_reinit = false;  // Otherwise parameters that have values keep them.
};

class GLUOND_EXPORT Parameter {
 public:
  Parameter() = default;
  explicit Parameter(std::string name, ParameterOptions options = {});
  bool is_defined() const { return state_ != nullptr; }

  const std::string& name() const;
  Shape shape() const;
  DType dtype() const;
  bool is_initialized() const;

  void Initialize(const Component& initializer = {}, const InitializeOptions& options = {}, Place place = Place::Here());
  // The value; a poisoned array: there is none yet, and why.
  NDArray data(Place place = Place::Here()) const;
  NDArray grad(Place place = Place::Here()) const;
  void SetData(const NDArray& data, Place place = Place::Here());
  void ZeroGrad(Place place = Place::Here());

  GradReq grad_req() const;
  void set_grad_req(GradReq request);
  double lr_mult() const;
  void set_lr_mult(double lr_mult);
  double wd_mult() const;
  void set_wd_mult(double wd_mult);
  void Cast(DType dtype, Place place = Place::Here());

  // The parameter in a graph.
  Symbol Var() const;
  // Within Forward: the value, or the parameter in the graph.
  template <class X>
  X Get(Place place = Place::Here()) const {
    if constexpr (std::is_same_v<X, Symbol>) {
      return Var();
    } else {
      return data(place);
    }
  }

  bool Is(const Parameter& other) const { return state_ == other.state_; }

  // For the library itself.
  explicit Parameter(std::shared_ptr<ParameterState> state) : state_(std::move(state)) {}
  const std::shared_ptr<ParameterState>& state() const { return state_; }

 private:
  std::shared_ptr<ParameterState> state_;
};

// A parameter that no trainer changes.
class GLUOND_EXPORT Constant : public Parameter {
 public:
  Constant(std::string name, const Tensor& value, Place place = Place::Here());
};

// Parameters by name, in the order of their making. Copies are the same dictionary.
class GLUOND_EXPORT ParameterDict {
 public:
  explicit ParameterDict(std::string prefix = "");

  const std::string& prefix() const;
  // The parameter `prefix + name`, which is made where there is none.
  Parameter Get(const std::string& name, ParameterOptions options = {});
  // The parameter of this whole name; not defined: there is none.
  Parameter Find(const std::string& name) const;
  void Add(const std::string& name, const Parameter& parameter);

  size_t size() const { return parameters_->size(); }
  std::vector<std::pair<std::string, Parameter>>::const_iterator begin() const { return parameters_->begin(); }
  std::vector<std::pair<std::string, Parameter>>::const_iterator end() const { return parameters_->end(); }

  void Initialize(const Component& initializer = {}, const InitializeOptions& options = {}, Place place = Place::Here());
  void ZeroGrad(Place place = Place::Here());

 private:
  std::string prefix_;
  std::shared_ptr<std::vector<std::pair<std::string, Parameter>>> parameters_;
};

}  // namespace gluon
}  // namespace gluond::client

#endif  // GLUOND_PARAMETER_H_
