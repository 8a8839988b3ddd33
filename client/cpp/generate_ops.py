#!/usr/bin/python3
"""Writes the C++ client's functions of operators, from the registry's descriptions that //server/codec:list_operators prints.

    generate_ops.py OPERATORS_JSON OP_H OP_CC

OP_H declares, for each operator that Python's `mx.nd` has, a struct of its attributes and its function, on arrays and on symbols.
"""

import json
import re
import sys
import textwrap
from collections import namedtuple

# Namespaces of operators by the beginnings of their names, as Python has modules for them.
ROOMS = {"_contrib_": "contrib", "_random_": "random", "_sample_": "random", "_linalg_": "linalg", "_image_": "image"}
KEYWORDS = set(
    """alignas alignof and asm auto bitand bitor bool break case catch char class compl concept const constexpr continue default
    delete do double else enum explicit export extern false float for friend goto if inline int long mutable namespace new not
    operator or private protected public register requires return short signed sizeof static struct switch template this throw
    true try typedef typename union unsigned using virtual void volatile while xor""".split()
)
# Names that the functions' own parameters have, and those that declarations use.
PARAMETERS = {"options", "place"}
USED = set("Attributes Bounds DType Floats Ints NDArray Outputs Place Required Symbol ToAttributes Tuple".split())
TENSORS = "NDArray", "Symbol"
# Operators whose client takes attributes that the registry does not know, and says how many outputs there are.
OPEN = {"Custom"}
# Operators that have no function of their own, as another one's default does the same.
SAME = {"make_loss": "MakeLoss"}
ASKED = "kAskOutputs"
WIDTH = 132


class Clash(Exception):
    """Two things of one name."""


Call = namedtuple("Call", "choice inputs outputs")


def camel(name):
    """FullyConnected of itself, BroadcastAdd of broadcast_add."""
    return "".join(part[0].upper() + part[1:] for part in name.split("_") if part)


def identifier(name):
    """A name that is C++'s, or a parameter's, gets an underscore."""
    return f"{name}_" if name in KEYWORDS or name in PARAMETERS else name


def comment(text, indent=""):
    """Lines of a comment."""
    return textwrap.wrap(text, WIDTH, initial_indent=f"{indent}// ", subsequent_indent=f"{indent}// ", break_on_hyphens=False)


def number(text):
    """A literal of a number."""
    return repr(float(text)).removesuffix(".0") if "." in text or "e" in text else text


class Attribute:
    """A member of an options struct."""

    def __init__(self, proto, operator):
        self.key, self.name = proto["name"], identifier(proto["name"])
        self.required, self.text = proto.get("required", False), proto.get("default_value", "")
        self.decides = proto.get("decides", False)
        kind = proto["type"]
        self.optional = kind.endswith(" or None")
        self.kind = kind.removesuffix(" or None")
        self.values = proto.get("values", [])
        self.enum = self._enum(operator) if self.values else None
        if self.kind == "tuple of int" and self.optional and (self.required or self.text != "None"):
            self.kind, self.optional = "tuple of bounds", False  # Each element may be None.
        self.is_tuple = self.kind.startswith("tuple")
        self.description = proto.get("description", "")
        self.is_device = False

    def _enum(self, operator):
        """PoolingType of Pooling's pool_type: words with which the operator's name begins are left out."""
        words = self.key.split("_")
        while len(words) > 1 and operator.lower().startswith(words[0].lower()):
            words = words[1:]
        return operator + camel("_".join(words))

    @property
    def scalar(self):
        """The type of one value."""
        return (
            self.enum
            or {
                "boolean": "bool",
                "int": "int64_t",
                "long": "int64_t",
                "float": "double",
                "string": "std::string",
                "dtype": "DType",
                "tuple of int": "Ints",
                "tuple of float": "Floats",
                "tuple of bounds": "Bounds",
            }[self.kind]
        )

    @property
    def type(self):
        """The member's type."""
        if self.is_tuple:
            return self.scalar
        inner = f"std::optional<{self.scalar}>" if self.optional else self.scalar
        return f"Required<{inner}>" if self.required else inner

    @property
    def default(self):
        """The default in C++; None where it is required."""
        if self.required:
            return None
        if self.text == "None":
            return "{}"
        if self.enum:
            return f"{self.enum}::{constant(self.text)}"
        if self.is_tuple:
            items = [item.strip() for item in self.text.strip("()[]").split(",") if item.strip()]
            return f"{{{', '.join(map(number, items))}}}"
        if self.kind == "boolean":
            return {"True": "true", "False": "false"}[self.text]
        if self.kind == "string":
            return json.dumps(self.text)
        if self.kind == "dtype":
            return f"DType::k{self.text.capitalize()}"
        return number(self.text)


def constant(value):
    """kRnnRelu of rnn_relu."""
    return "k" + camel(value)


class Operator:
    """An operator with the names under which C++ has it, the first of them its own; each is (namespace, name)."""

    def __init__(self, entry):
        proto = entry["operator"]
        self.name, self.description = proto["name"], proto.get("description", "")
        self.inputs = [each["name"] for each in proto.get("inputs", [])]
        self.input_texts = [each.get("description", "") for each in proto.get("inputs", [])]
        self.variadic = any(each["type"].startswith("NDArray[]") for each in proto.get("inputs", []))
        assert not self.variadic or len(self.inputs) == 1, f"{self.name}: several inputs of which one is any number of them"
        self.differentiable = proto.get("differentiable", False)
        self.names = list(dict.fromkeys(filter(None, map(public_name, [self.name, *proto.get("aliases", [])]))))
        self.is_open = self.name in OPEN
        if not self.names:
            return
        parameters = [each for each in proto.get("parameters", []) if each["name"] != proto.get("variable_inputs")]
        self.attributes = [Attribute(each, self.own) for each in parameters]
        for each in self.attributes:
            each.is_device = each.key == "ctx" and not self.inputs  # A call without inputs is told where.
        self.calls = [
            Call(each["given"].get("attributes", {}), each["call"].get("inputs", []), len(each["call"].get("outputs", [])))
            for each in entry["calls"]
        ]
        assert self.calls, f"{self.name}: list_operators has no example of a call"
        self.needed = self._needed()

    @property
    def room(self):
        """The namespace within op."""
        return self.names[0][0]

    @property
    def own(self):
        """The function's name."""
        return self.names[0][1]

    @property
    def has_options(self):
        return bool(self.attributes) or self.is_open

    @property
    def needs_options(self):
        return any(each.required for each in self.attributes)

    @property
    def options(self):
        return f"{self.own}Options"

    def _needed(self):
        """How many inputs all calls have. Those behind them may be left out."""
        if self.variadic:
            return 1
        always = [name for name in self.inputs if all(name in call.inputs for call in self.calls)]
        assert always == self.inputs[: len(always)], f"{self.name}: an input that may be left out comes before one that may not"
        return len(always)

    @property
    def outputs(self):
        """An expression of the number of outputs."""
        return ASKED if self.is_open else self._count(self.calls, [each for each in self.attributes if each.decides])

    def _count(self, calls, deciding):
        counts = {call.outputs for call in calls}
        if len(counts) == 1:
            return str(counts.pop())
        if self.variadic and all(call.outputs == len(call.inputs) for call in calls):
            return f"static_cast<int>({self.inputs[0]}.size())"
        for each in deciding:
            if each.kind in ("int", "long") and all(str(call.outputs) == call.choice.get(each.key) for call in calls):
                value = f"options.{each.name}"
                return f"CountOf({value})"
        for each in deciding:
            values = {call.choice.get(each.key) for call in calls}
            if each.kind != "boolean" and not each.enum or len(values) < 2:
                continue
            parts = {
                value: self._count([call for call in calls if call.choice.get(each.key) == value], deciding) for value in values
            }
            if len(set(parts.values())) > 1 and ASKED not in parts.values():
                return self._chosen(each, parts)
        return ASKED

    def _chosen(self, attribute, parts):
        """The number of outputs by an attribute's value."""
        if attribute.kind == "boolean":
            return f"(options.{attribute.name} ? {parts['True']} : {parts['False']})"
        usual = max(sorted(set(parts.values())), key=list(parts.values()).count)
        text = usual
        for value in attribute.values:
            if parts.get(value, usual) != usual:
                condition = f"options.{attribute.name}"
                if attribute.required:
                    condition = f"{condition}.has_value() && {condition}.value()"
                text = f"({condition} == {qualified(self.room, attribute.enum)}::{constant(value)} ? {parts[value]} : {text})"
        return text

    def result(self, tensor):
        """The type of the result."""
        count = self.outputs
        if count == "1":
            return tensor
        return f"std::vector<{tensor}>" if count.isdigit() else f"Outputs<{tensor}>"


def public_name(name):
    """(namespace, name) in C++; None: the name is the server's own."""
    for beginning, room in ROOMS.items():
        if name.startswith(beginning):
            return room, camel(name[len(beginning) :])
    return None if name.startswith("_") else ("", camel(name))


def qualified(room, name):
    return f"{room}::{name}" if room else name


def named(operators):
    """The operators that C++ has, without names that another one's first name takes. Clash: two operators have one name."""
    public = [each for each in operators if each.names and each.name not in SAME]
    # MXNet's nd.random.uniform draws by numbers; by arrays it is nd.sample_uniform.
    for each in public:
        if each.name.startswith("_sample_") and ("_random_" + each.name[8:]) in {other.name for other in public}:
            each.names = [name for name in each.names if name[0] != "random"]
    owners = {}
    for each in public:
        if owners.setdefault(each.names[0], each) is not each:
            raise Clash(f"{each.name} and {owners[each.names[0]].name} are both {qualified(*each.names[0])} in C++")
    for each in public:
        each.names = [name for name in each.names if owners.setdefault(name, each) is each]
    taken = set()
    for each in public:
        things = [*each.names, *((each.room, attribute.enum) for attribute in each.attributes if attribute.enum)]
        things += [(room, f"{name}Options") for room, name in each.names if each.has_options]
        for thing in things:
            if thing in taken or thing[1] in USED:
                raise Clash(f"{each.name}: {qualified(*thing)} has another meaning in C++")
            taken.add(thing)
    return public


def struct(operator):
    """Lines of an operator's enumerations and attributes."""
    lines = []
    for each in operator.attributes:
        if each.enum:
            values = ", ".join(map(constant, each.values))
            lines += [*comment(f"{operator.name}'s {each.key}."), f"enum class {each.enum} : int {{ {values} }};", ""]
    if not operator.has_options:
        return lines
    lines.append(f"struct {operator.options} {{")
    for each in operator.attributes:
        text = each.description
        if each.is_device:
            text = "The array's device, as `gpu:0`; empty: the session's. A symbol's is its graph's."
        lines += comment(f"Required. {text}" if each.required else text, "  ")
        lines.append(f"  {each.type} {each.name}{'' if each.default is None else f' = {each.default}'};")
    if operator.is_open:
        lines += [*comment("All others, which go to the client that computes it.", "  "), "  Attributes others = {};"]
    return [*lines, "};", f"GLUOND_EXPORT Attributes ToAttributes(const {operator.options}& options);", ""]


def parameter_lists(operator, tensor, options, with_defaults=True):
    """(inputs given, their parameters) of each overload of a function."""
    span = f"absl::Span<const {tensor}> {operator.inputs[0]}" if operator.variadic else ""
    for given in range(operator.needed, len(operator.inputs) + 1):
        inputs = operator.inputs[:given]
        parameters = [span] if span else [f"const {tensor}& {identifier(each)}" for each in inputs]
        if operator.has_options:
            is_optional = with_defaults and given == operator.needed and not operator.needs_options
            parameters.append(f"const {options}& options{' = {}' if is_optional else ''}")
        parameters.append(f"Place place{' = Place::Here()' if with_defaults else ''}")
        yield inputs, ", ".join(parameters)


def declared(text):
    """A declaration in lines, of which the further ones are indented."""
    return textwrap.wrap(text, WIDTH, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)


def declarations(operator, name, options):
    """Lines that declare a function on arrays and on symbols."""
    if not operator.inputs:
        default = "" if operator.needs_options else " = {}"
        parameters = f"const {options}& options{default}, Place place = Place::Here()"
        return ["template <class X = NDArray>", *declared(f"GLUOND_EXPORT {operator.result('X')} {name}({parameters});")]
    return [
        line
        for tensor in TENSORS
        for _, parameters in parameter_lists(operator, tensor, options)
        for line in declared(f"GLUOND_EXPORT {operator.result(tensor)} {name}({parameters});")
    ]


def documentation(operator):
    """Lines of a comment."""
    lines = comment(operator.description or f"{operator.name}.")
    for name, text in zip(operator.inputs, operator.input_texts):
        lines += comment(f"{name}: {text}")
    return lines if operator.differentiable else [*lines, "// Has no gradient."]


def header(operators):
    """The public declarations."""
    lines = [
        "// The server's operators, as functions on arrays and on symbols. Written by client/cpp/generate_ops.py from the registry.",
        "//",
        "//   NDArray y = op::Activation(op::FullyConnected(x, weight, bias, {.num_hidden = 10}), {.act_type = op::ActivationType::kRelu});",
        "//",
        "// The attributes of FullyConnected are FullyConnectedOptions, in the registry's order: C++20 names them within braces, C++17 sets",
        "// members of a variable. Inputs that some calls lack come last and may be left out. An operator that is not here is called by its",
        '// name: Invoke("name", {x}, {{"axis", 1}}).',
        "",
        "#ifndef GLUOND_OP_H_",
        "#define GLUOND_OP_H_",
        "",
        "#include <cstdint>",
        "#include <optional>",
        "#include <string>",
        "#include <vector>",
        "",
        '#include "absl/types/span.h"',
        '#include "gluond/dtype.h"',
        '#include "gluond/export.h"',
        '#include "gluond/op_types.h"',
        '#include "gluond/place.h"',
        '#include "gluond/value.h"',
        "",
        "namespace gluond::client {",
        "",
        "class NDArray;",
        "class Symbol;",
        "",
        "namespace op {",
    ]
    for room in sorted({operator.room for operator in operators}):
        lines += [f"\nnamespace {room} {{"] if room else []
        for operator in operators:
            if operator.room == room:
                lines += ["", *struct(operator), *documentation(operator), *declarations(operator, operator.own, operator.options)]
        lines += ["", f"}}  // namespace {room}"] if room else []
    for operator in operators:
        for room, name in operator.names[1:]:
            own = qualified(operator.room, operator.own)
            lines += ["", f"namespace {room} {{"] if room else [""]
            lines.append(f"// Another name of {own}.")
            if operator.has_options:
                lines.append(f"using {name}Options = op::{own}Options;")
            lines += declarations(operator, name, f"{name}Options")
            lines += [f"}}  // namespace {room}"] if room else []
    return [*lines, "", "}  // namespace op", "}  // namespace gluond::client", "", "#endif  // GLUOND_OP_H_"]


def texts(operator):
    """Lines that make texts of an operator's attributes."""
    lines = []
    for each in operator.attributes:
        if each.enum:
            names = ", ".join(json.dumps(value) for value in each.values)
            lines.append(f"static constexpr const char* kNamesOf{each.enum}[] = {{{names}}};")
    lines += [f"Attributes ToAttributes(const {operator.options}& options) {{", "  AttributeTexts texts;"]
    for each in operator.attributes:
        if each.is_device:
            continue
        default = "" if each.default is None else f", {each.type}{{}}" if each.default == "{}" else f", {each.type}({each.default})"
        names = f", kNamesOf{each.enum}" if each.enum else ""
        lines.append(f"  texts.Add({json.dumps(each.key)}, options.{each.name}{default}{names});")
    if operator.is_open:
        lines.append("  texts.Add(options.others);")
    return [*lines, "  return texts.Take();", "}", ""]


def called(operator, inputs, tensor):
    """The expression that calls an operator."""
    attributes = "ToAttributes(options)" if operator.has_options else "{}"
    given = operator.inputs[0] if operator.variadic else f"{{{', '.join('&' + identifier(each) for each in inputs)}}}"
    count = operator.outputs
    name = json.dumps(operator.name)
    if not operator.inputs:
        return f"Made<{tensor}>({name}, {attributes}, options.ctx, place)"
    if count == "1":
        return f"One<{tensor}>({name}, {given}, {attributes}, place)"
    return f"Several<{tensor}>({name}, {given}, {attributes}, {count}, place)"


def bodies(operator, name):
    """Lines of an operator's functions on arrays and on symbols, under one of its names."""
    options, lines = f"{name}Options", []
    if not operator.inputs:
        lines = ["template <class X>", *declared(f"X {name}(const {options}& options, Place place) {{")]
        lines += [f"  return {called(operator, [], 'X')};", "}"]
        return lines + [f"template GLUOND_EXPORT {each} {name}<{each}>(const {options}&, Place);" for each in TENSORS]
    for tensor in TENSORS:
        for inputs, parameters in parameter_lists(operator, tensor, options, with_defaults=False):
            lines += declared(f"{operator.result(tensor)} {name}({parameters}) {{")
            lines += [f"  return {called(operator, inputs, tensor)};", "}"]
    return lines


def source(operators):
    """The definitions."""
    lines = ['#include "gluond/op.h"', "", '#include "client/cpp/attribute_texts.h"', '#include "client/cpp/op_call.h"', ""]
    lines += ["namespace gluond::client::op {", "", *(f"template class Outputs<{tensor}>;" for tensor in TENSORS)]
    for operator in operators:
        for room, name in operator.names:
            lines += ["", f"namespace {room} {{"] if room else [""]
            lines += texts(operator) if operator.has_options and (room, name) == operator.names[0] else []
            lines += bodies(operator, name)
            lines += [f"}}  // namespace {room}"] if room else []
    return [*lines, "", "}  // namespace gluond::client::op"]


def operators_of(path):
    """The operators of a file of list_operators that C++ has."""
    with open(path, encoding="utf-8") as file:
        return named([Operator(entry) for entry in json.load(file)["operators"]])


def main(operators, *paths):
    operators = operators_of(operators)
    for path, lines in zip(paths, (header(operators), source(operators))):
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
