"""Attacks a server with each row of table.py, and prints the attacker's answers and a bystander's report.

usage: run [--seconds=10] [--server=PATH] [--json=FILE] [--asks_nobody] [ROW...]

Waits are milliseconds; memory is the server's peak, of --max_memory_bytes=2 GiB, and of 1 GiB beside strangers. With
--asks_nobody the server has no identities. Run it on a quiet machine.
"""

import argparse
import json
import pathlib
import subprocess
import unittest

from tests.fault import battle, table
from tests.server import running_server


def memory_flag(row, binary):
    """The server's memory limit; a server of another time may not know it."""
    known = subprocess.run([binary, "--helpfull"], capture_output=True, text=True).stdout
    return [f"--max_memory_bytes={row.memory}"] if "--max_memory_bytes" in known else []


def line(row, outcome):
    report = outcome.report
    verdict = [f"{n} x {text}" for text, n in {**report["errors"], **report["health_errors"]}.items()]
    if not outcome.same_bits:
        verdict.append("other bits")
    if outcome.exit_code not in battle.ENDED:
        verdict.append(f"server ended with {outcome.exit_code}")
    told = "; ".join(f"{n} x {text}" for text, n in outcome.told.most_common(4))
    return (
        f"| {row.name} | {row.does} | {told} | {1000 * outcome.worst:.0f} | {1000 * outcome.p99():.0f} | "
        f"{1000 * outcome.worst_health:.0f} | {report['steps']} | {outcome.peak >> 20} | "
        f"{'; '.join(verdict) or 'no error, same bits'} |"
    )


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--server", type=pathlib.Path, default=running_server.BINARY)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--asks_nobody", action="store_true")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    options = parser.parse_args()
    figures = {}
    print("| attack | what the attacker does | what he is told | worst wait | 99% | health | steps | MiB | bystander |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in options.rows or table.ROWS:
        row = table.ROWS[name]
        try:
            outcome = battle.fight(
                row, options.seconds, options.server, memory_flag(row, options.server), knows_callers=not options.asks_nobody
            )
        except unittest.SkipTest as skipped:
            print(f"| {row.name} | {row.does} | {skipped} | | | | | | |", flush=True)
            continue
        print(line(row, outcome), flush=True)
        figures[name] = {
            "worst": outcome.worst,
            "p99": outcome.p99(),
            "health": outcome.worst_health,
            "peak": outcome.peak,
            "told": outcome.told,
            "errors": outcome.report["errors"],
            "same_bits": outcome.same_bits,
            "exit_code": outcome.exit_code,
            "unexpected": row.unexpected(outcome.told),
            "last_words": outcome.last_words,
        }
        if options.json:
            options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
