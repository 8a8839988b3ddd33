"""The networks of the model zoo: MXNet 1.9.1's names, shapes and values."""

import hashlib
import os
import tempfile
import unittest
from unittest import mock

import gluond as mx
import numpy as np
from gluond import gluon, nd
from gluond.gluon.model_zoo import model_store, vision
from tests import case_runner
from tests.client.python.array_case import ArrayCase

# Names of the networks of MXNet 1.9.1, each with the number of its parameters and the beginning of the SHA-1 of `lines`.
NETWORKS = """
    alexnet 16 6b9d255979d1  densenet121 606 a05b2e649a26  densenet161 806 54d83b51ed69
    densenet169 846 7823cff5535c  densenet201 1006 be41e9f37dd0  inceptionv3 472 c6c710c00ecc
    mobilenet0.25 137 268caf522e01  mobilenet0.5 137 5e2f391df1c3  mobilenet0.75 137 bab89f3afd28
    mobilenet1.0 137 b7fe0f187502  mobilenetv2_0.25 266 7fda51669402  mobilenetv2_0.5 266 32067043e9ac
    mobilenetv2_0.75 266 0689d45fab7d  mobilenetv2_1.0 266 4bb46c853648  resnet101_v1 588 bc342d4fcf22
    resnet101_v2 514 4801148a36bb  resnet152_v1 877 5a0fbda78312  resnet152_v2 769 63e3d3855791
    resnet18_v1 102 88430d5c496d  resnet18_v2 98 53c0dd2c61e8  resnet34_v1 182 446a7be4f382
    resnet34_v2 178 f4d90793ce4a  resnet50_v1 299 ece3ef117c9d  resnet50_v2 259 16b2941dffa5
    squeezenet1.0 52 c84179178f79  squeezenet1.1 52 b4ec613cefcc  vgg11 22 8cb62c48e065
    vgg11_bn 54 c851adc71aed  vgg13 26 2bce45a7af8d  vgg13_bn 66 32b2e7a39b69
    vgg16 32 1c27ed350c6c  vgg16_bn 84 0570d3f18299  vgg19 38 51d6f9f5e9ea
    vgg19_bn 102 72236d7d04c5
"""


def lines(net):
    """For each parameter: where it is in the tree of Blocks, its name, its shape and its grad_req."""
    return [
        f"{place} {param.name} {tuple(param.shape)} {param.grad_req}" for place, param in net._collect_params_with_prefix().items()
    ]


def fill(net):
    """Gives each parameter random numbers, always the same."""
    numbers = np.random.RandomState(1)
    for name, param in net.collect_params().items():
        low, high = (0.5, 1.5) if name.endswith(("var", "gamma")) else (-0.3, 0.3)
        param.set_data(nd.array(numbers.uniform(low, high, param.shape)))


class StructureTest(unittest.TestCase):
    def test_parameters_are_mxnet_s(self):
        words = iter(NETWORKS.split())
        networks = list(zip(words, words, words))
        self.assertEqual(len(networks), 34)
        for name, count, digits in networks:
            with self.subTest(name):
                found = lines(vision.get_model(name, prefix="net_"))
                self.assertEqual(len(found), int(count))
                self.assertEqual(hashlib.sha1("\n".join(found).encode()).hexdigest()[:12], digits)

    def test_nodes_of_graphs_are_mxnet_s(self):
        for name, digits in (
            ("resnet18_v1", "f42f0eaa0ba4"),
            ("mobilenetv2_0.5", "d027fb4cb9ae"),
            ("squeezenet1.0", "31946f9ead4a"),
            ("resnet50_v2", "d9bb730c1d14"),
        ):
            with self.subTest(name):
                nodes = vision.get_model(name, prefix="m_")(mx.sym.var("data")).get_internals().list_outputs()
                self.assertEqual(hashlib.sha1("\n".join(nodes).encode()).hexdigest()[:12], digits)

    def test_names_of_networks(self):
        self.assertIsInstance(vision.get_model("ResNet50_v2", classes=7), vision.ResNetV2)
        self.assertEqual(gluon.model_zoo.vision.alexnet(classes=7).output.weight.shape, (7, 0))
        with self.assertRaisesRegex(ValueError, "Model resnet19 is not supported"):
            vision.get_model("resnet19")
        with self.assertRaisesRegex(AssertionError, "Invalid number of layers: 19. Options are 18, 34"):
            vision.get_resnet(1, 19)
        with self.assertRaisesRegex(AssertionError, "Unsupported SqueezeNet version 2"):
            vision.SqueezeNet("2")
        with self.assertRaisesRegex(AssertionError, "2 stages need 3 numbers of channels, not 2"):
            vision.ResNetV1(vision.BasicBlockV1, [1, 1], [4, 8])
        with self.assertRaisesRegex(TypeError, "unexpected keyword argument 'class'"):
            vision.vgg11(**{"class": 3})


class ValuesTest(ArrayCase):
    def test_values_are_mxnet_s(self):
        for name, size, net, expected in (
            ("mobilenet", 64, vision.mobilenet0_25(classes=3), [0.124553, -0.0542637, -1.94473]),
            ("mobilenetv2", 64, vision.mobilenet_v2_0_25(classes=3), [-2.17514, 2.1813, -7.07999]),
            ("basic v1", 16, vision.ResNetV1(vision.BasicBlockV1, [1, 1], [4, 8, 16], 3, True), [0.0586796, 0.123535, -0.452973]),
            ("bottleneck v1", 32, vision.ResNetV1(vision.BottleneckV1, [1, 1], [4, 8, 16], 3), [0.19389, 0.623313, 0.633394]),
            ("basic v2", 32, vision.ResNetV2(vision.BasicBlockV2, [1, 1], [4, 8, 16], 3), [-0.0777995, 1.39599, -0.642359]),
            (
                "bottleneck v2",
                16,
                vision.ResNetV2(vision.BottleneckV2, [2, 1], [4, 8, 16], 3, True),
                [0.0686035, -0.143992, 0.321894],
            ),
            ("densenet", 56, vision.DenseNet(8, 4, [2, 1], 2, classes=3), [0.208893, -0.0386724, -0.376308]),
        ):
            with self.subTest(name):
                net.initialize()
                net.hybridize()
                x = nd.array(np.random.RandomState(2).uniform(-1, 1, (1, 3, size, size)))
                net(x)
                fill(net)
                self.assert_close(net(x), [expected], 1e-4)


class PretrainedTest(ArrayCase):
    def test_a_file_that_is_not_there_is_told(self):
        with self.assertRaisesRegex(
            FileNotFoundError,
            r"pretrained alexnet: /nowhere/alexnet-44335d1f.params is not there, " r".*models/alexnet-44335d1f.zip .*root='...'",
        ):
            vision.alexnet(pretrained=True, root="/nowhere")
        with self.assertRaisesRegex(FileNotFoundError, "vgg11_bn-ee79a809.params"):
            vision.vgg11_bn(pretrained=True, root="/nowhere")
        with self.assertRaisesRegex(FileNotFoundError, "mobilenetv2_0.75-e2be7b72.params"):
            vision.get_model("mobilenetv2_0.75", pretrained=True, root="/nowhere")
        with self.assertRaisesRegex(ValueError, "Pretrained model for vgg12 is not available"):
            model_store.get_model_file("vgg12")

    def test_a_file_that_is_there_is_read(self):
        net = vision.mobilenet0_25()
        net.initialize()
        x = nd.ones((1, 3, 32, 32))
        expected = net(x).asnumpy()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mobilenet0.25-9f83e440.params")
            net.save_parameters(path)
            with self.assertRaisesRegex(FileNotFoundError, "has another SHA-1 than expected"):
                vision.mobilenet0_25(pretrained=True, root=folder)
            with open(path, "rb") as file:
                digits = hashlib.sha1(file.read()).hexdigest()
            os.rename(path, path.replace("9f83e440", digits[:8]))
            with mock.patch.dict(model_store._model_sha1, {"mobilenet0.25": digits}):
                self.assert_close(vision.mobilenet0_25(pretrained=True, root=folder, ctx=mx.current_context())(x), expected)
            model_store.purge(folder)
            self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    case_runner.main()
