#!/usr/bin/python3
"""Writes the C++ client's layers, losses, initializers, optimizers, learning rate schedules and metrics, from what
//server/codec:list_operators prints.

    generate_layers.py COMPONENTS_JSON NN_H LOSS_H INITIALIZER_H OPTIMIZER_H METRIC_H LAYERS_CC

Each is a struct of attributes, and a class or a function of the component's name: the server knows what it does.
"""

import json
import sys

from generate_ops import Attribute, camel, comment, constant

# Layers that hold others, which are given beside the attributes.
CONTAINERS = {
    "BidirectionalCell",
    "Concurrent",
    "HybridConcurrent",
    "HybridSequentialRNNCell",
    "Residual",
    "ResidualCell",
    "SequentialRNNCell",
    "VariationalDropoutCell",
    "ZoneoutCell",
}
# Layers that compute whole sequences, and have states.
RECURRENT = {"RNN", "LSTM", "GRU"}
# Metrics as Python's classes are called, where that is not their name.
METRICS = {
    "mcc": "MCC",
    "pcc": "PCC",
    "mae": "MAE",
    "mse": "MSE",
    "rmse": "RMSE",
    "nll-loss": "NegativeLogLikelihood",
    "pearsonr": "PearsonCorrelation",
    "top_k_accuracy": "TopKAccuracy",
}
# The client composes blocks of its own, and calls operators itself.
OURS = {"Sequential", "HybridSequential", "Lambda", "HybridLambda"}


class Field(Attribute):
    """An attribute of a component. Initializers are components themselves."""

    def about(self):
        """Its meaning, in a sentence or two."""
        if self.is_initializer:
            usual = "the network's" if self.text in ("", "None") else self.text
            return f"The values at the start, as initializer::Xavier(). Default: {usual}."
        return f"Required. {self.description}" if self.required else self.description

    @property
    def is_initializer(self):
        return self.key.endswith("_initializer") or self.key == "init"

    @property
    def type(self):
        if self.is_initializer:
            return "Component"
        return super().type.replace("Required<", "op::Required<").replace("Ints", "op::Ints").replace("Floats", "op::Floats")

    @property
    def default(self):
        return "{}" if self.is_initializer else super().default


class Entry:
    """A component: the namespace that has it, and its name there."""

    def __init__(self, proto, namespace):
        self.family, self.name, self.namespace = proto["family"], proto["name"], namespace
        self.own = self.name if self.family in ("BLOCK", "LOSS", "INITIALIZER") else camel(self.name.replace("-", "_"))
        if self.family == "METRIC":
            self.own = METRICS.get(self.name, self.own)
        self.description = proto.get("description", "")
        self.fields = [Field(each, self.own) for each in proto.get("arguments", [])]
        self.is_container = self.name in CONTAINERS

    @property
    def base(self):
        """The class that it derives from; None: it is a function."""
        if self.family == "BLOCK" and self.name in RECURRENT:
            return "gluon::RecurrentLayer"
        return {"BLOCK": "gluon::Layer", "LOSS": "gluon::Loss", "METRIC": "Metric"}.get(self.family)

    @property
    def options(self):
        return f"{self.own}Options"

    @property
    def needs_options(self):
        return any(each.required for each in self.fields)

    def parameters(self, with_default=True):
        """Of the constructor, or the function."""
        parameters = []
        if self.fields:
            default = " = {}" if with_default and not self.needs_options and not self.is_container else ""
            parameters.append(f"const {self.options}& options{default}")
        if self.is_container:
            parameters.append("const std::vector<gluon::BlockBase>& children")
        return ", ".join(parameters)

    def declaration(self):
        """Lines of the header."""
        lines = []
        for each in self.fields:
            if each.enum:
                values = ", ".join(map(constant, each.values))
                lines += [*comment(f"{self.name}'s {each.key}."), f"enum class {each.enum} : int {{ {values} }};", ""]
        if self.fields:
            lines.append(f"struct {self.options} {{")
            for each in self.fields:
                lines += comment(each.about(), "  ")
                lines.append(f"  {each.type} {each.name}{'' if each.default is None else f' = {each.default}'};")
            lines += ["};", f"GLUOND_EXPORT Attributes ToAttributes(const {self.options}& options);", ""]
        lines += comment(self.description or f"{self.name}.")
        if self.base is not None:
            lines += [
                f"class GLUOND_EXPORT {self.own} : public {self.base} {{",
                " public:",
                f"  {'explicit ' if self.parameters() else ''}{self.own}({self.parameters()});",
                "};",
                "",
            ]
        else:
            lines += [f"GLUOND_EXPORT Component {self.own}({self.parameters()});", ""]
        return lines

    def definition(self):
        """Lines of the source."""
        lines = []
        if self.fields:
            for each in self.fields:
                if each.enum:
                    names = ", ".join(json.dumps(value) for value in each.values)
                    lines.append(f"static constexpr const char* kNamesOf{each.enum}[] = {{{names}}};")
            lines += [f"Attributes ToAttributes(const {self.options}& options) {{", "  op::AttributeTexts texts;"]
            for each in self.fields:
                if each.is_initializer:
                    lines.append(
                        f"  if (!options.{each.name}.name.empty()) texts.Add({{{{{json.dumps(each.key)}, Value(options.{each.name})}}}});"
                    )
                    continue
                default = (
                    ""
                    if each.default is None
                    else f", {each.type}{{}}"
                    if each.default == "{}"
                    else f", {each.type}({each.default})"
                )
                names = f", kNamesOf{each.enum}" if each.enum else ""
                lines.append(f"  texts.Add({json.dumps(each.key)}, options.{each.name}{default}{names});")
            lines += ["  return texts.Take();", "}"]
        attributes = "ToAttributes(options)" if self.fields else "Attributes()"
        name = json.dumps(self.name)
        if self.family == "BLOCK":
            children = ", children" if self.is_container else ""
            lines.append(f"{self.own}::{self.own}({self.parameters(False)}) : {self.base}({name}, {attributes}{children}) {{}}")
        elif self.base is not None:
            lines.append(f"{self.own}::{self.own}({self.parameters(False)}) : {self.base}({name}, {attributes}) {{}}")
        else:
            lines.append(f"Component {self.own}({self.parameters(False)}) {{ return Named({name}, {attributes}); }}")
        return [*lines, ""]


def namespace_of(proto):
    """The namespace of a component; None: C++ has none of its own."""
    family, name = proto["family"], proto["name"]
    if family == "BLOCK":
        if name in OURS:
            return None
        return "rnn" if name.endswith("Cell") or name in RECURRENT else "nn"
    return {
        "LOSS": "loss",
        "INITIALIZER": "initializer",
        "OPTIMIZER": "optimizer",
        "LR_SCHEDULE": "lr_scheduler",
        "METRIC": "metric",
    }.get(family)


def header(about, guard, includes, namespaces, entries):
    """A header's lines."""
    lines = [*(f"// {line}".rstrip() for line in about), "", f"#ifndef {guard}", f"#define {guard}", ""]
    lines += ["#include <cstdint>", "#include <optional>", "#include <string>", "#include <vector>", ""]
    lines += [f'#include "gluond/{name}"' for name in includes]
    lines += ["", "namespace gluond::client {"]
    for namespace in namespaces:
        lines += ["", f"namespace {namespace} {{", ""]
        for entry in entries:
            if entry.namespace == namespace:
                lines += entry.declaration()
        lines.append(f"}}  // namespace {namespace}")
    return [*lines, "", "}  // namespace gluond::client", "", f"#endif  // {guard}"]


def main(components, nn_h, loss_h, initializer_h, optimizer_h, metric_h, layers_cc):
    with open(components, encoding="utf-8") as file:
        protos = json.load(file)["components"]
    entries = [Entry(proto, namespace_of(proto)) for proto in protos if namespace_of(proto) is not None]
    written = "Written by client/cpp/generate_layers.py from the server's own lists."
    values = ["dtype.h", "export.h", "op_types.h", "types.h", "value.h"]
    layers = ["dtype.h", "export.h", "layer.h", "op_types.h", "types.h", "value.h"]
    files = {
        nn_h: header(
            ["Gluon's layers. " + written, "", '  nn::Dense({.units = 10, .activation = "relu"})'],
            "GLUOND_NN_H_",
            layers,
            ["nn", "rnn"],
            entries,
        ),
        loss_h: header(
            [
                "Gluon's losses: one value for each sample. " + written,
                "",
                "  const loss::L2Loss loss_of;",
                "  NDArray loss = loss_of(prediction, label);",
            ],
            "GLUOND_LOSS_H_",
            layers,
            ["loss"],
            entries,
        ),
        initializer_h: header(
            ["The values that parameters begin with. " + written, "", "  net.Initialize(initializer::Xavier({.magnitude = 2}));"],
            "GLUOND_INITIALIZER_H_",
            values,
            ["initializer"],
            entries,
        ),
        optimizer_h: header(
            [
                "The rules by which gradients change parameters, and learning rates by the number of steps. " + written,
                "",
                "  gluon::Trainer trainer(net.CollectParams(), optimizer::Adam({.learning_rate = 0.001}));",
            ],
            "GLUOND_OPTIMIZER_H_",
            values,
            ["optimizer", "lr_scheduler"],
            entries,
        ),
        metric_h: header(
            [
                "How good predictions are. " + written,
                "",
                "  metric::TopKAccuracy accuracy({.top_k = 5});",
                "  accuracy.Update(label, prediction);",
                "  absl::StatusOr<double> share = accuracy.Get();",
            ],
            "GLUOND_METRIC_H_",
            ["any_metric.h", *values],
            ["metric"],
            entries,
        ),
    }
    source = [f'#include "gluond/{name}"' for name in ("initializer.h", "loss.h", "metric.h", "nn.h", "optimizer.h")]
    source += ["", '#include "client/cpp/attribute_texts.h"', "", "namespace gluond::client {"]
    for namespace in ("nn", "rnn", "loss", "initializer", "optimizer", "lr_scheduler", "metric"):
        source += ["", f"namespace {namespace} {{", ""]
        for entry in entries:
            if entry.namespace == namespace:
                source += entry.definition()
        source.append(f"}}  // namespace {namespace}")
    source += ["", "}  // namespace gluond::client"]
    files[layers_cc] = source
    for path, lines in files.items():
        with open(path, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
