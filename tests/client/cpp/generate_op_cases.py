#!/usr/bin/python3
"""Writes CheckAllAttributes of check_attribute.h: generate_op_cases.py OPERATORS_JSON CASES_CC."""

import sys

from client.cpp import generate_ops


def main(operators, path):
    lines = ['#include "tests/client/cpp/check_attribute.h"', "", "namespace gluond::testing {", ""]
    lines += ["int CheckAllAttributes() {", "  int count = 0;"]
    for operator in generate_ops.operators_of(operators):
        options = "op::" + generate_ops.qualified(operator.room, operator.options)
        for each in operator.attributes:
            if not each.is_device:
                lines.append(f'  CheckAttribute("{operator.name}", "{each.key}", &{options}::{each.name}), ++count;')
    lines += ["  return count;", "}", "", "}  // namespace gluond::testing"]
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
