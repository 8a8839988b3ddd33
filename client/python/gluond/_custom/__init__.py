"""Operators that this process computes: `mx.operator`, `autograd.Function` and `mx.minpy` are made of this.

registry.py and props.py know what the program has registered; local.py has the arrays that a user's code gets. An
imperative call runs at once, here (eager.py); what it leaves for the gradient is kept in functions.py. A graph's
operators are called back by the server: host.py has the stream, callbacks.py the answers, graph.py what symbols ask.
"""
