"""One row's attack, in a process of its own: attacker.py ADDRESS SECONDS ROW. Prints the server's answers, as JSON."""

import json
import os
import sys

from tests.fault.table import ROWS, Target


def main():
    address, seconds, name = sys.argv[1:]
    told = ROWS[name].attack(Target.begin(address, float(seconds), ROWS[name]))
    print(json.dumps({text: count for text, count in told.items() if count}), flush=True)
    os._exit(0)  # Without a wait for the threads that still attack.


if __name__ == "__main__":
    main()
