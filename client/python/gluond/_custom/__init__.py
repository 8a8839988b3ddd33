"""Operators that this process computes: `mx.operator`, `autograd.Function` and `mx.minpy` are made of this.

registry.py, operators.py and props.py know what the program has registered; local.py has the arrays that a user's code gets.
An imperative call runs at once, here (eager.py); what it leaves for the gradient is kept in functions.py, and its results are
recorded.py's. A graph's operators are called back by the server: host.py has the stream, callbacks.py the answers, hosts.py
brings both together, and graph.py says what symbols ask.
"""
