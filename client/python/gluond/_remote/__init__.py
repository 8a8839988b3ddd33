"""Models and datasets of the server: the room behind `mx.remote`."""
