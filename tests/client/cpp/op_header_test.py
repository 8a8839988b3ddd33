"""Programs that call functions of gluond/op.h, and mistakes that compilers find in such programs."""

import pathlib
import re
import subprocess
import unittest

from tests import case_runner

COMPILERS = "g++", "clang++"
PROGRAM = """
#include <gluond/gluond.h>
using namespace gluond;
template <class X>
X Forward(const X& x, const X& w, const X& b) {
  %s
}
template NDArray Forward(const NDArray&, const NDArray&, const NDArray&);
template Symbol Forward(const Symbol&, const Symbol&, const Symbol&);
"""
NAMED = """
  X y = op::FullyConnected(x, w, b, {.num_hidden = 10});
  y = op::FullyConnected(x, w, {.num_hidden = 10, .no_bias = true});
  y = op::FullyConnected(x, w, {}, {.num_hidden = 10, .no_bias = true});
  y = op::Convolution(y, w, b, {.kernel = {3, 3}, .pad = {1, 1}, .num_filter = 8});
  y = op::Pooling(y, {.kernel = {2, 2}, .pool_type = op::PoolingType::kAvg, .layout = op::PoolingLayout::kNCHW});
  y = op::Relu(op::BatchNorm(y, w, b, w, b, {.fix_gamma = false})) + 1;
  y = op::Concat({op::Concat({y, x}), op::Split(x, {.num_outputs = 2})[1]}, {.dim = 0});
  y = op::Sum(op::Sum(op::Sum(y, {.axis = {0, 1}}), {.axis = 1, .keepdims = true}));
  y = op::SliceAxis(op::Slice(y, {.begin = {0, std::nullopt}, .end = {std::nullopt, 2}}), {.axis = 0, .begin = 1, .end = std::nullopt});
  y = op::RNN(x, w, b, {}, y, {.state_size = 4, .num_layers = 1, .mode = op::RNNMode::kGru, .use_sequence_length = true});
  y = op::Transpose(op::Cast(y, {.dtype = DType::kFloat16}), {.axes = Shape{1, 0}});
  y = op::LeakyReLU(op::LeakyReLU(y), w, {.act_type = op::LeakyReLUActType::kPrelu});
  y = op::random::Uniform<X>({.low = -1, .shape = {3}}) + op::Zeros<X>({.shape = {3}, .dtype = DType::kFloat64});
  return op::AddN({op::linalg::Gemm2(y, y, {.transpose_b = true}), op::contrib::BoxNms(y, {.overlap_thresh = 0.3})});
"""
SET = """
  op::FullyConnectedOptions options;
  options.num_hidden = 10;
  options.no_bias = true;
  op::PoolingOptions pooling;
  pooling.kernel = {2, 2};
  pooling.pool_type = op::PoolingType::kAvg;
  pooling.count_include_pad = false;
  op::SumOptions sum;
  sum.axis = 1;
  return op::Sum(op::Pooling(op::FullyConnected(x, w, options), pooling), sum);
"""


def compiled(compiler, standard, body):
    """How the compiler ends, and its text."""
    ran = subprocess.run(
        [compiler, f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-fsyntax-only", "-Iclient/cpp", "-x", "c++", "-"],
        input=PROGRAM % body, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    return ran.returncode, ran.stderr


class OpHeaderTest(unittest.TestCase):
    def compiles(self, standard, body):
        for compiler in COMPILERS:
            with self.subTest(compiler=compiler, standard=standard):
                self.assertEqual(compiled(compiler, standard, body), (0, ""))

    def is_refused(self, standard, body, pattern, compilers=COMPILERS):
        for compiler in compilers:
            with self.subTest(compiler=compiler, standard=standard):
                status, text = compiled(compiler, standard, body)
                self.assertNotEqual(status, 0)
                self.assertRegex(text, pattern)

    def test_attributes_are_named_in_cpp20(self):
        self.compiles("c++20", NAMED)

    def test_the_readmes_calls_compile(self):
        section = pathlib.Path("client/cpp/README.md").read_text().partition("\n## Operators\n")[2]
        calls = re.search(r"```cpp\n(.*?)```", section, re.DOTALL)[1].replace("NDArray", "X")
        self.compiles("c++20", f"X weight = w, bias = b, weight2 = w;\n{calls}\nreturn best;")

    def test_attributes_are_set_in_cpp17_and_in_cpp20(self):
        self.compiles("c++17", SET)
        self.compiles("c++20", SET)

    def test_a_misspelt_attribute_is_refused(self):
        self.is_refused("c++20", "return op::FullyConnected(x, w, b, {.num_hiden = 10});", "error: no (matching|viable)|num_hiden")
        self.is_refused(
            "c++20", "op::FullyConnectedOptions o{.num_hiden = 10}; return op::FullyConnected(x, w, b, o);", "num_hiden"
        )
        self.is_refused(
            "c++17", "op::FullyConnectedOptions o; o.num_hiden = 10; return op::FullyConnected(x, w, b, o);", "num_hiden"
        )

    def test_options_with_required_attributes_may_not_be_left_out(self):
        self.is_refused("c++17", "return op::FullyConnected(x, w);", "no matching function")

    def test_a_required_attribute_that_is_left_out_is_warned_of(self):
        body = "return op::FullyConnected(x, w, {.no_bias = true});"
        self.is_refused("c++20", body, "num_hidden.*missing-field-initializers", ["g++"])

    def test_another_operators_choice_is_refused(self):
        self.is_refused("c++20", "op::DropoutOptions o{.mode = op::RNNMode::kLstm}; return op::Dropout(x, o);", "RNNMode")

    def test_an_array_and_a_symbol_do_not_meet(self):
        self.is_refused("c++17", "return op::BroadcastAdd(x, Symbol()) + op::BroadcastAdd(x, NDArray());", "no matching function")


if __name__ == "__main__":
    case_runner.main()
