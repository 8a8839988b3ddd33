# %% [markdown]
# # Coming back after a crash
#
# A server with a store keeps models, trainers, datasets and published versions. Here one is killed in the middle of a training, as a
# power cut would do it, and started again; the training ends with the same bits as one that nothing has disturbed.

# %%
import atexit
import os
import pathlib
import subprocess
import tempfile
import time

import numpy as np

import gluond as mx
from gluond import gluon

folder = tempfile.TemporaryDirectory()
port_file = pathlib.Path(folder.name) / "port"


def start(address):
    """A server that writes live checkpoints: a crash costs 200 steps at most."""
    port_file.unlink(missing_ok=True)
    server = subprocess.Popen(
        [
            os.environ.get("GLUOND_SERVER", "gluond-server"),
            f"--address={address}",
            "--devices=cpu",
            f"--store_dir={folder.name}/store",
            f"--port_file={port_file}",
            "--checkpoint_every=200steps",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not port_file.exists():
        time.sleep(0.05)
    return server, f"127.0.0.1:{port_file.read_text().strip()}"


server, address = start("127.0.0.1:0")
atexit.register(lambda: server.kill())
mx.connect(address)

# %%
rng = np.random.RandomState(1)
points = rng.randn(4096, 16).astype("float32")
classes = (points[:, :8].sum(axis=1) > points[:, 8:].sum(axis=1)).astype("float32")
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(256, activation="relu"), gluon.nn.Dropout(0.2), gluon.nn.Dense(2))


def define(name):
    return mx.remote.Model.define(
        name, net, (-1, 16), loss="SoftmaxCrossEntropyLoss", optimizer="adam", metrics="accuracy", initializer="xavier", seed=3
    )


calm, model = define("calm"), define("model")
calm.fit(points, classes, epochs=20, batch_size=32, progress=False)
expected = calm.predict(points)

# %% [markdown]
# The second training is the same, and its server is killed after the ninth epoch. `fit` waits for it for a minute, asks how many steps it
# still has, and goes on from there.


# %%
def crash(epoch, numbers):
    global server
    if epoch == 8:
        server.kill()
        server.wait()
        server, _ = start(address)


history = model.fit(points, classes, epochs=20, batch_size=32, progress=False, callbacks=[crash])
print(len(history["loss"]), "epochs,", model.describe().step, "steps")
same = (model.predict(points) == expected).all()
print("the same bits:", same)
assert same and model.describe().step == 20 * 128

# %% [markdown]
# A checkpoint is another way back: to a moment that one has chosen, also after a mistake.

# %%
before = model.predict(points[:4])
model.save_checkpoint("good")
model.fit(points, 1 - classes, epochs=1, progress=False)  # The wrong labels.
model.load_checkpoint("good", replace=True)
assert (model.predict(points[:4]) == before).all()

# %% [markdown]
# Arrays of one's own are in a session, which a crash takes, as it takes a program's variables. What `mx.save_session` has saved is on the
# disk, and `mx.attach` has it in any process (`client/python/examples/leave_and_come_back.py`).

# %%
mx.connect(address)  # A new session.
net = model.block()
key = mx.save_session("evening", net=net, note="stopped at dinner")
work = mx.attach("evening", key=key)
print(work.note, (work.net(mx.nd.array(points[:4])).asnumpy() == before).all())
mx.delete_session("evening")

mx.connect()
server.terminate()
server.wait()
folder.cleanup()
