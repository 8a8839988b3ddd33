"""Operators that this process computes: `mx.operator`, `autograd.Function` and `mx.minpy` are made of this.

registry.py, operators.py and props.py hold the program's registrations; local.py has the arrays that a user's code
gets. An imperative call runs at once in this process (eager.py); functions.py keeps its state for the gradient, and
recorded.py has its results. A graph's operators are called back by the server: host.py has the stream, callbacks.py the
answers, hosts.py joins both, and graph.py answers symbols.
"""
