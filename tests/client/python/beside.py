"""Code that runs beside the test: in threads, or in a forked child."""

import os
import signal
import sys
import threading
import time
import traceback


def in_threads(work, count):
    """Runs `work(number)` for each number below `count`, in a thread each, to the end."""
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def in_child(function):
    """Whether `function` returns true in a forked child. AssertionError: the child hangs."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if function() else 2
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(code)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            if status != 0:
                print(f"the child ended with {os.waitstatus_to_exitcode(status)}", file=sys.stderr)
            return status == 0
        time.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the child hangs")
