"""How the client speaks with the server. Nothing outside knows of messages, streams or processes.

connect.current() -> Session; session.submit(command) gives a command that nobody waits for, session.request(command)
waits for its Reply; encoding makes commands.
"""
