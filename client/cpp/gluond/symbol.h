// Symbol is a value of a graph that is not computed yet: an input, or an output of an operator. Hybrid blocks are traced with
// Symbols; what NDArray has, Symbol has under the same name.

#ifndef GLUOND_SYMBOL_H_
#define GLUOND_SYMBOL_H_

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "gluond/dtype.h"
#include "gluond/export.h"
#include "gluond/ndarray.h"
#include "gluond/place.h"
#include "gluond/tensor.h"
#include "gluond/value.h"

namespace gluond::client {

struct SymbolNode;

class GLUOND_EXPORT Symbol {
 public:
  // None, as an optional argument that is left out.
  Symbol() = default;
  bool is_defined() const { return node_ != nullptr; }

  static Symbol Variable(std::string name);
  // A symbol without a value: all that is made of it fails with the error.
  static Symbol Failed(absl::Status error, Place place = Place::Here());

  Symbol Copy(Place place = Place::Here()) const;
  Symbol AsType(DType dtype, Place place = Place::Here()) const;
  Symbol Reshape(const Shape& shape, Place place = Place::Here()) const;
  Symbol T(Place place = Place::Here()) const;
  Symbol Sum(Place place = Place::Here()) const;
  Symbol Mean(Place place = Place::Here()) const;
  Symbol At(std::initializer_list<Index> indices, Place place = Place::Here()) const;
  Symbol operator[](int64_t index) const { return At({Index(index)}, Place{}); }
  Symbol operator[](Range range) const { return At({Index(range)}, Place{}); }
  Symbol Detach(Place place = Place::Here()) const;

  // For the library itself.
  Symbol(std::shared_ptr<const SymbolNode> node, int output) : node_(std::move(node)), output_(output) {}
  const std::shared_ptr<const SymbolNode>& node() const { return node_; }
  int output() const { return output_; }

 private:
  std::shared_ptr<const SymbolNode> node_;
  int output_ = 0;
};

struct GLUOND_EXPORT SymbolOperand {
  SymbolOperand(const Symbol& symbol, Place place = Place::Here()) : symbol(symbol), place(place) {}  // NOLINT
  SymbolOperand(double number, Place place = Place::Here()) : number(number), place(place) {}         // NOLINT
  SymbolOperand(int number, Place place = Place::Here()) : number(number), place(place) {}            // NOLINT

  Symbol symbol = {};
  double number = 0;
  Place place;
};

GLUOND_EXPORT Symbol operator+(const Symbol& a, const SymbolOperand& b);
GLUOND_EXPORT Symbol operator-(const Symbol& a, const SymbolOperand& b);
GLUOND_EXPORT Symbol operator*(const Symbol& a, const SymbolOperand& b);
GLUOND_EXPORT Symbol operator/(const Symbol& a, const SymbolOperand& b);
GLUOND_EXPORT Symbol operator==(const Symbol& a, const SymbolOperand& b);
GLUOND_EXPORT Symbol operator!=(const Symbol& a, const SymbolOperand& b);
GLUOND_EXPORT Symbol operator<(const Symbol& a, const SymbolOperand& b);
GLUOND_EXPORT Symbol operator<=(const Symbol& a, const SymbolOperand& b);
GLUOND_EXPORT Symbol operator>(const Symbol& a, const SymbolOperand& b);
GLUOND_EXPORT Symbol operator>=(const Symbol& a, const SymbolOperand& b);
GLUOND_EXPORT Symbol operator+(double a, const SymbolOperand& b);
GLUOND_EXPORT Symbol operator-(double a, const SymbolOperand& b);
GLUOND_EXPORT Symbol operator*(double a, const SymbolOperand& b);
GLUOND_EXPORT Symbol operator/(double a, const SymbolOperand& b);
GLUOND_EXPORT Symbol operator-(const Symbol& a);

// As for NDArrays.
GLUOND_EXPORT std::vector<Symbol> Invoke(absl::string_view op, absl::Span<const Symbol> inputs, const Attributes& attributes = {},
                                         int outputs = kAskOutputs, Place place = Place::Here());
GLUOND_EXPORT Symbol Invoke1(absl::string_view op, absl::Span<const Symbol> inputs, const Attributes& attributes = {},
                             Place place = Place::Here());

}  // namespace gluond::client

#endif  // GLUOND_SYMBOL_H_
