"""Recording, training, devices and names hold for the code within a `with` block, and for no other thread or coroutine."""

import asyncio
import threading
import unittest

import gluond as mx
from gluond import autograd, gluon, nd
from tests import case_runner

# Each: what code may be within, and what then holds there.
BLOCKS = {
    "record": (lambda: autograd.record(), autograd.is_recording),
    "train_mode": (lambda: autograd.train_mode(), autograd.is_training),
    "cpu(3)": (lambda: mx.cpu(3), lambda: mx.current_context() == mx.cpu(3)),
    "AttrScope": (lambda: mx.AttrScope(group="4"), lambda: mx.sym.var("x").attr("group") == "4"),
    "Prefix": (lambda: mx.name.Prefix("a_"), lambda: mx.sym.var("x").sum().name.startswith("a_")),
    "name_scope": (gluon.nn.Dense(2, prefix="d_").name_scope, lambda: gluon.nn.Dense(2).prefix.startswith("d_")),
}

# Each: a class, the attribute that is its default in this thread, a value for it, and what then holds.
ASSIGNED = {
    "Context.default_ctx": (mx.Context, "default_ctx", mx.cpu(3), lambda: nd.ones(1).context == mx.cpu(3)),
    "AttrScope.current": (mx.AttrScope, "current", mx.AttrScope(group="4"), lambda: mx.sym.var("x").attr("group") == "4"),
    "NameManager.current": (
        mx.name.NameManager,
        "current",
        mx.name.Prefix("a_"),
        lambda: mx.sym.var("x").sum().name.startswith("a_"),
    ),
}


def in_a_thread(function):
    """What the function gives in a thread of its own."""
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


def inside_and_outside(make, holds):
    """Whether it holds in a coroutine within the block, in another one meanwhile, and in the first one after the block."""
    found = []

    async def within(entered, seen):
        with make():
            entered.set()
            await seen.wait()
            found.append(holds())
        found.append(holds())

    async def beside(entered, seen):
        await entered.wait()
        found.append(holds())
        seen.set()

    async def both():
        entered, seen = asyncio.Event(), asyncio.Event()
        await asyncio.gather(within(entered, seen), beside(entered, seen))

    asyncio.run(both())
    return found


class FrameTest(unittest.TestCase):
    def test_an_assigned_default_holds_in_its_thread(self):
        for name, (klass, attribute, value, holds) in ASSIGNED.items():
            with self.subTest(name):

                def assigned():
                    setattr(klass, attribute, value)
                    return holds() and getattr(klass, attribute) is value

                self.assertTrue(in_a_thread(assigned))
                self.assertFalse(holds())

    def test_a_coroutine_keeps_its_own_while_others_run(self):
        for name, (make, holds) in BLOCKS.items():
            with self.subTest(name):
                self.assertEqual(inside_and_outside(make, holds), [False, True, False])

    def test_a_coroutine_begins_with_those_of_the_code_that_made_it(self):
        async def one():
            return autograd.is_recording()

        async def both():
            with autograd.record():
                task = asyncio.ensure_future(one())
            return await task, autograd.is_recording()

        self.assertEqual(asyncio.run(both()), (True, False))

    def test_a_thread_begins_with_the_defaults(self):
        for name, (make, holds) in BLOCKS.items():
            with self.subTest(name), make():
                self.assertTrue(holds())
                self.assertFalse(in_a_thread(holds))

    def test_one_object_may_be_entered_by_several_threads_at_once(self):
        scope = autograd.record()
        attributes = mx.AttrScope(group="4")
        entered, both, left = threading.Event(), threading.Event(), threading.Event()

        def first():
            with mx.cpu(2), mx.AttrScope(stage="1"):
                with mx.cpu(), scope, attributes:
                    entered.set()
                    both.wait()
                left.set()
                return mx.current_context(), autograd.is_recording(), mx.AttrScope.current.get(None)

        def second():
            entered.wait()
            with mx.cpu(), scope, attributes:
                both.set()
                left.wait()
            return mx.current_context(), autograd.is_recording(), mx.AttrScope.current.get(None)

        found = {}
        threads = [threading.Thread(target=lambda each=each: found.update({each: each()})) for each in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, {first: (mx.cpu(2), False, {"stage": "1"}), second: (mx.cpu(0), False, {})})

    def test_one_object_may_be_entered_within_itself(self):
        scope = autograd.record()
        with scope:
            with autograd.pause():
                with scope:
                    self.assertTrue(autograd.is_recording())
                self.assertFalse(autograd.is_recording())
            self.assertTrue(autograd.is_recording())
        self.assertFalse(autograd.is_recording())

    def test_a_block_restores_what_it_has_changed_and_nothing_else(self):
        with mx.cpu(1):
            autograd.set_training(True)
        self.addCleanup(autograd.set_training, False)
        self.assertEqual((mx.current_context(), autograd.is_training()), (mx.cpu(0), True))

    def test_a_generator_may_leave_its_block_after_the_block_around_it(self):
        def batches():
            with mx.cpu(1):
                yield mx.current_context()

        generator = batches()
        with autograd.record():
            self.assertEqual(next(generator), mx.cpu(1))
        self.assertFalse(autograd.is_recording())
        generator.close()
        self.assertEqual((mx.current_context(), autograd.is_recording()), (mx.cpu(0), False))

    def test_an_error_leaves_all_blocks(self):
        with self.assertRaises(ZeroDivisionError), autograd.record(), mx.cpu(1):
            1 / 0
        self.assertEqual((mx.current_context(), autograd.is_recording()), (mx.cpu(0), False))

    def test_two_coroutines_differentiate_side_by_side(self):
        async def gradient(factor):
            x = nd.ones(3)
            x.attach_grad()
            with autograd.record():
                y = x * factor
                await asyncio.sleep(0)
                z = (y * x).sum()
            await asyncio.sleep(0)
            z.backward()
            return x.grad.asnumpy().tolist()

        async def both():
            return await asyncio.gather(gradient(2), gradient(5))

        self.assertEqual(asyncio.run(both()), [[4.0] * 3, [10.0] * 3])


if __name__ == "__main__":
    case_runner.main()
