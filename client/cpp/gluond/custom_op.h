// Operators that this program computes, as Python's mx.operator has them.
//
//   struct Sigmoid : CustomOp {
//     absl::Status Forward(const ForwardCall& call) override {
//       Assign(call.out_data[0], call.req[0], 1 / (1 + op::Exp(-call.in_data[0])));
//       return absl::OkStatus();
//     }
//     absl::Status Backward(const BackwardCall& call) override {
//       const NDArray& y = call.out_data[0];
//       Assign(call.in_grad[0], call.req[0], call.out_grad[0] * y * (1 - y));
//       return absl::OkStatus();
//     }
//   };
//   struct SigmoidProp : CustomOpProp {
//     std::unique_ptr<CustomOp> CreateOperator(const OperatorContext&) override { return std::make_unique<Sigmoid>(); }
//   };
//
//   Register<SigmoidProp>("sigmoid");
//   NDArray y = Custom({x}, "sigmoid");  // Also with symbols, in hybrid blocks.
//
// The server calls the program back, on threads of the library's own. Many calls may run at once. Values of arguments are in this
// process, and so are arrays that a body makes: a body that computes with Values() and NDArray::Of sends no command.

#ifndef GLUOND_CUSTOM_OP_H_
#define GLUOND_CUSTOM_OP_H_

#include <functional>
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
#include "absl/types/span.h"
#include "gluond/dtype.h"
#include "gluond/export.h"
#include "gluond/ndarray.h"
#include "gluond/place.h"
#include "gluond/symbol.h"
#include "gluond/tensor.h"
#include "gluond/value.h"

namespace gluond::client {

// The way in which a body gives a result.
enum class Req { kNull, kWrite, kInplace, kAdd };

struct ForwardCall {
  bool is_train;
  const std::vector<Req>& req;  // For each output.
  const std::vector<NDArray>& in_data;
  std::vector<NDArray>& out_data;  // To assign to. One that is not assigned is zeros.
  std::vector<NDArray>& aux;       // Auxiliary states, which may be changed.
};

struct BackwardCall {
  const std::vector<Req>& req;  // For each argument's gradient.
  const std::vector<NDArray>& out_grad;
  const std::vector<NDArray>& in_data;
  const std::vector<NDArray>& out_data;
  std::vector<NDArray>& in_grad;
  std::vector<NDArray>& aux;
};

// An operator's computation. An object is made for each forward pass, and serves its backward pass as well.
class GLUOND_EXPORT CustomOp {
 public:
  virtual ~CustomOp();
  // An error fails the run that needs the values, with its text, and nothing else. So does an exception.
  virtual absl::Status Forward(const ForwardCall& call) = 0;
  virtual absl::Status Backward(const BackwardCall& call);  // Default: gradients of zeros.

  // to = value, or to += value, or nothing.
  static void Assign(NDArray& to, Req req, const NDArray& value, Place place = Place::Here());
};

// Where an operator's arrays live, and their kinds: arguments, then auxiliary states.
struct OperatorContext {
  std::string device;
  std::vector<Shape> shapes;
  std::vector<DType> dtypes;
};

// The description of an operator's inputs and outputs. A class whose constructor takes KeywordArguments is given the attributes of
// the call, as text.
class GLUOND_EXPORT CustomOpProp {
 public:
  // need_top_grad: whether Backward reads out_grad; false for losses, which begin a gradient.
  explicit CustomOpProp(bool need_top_grad = true) : need_top_grad_(need_top_grad) {}
  virtual ~CustomOpProp();

  virtual std::vector<std::string> ListArguments() const { return {"data"}; }
  virtual std::vector<std::string> ListOutputs() const { return {"output"}; }
  virtual std::vector<std::string> ListAuxiliaryStates() const { return {}; }

  // Shapes of arguments, outputs and auxiliary states. Before all is known, an unknown size is -1, and a shape of which nothing is known is
  // absent; what is returned may leave the same unknown. Default: arguments as they are, outputs like the first.
  using MaybeShape = std::optional<Shape>;
  struct Shapes {
    std::vector<MaybeShape> arguments = {}, outputs = {}, auxiliary = {};
  };
  virtual absl::StatusOr<Shapes> InferShape(const std::vector<MaybeShape>& arguments) const;
  // The same for dtypes. Default: all as the first.
  using MaybeType = std::optional<DType>;
  struct Types {
    std::vector<MaybeType> arguments = {}, outputs = {}, auxiliary = {};
  };
  virtual absl::StatusOr<Types> InferType(const std::vector<MaybeType>& arguments) const;

  // The numbers of the arrays that Backward reads; others are neither kept nor sent. Default: all, out_grad with need_top_grad.
  virtual std::vector<int> DeclareBackwardDependency(const std::vector<int>& out_grad, const std::vector<int>& in_data,
                                                     const std::vector<int>& out_data) const;

  virtual std::unique_ptr<CustomOp> CreateOperator(const OperatorContext& context) = 0;

 protected:
  const bool need_top_grad_;
};

using KeywordArguments = std::map<std::string, std::string>;

// A registration: how a Prop is made, and which rules it leaves to the server.
struct GLUOND_EXPORT CustomOpClass {
  std::function<std::unique_ptr<CustomOpProp>(const KeywordArguments&)> make;
  bool same_shape = false;  // It has the default InferShape, ...
  bool same_dtype = false;  // ... InferType.
};

// Registers an operator under a name; another one of that name is replaced. shared: graphs of other clients may use it, too, while
// this program runs. An error: the server of the current session does not take the shared name.
GLUOND_EXPORT absl::Status RegisterClass(const std::string& name, CustomOpClass registered, bool shared = false);

template <class Prop>
absl::Status Register(const std::string& name, bool shared = false) {
  CustomOpClass registered;
  registered.make = [](const KeywordArguments& arguments) -> std::unique_ptr<CustomOpProp> {
    if constexpr (std::is_constructible_v<Prop, const KeywordArguments&>) {
      return std::make_unique<Prop>(arguments);
    } else {
      (void)arguments;
      return std::make_unique<Prop>();
    }
  };
  registered.same_shape = std::is_same_v<decltype(&Prop::InferShape), decltype(&CustomOpProp::InferShape)>;
  registered.same_dtype = std::is_same_v<decltype(&Prop::InferType), decltype(&CustomOpProp::InferType)>;
  return RegisterClass(name, std::move(registered), shared);
}

// Lets graphs of other clients use a registered operator. An error: the name is another client's on the server.
GLUOND_EXPORT absl::Status Share(const std::string& name);

// The key of this program's operators, 16 to 128 bytes: a program that is started anew with its key goes on where it ended. For
// sessions that are opened from then on. Default: a random one.
GLUOND_EXPORT void SetOperatorKey(std::string key);

// Calls an operator: this program's, or with `shared` another one's that has an argument `data` and an output `output`.
GLUOND_EXPORT std::vector<NDArray> CustomAll(absl::Span<const NDArray> inputs, const std::string& op_type,
                                             const Attributes& attributes = {}, Place place = Place::Here());
GLUOND_EXPORT std::vector<Symbol> CustomAll(absl::Span<const Symbol> inputs, const std::string& op_type,
                                            const Attributes& attributes = {}, Place place = Place::Here());
// The first output.
GLUOND_EXPORT NDArray Custom(absl::Span<const NDArray> inputs, const std::string& op_type, const Attributes& attributes = {},
                             Place place = Place::Here());
GLUOND_EXPORT Symbol Custom(absl::Span<const Symbol> inputs, const std::string& op_type, const Attributes& attributes = {},
                            Place place = Place::Here());

}  // namespace gluond::client

#endif  // GLUOND_CUSTOM_OP_H_
