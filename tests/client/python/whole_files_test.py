"""Files that the package writes are whole: where writing fails, the file that was there is as it was."""

import contextlib
import io
import os
import pathlib
import resource
import tempfile
import unittest
from unittest import mock

import gluond as mx
from gluond import autograd, gluon, nd
from gluond._files import write_whole
from gluond.gluon import nn
from gluond.progress import Progress
from tests import case_runner


@contextlib.contextmanager
def full_disk():
    """No file can grow beyond 16 bytes within."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def writers():
    """{name: function of a prefix} of all that write files."""
    net = nn.HybridSequential()
    net.add(nn.Dense(3), nn.Dense(2))
    net.initialize()
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam")
    with autograd.record():
        loss = net(nd.ones((4, 5))).sum()
    loss.backward()
    trainer.step(4)
    module = mx.mod.Module(net(mx.sym.var("data")), label_names=())
    module.bind([("data", (4, 5))])
    module.init_params()
    module.init_optimizer(optimizer="adam")
    store = mx.kv.create()
    store.set_optimizer(mx.optimizer.Adam())
    store.init(0, nd.zeros(3))
    store.push(0, nd.ones(3))
    bar = Progress(range(2), "epoch", every=0.0)
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        for _ in bar:
            bar.show(loss=1.0)
    return {
        "save": lambda prefix: nd.save(prefix, [nd.ones(9)]),
        "save_parameters": net.save_parameters,
        "export": net.export,
        "Block.save": net.save,
        "ParameterDict.save": net.collect_params().save,
        "save_states": trainer.save_states,
        "Symbol.save": net(mx.sym.var("data")).save,
        "save_checkpoint": lambda prefix: module.save_checkpoint(prefix, 1, save_optimizer_states=True),
        "mx.model.save_checkpoint": lambda prefix: mx.model.save_checkpoint(prefix, 1, module.symbol, *module.get_params()),
        "save_optimizer_states": module.save_optimizer_states,
        "kvstore": store.save_optimizer_states,
        "picture": bar.save,
    }


class WholeFilesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def contents(self):
        return {path.name: path.read_bytes() for path in self.folder.iterdir()}

    def test_a_full_disk_or_an_interrupt_leaves_the_old_files(self):
        for name, write in writers().items():
            with self.subTest(name):
                write(str(self.folder / name))
                before = {file: b"old" for file in self.contents()}
                for file in before:
                    (self.folder / file).write_bytes(b"old")
                with full_disk(), self.assertRaisesRegex(OSError, name):
                    write(str(self.folder / name))
                self.assertEqual(self.contents(), before)
                with mock.patch("os.fsync", side_effect=KeyboardInterrupt), self.assertRaises(KeyboardInterrupt):
                    write(str(self.folder / name))
                self.assertEqual(self.contents(), before)
                for file in before:
                    (self.folder / file).unlink()

    def test_a_file_keeps_its_permissions_and_a_new_one_has_those_of_any_new_file(self):
        old, new, plain = (self.folder / name for name in ("old", "new", "plain"))
        old.touch()
        old.chmod(0o640)
        plain.touch()
        for path in (old, new):
            write_whole(path, [b"1"])
        self.assertEqual([path.stat().st_mode & 0o777 for path in (old, new)], [0o640, plain.stat().st_mode & 0o777])

    def test_a_link_stays_a_link(self):
        (self.folder / "there").mkdir()
        link, file = self.folder / "link", self.folder / "there" / "file"
        link.symlink_to(file)
        write_whole(link, [b"1", b"2"])
        self.assertTrue(link.is_symlink())
        self.assertEqual(file.read_bytes(), b"12")

    def test_what_is_no_ordinary_file_is_written_in_place(self):
        write_whole("/dev/null", [b"1"])
        with self.assertRaisesRegex(OSError, "/dev/full"):
            write_whole("/dev/full", [b"1"])
        reader, writer = os.pipe()
        write_whole(f"/dev/fd/{writer}", [b"1"])
        self.assertEqual(os.read(reader, 9), b"1")

    def test_the_error_names_the_file(self):
        for path in (self.folder / "none" / "file", self.folder):
            with self.assertRaises(mx.base.MXNetError) as raised:
                write_whole(path, [b"1"])
            self.assertEqual(raised.exception.filename, str(path))

    def test_the_longest_names_are_written(self):
        write_whole(self.folder / ("n" * 255), [b"1"])
        self.assertEqual(list(self.contents()), ["n" * 255])


if __name__ == "__main__":
    case_runner.main()
