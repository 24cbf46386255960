#!/usr/bin/env python3
"""Compares operators by themselves with ONNX Runtime, side by side: results and times of ONNX models of one node.

    python3 benches/peers/onnx_operators.py TVMR [FILTER ...] [--trials 64] [--seconds S] [--threads 1] [--rounds 15] [--list]

Shapes are those of layers of real networks; weights are initializers, and inputs are seeded random numbers. Each model is tuned
with so many trials (and, if given, for so many seconds at most) and built into a shared library. Python calls its C function
through ctypes with pointers made before, and ONNX Runtime on arrays bound before. Both read the same arrays. They run in turns,
one batch of calls of at least a millisecond after the other; a row has the medians of the batches. `vs ORT` is the time of ONNX
Runtime divided by ours: above 1 we are faster. What a call costs that does next to nothing is printed first; no row is
corrected by it.

`error` is max|a - b| / max|b| of floats. A row fails if tvmr refuses the model, or if floats differ by more than 1e-4 (float16:
1e-2), or integers and booleans at all. The exit code is 1 if a row fails or there is none. It needs `onnx`, `onnxruntime` and
`numpy` (benches/peers/README.md).
"""

import argparse
import ctypes
import functools
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from models import PAUSE, OnnxRuntime, Tvmr, seconds
from onnx import TensorProto, helper, numpy_helper
from onnx_quantized import RNG, convolution, inputs_of, product

TOLERANCE = {"float16": 1e-2, "float32": 1e-4}
# A batch of calls takes at least so many seconds.
BATCH = 1e-3
# Rows with less are listed at the end.
SLOW = 0.9


class Weight:
    """An argument that is an initializer."""

    def __init__(self, values, dtype=None):
        self.array = np.asarray(values, dtype)


def floats(*shape):
    return RNG.standard_normal(shape, "float32")


def positive(*shape):
    """Numbers near 1, whose products are neither huge nor tiny."""
    return RNG.uniform(0.8, 1.2, shape).astype("float32")


def whole(low, high, *shape, dtype="int64"):
    return RNG.integers(low, high, shape).astype(dtype)


def booleans(*shape):
    return RNG.integers(0, 2, shape).astype("bool")


def weights(*shape):
    """Weights whose sums of products with normal numbers are about as large as these."""
    return Weight(floats(*shape) / np.float32(math.sqrt(np.prod(shape[1:]))))


def longs(*values):
    return Weight(values, "int64")


def floats_in(*values):
    return Weight(values, "float32")


def node(op, *args, results=1, opset=23, **attributes):
    """A model of one node, and its inputs. An argument is an array, a `Weight` or nothing."""
    names = ["" if a is None else f"i{k}" for k, a in enumerate(args)]
    outputs = [f"o{k}" for k in range(results)]
    inputs = {name: a for name, a in zip(names, args) if isinstance(a, np.ndarray)}
    initializers = [numpy_helper.from_array(a.array, name) for name, a in zip(names, args) if isinstance(a, Weight)]
    infos = [helper.make_tensor_value_info(k, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for k, a in inputs.items()]
    made = helper.make_node(op, names, outputs, **attributes)
    graph = helper.make_graph([made], "graph", infos, [onnx.ValueInfoProto(name=o) for o in outputs], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), inputs


def conv(channels, size, features, kernel, stride=1, groups=1, dilation=1, pad=None):
    """Conv of an image, a row of numbers or a video, padded so that a stride of 1 keeps the extents."""
    size, kernel = (n if isinstance(n, tuple) else (n, n) for n in (size, kernel))
    stride = stride if isinstance(stride, tuple) else (stride,) * len(size)
    pads = [dilation * (k // 2) if pad is None else pad for k in kernel]
    arrays = floats(1, channels, *size), weights(features, channels // groups, *kernel), Weight(floats(features))
    return node("Conv", *arrays, pads=pads * 2, strides=stride, group=groups, dilations=[dilation] * len(size))


def deconv(channels, size, features, kernel, stride, pad=0):
    """ConvTranspose of an image."""
    arrays = floats(1, channels, size, size), weights(channels, features, kernel, kernel), Weight(floats(features))
    return node("ConvTranspose", *arrays, strides=[stride] * 2, pads=[pad] * 4)


def pool(op, channels, size, kernel, stride, pad=0, **attributes):
    spatial = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
    return node(op, floats(1, channels, size, size), **spatial, **attributes)


def reduce(op, shape, *axes, make=floats, **attributes):
    """A reduction over these axes, or over all."""
    return node(op, make(*shape), *([longs(*axes)] if axes else []), **attributes)


def resize(shape, scale, **attributes):
    return node("Resize", floats(*shape), None, floats_in(1, 1, scale, scale), **attributes)


def pad(shape, by, mode):
    return node("Pad", floats(*shape), longs(0, 0, by, by, 0, 0, by, by), mode=mode)


def window(shape, starts, ends, axes, steps):
    """Slice."""
    return node("Slice", floats(*shape), *(longs(*v) for v in (starts, ends, axes, steps)))


def affine_norm(op, shape, n, *moments, **attributes):
    """A normalisation with a scale and a shift of `n` numbers, which are weights."""
    return node(op, floats(*shape), Weight(positive(n)), Weight(floats(n)), *moments, **attributes)


def attention(heads, groups, rows, keys, size, **attributes):
    """Attention by heads, of which so many groups share keys and values."""
    arrays = floats(1, heads, rows, size), floats(1, groups, keys, size), floats(1, groups, keys, size)
    return node("Attention", *arrays, **attributes)


def rois(n, size):
    """Boxes in an image."""
    corner = RNG.uniform(0, 0.6, (n, 2))
    return (np.concatenate([corner, corner + RNG.uniform(0.1, 0.4, (n, 2))], 1) * size).astype("float32")


def quantised(content):
    """A model of `onnx_quantized.py` and its inputs."""
    return content, inputs_of(content)


CONVOLUTIONS = {
    "conv_3x3_resnet": lambda: conv(64, 56, 64, 3),
    "conv_3x3_deep": lambda: conv(512, 7, 512, 3),
    "conv_3x3_stride2": lambda: conv(128, 56, 128, 3, stride=2),
    "conv_3x3_unet": lambda: conv(32, 128, 32, 3),
    "conv_3x3_stem_yolo": lambda: conv(3, 320, 16, 3, stride=2),
    "conv_1x1_expand": lambda: conv(256, 14, 1024, 1),
    "conv_1x1_mobilenet": lambda: conv(144, 56, 24, 1),
    "conv_1x1_stride2": lambda: conv(256, 56, 512, 1, stride=2),
    "conv_7x7_stem": lambda: conv(3, 224, 64, 7, stride=2),
    "conv_patches_vit": lambda: conv(3, 224, 768, 16, stride=16, pad=0),
    "conv_grouped_resnext": lambda: conv(128, 56, 128, 3, groups=32),
    "conv_depthwise_3x3": lambda: conv(144, 56, 144, 3, groups=144),
    "conv_depthwise_3x3_stride2": lambda: conv(144, 56, 144, 3, stride=2, groups=144),
    "conv_depthwise_5x5": lambda: conv(120, 28, 120, 5, groups=120),
    "conv_depthwise_5x5_stride2": lambda: conv(72, 56, 72, 5, stride=2, groups=72),
    "conv_depthwise_7x7_convnext": lambda: conv(96, 56, 96, 7, groups=96),
    "conv_dilated": lambda: conv(128, 33, 128, 3, dilation=2),
    "conv_1d_whisper": lambda: conv(80, (1000,), 384, (3,)),
    "conv_1d_stride2": lambda: conv(384, (500,), 384, (3,), stride=2),
    "conv_1d_depthwise": lambda: conv(512, (200,), 512, (15,), groups=512),
    "conv_3d": lambda: conv(32, (8, 28, 28), 32, (3, 3, 3)),
    "conv_transpose_2x2_stride2": lambda: deconv(128, 28, 64, 2, 2),
    "conv_transpose_4x4_stride2": lambda: deconv(128, 16, 64, 4, 2, 1),
    "conv_transpose_3x3_stride1": lambda: deconv(64, 28, 64, 3, 1, 1),
}

PRODUCTS = {
    "matmul_square": lambda: node("MatMul", floats(512, 512), floats(512, 512)),
    "matmul_bert": lambda: node("MatMul", floats(1, 128, 768), weights(768, 768)),
    "matmul_vit_mlp": lambda: node("MatMul", floats(1, 197, 768), weights(768, 3072)),
    "matmul_tall": lambda: node("MatMul", floats(3136, 64), weights(64, 64)),
    "matmul_skinny": lambda: node("MatMul", floats(8, 2048), weights(2048, 512)),
    "matmul_narrow": lambda: node("MatMul", floats(1024, 768), weights(768, 4)),
    "matmul_scores": lambda: node("MatMul", floats(1, 12, 128, 64), floats(1, 12, 64, 128)),
    "matmul_values": lambda: node("MatMul", floats(1, 12, 128, 128), floats(1, 12, 128, 64)),
    "matmul_gemv": lambda: node("MatMul", floats(1, 2048), weights(2048, 2048)),
    "matmul_gemv_inputs": lambda: node("MatMul", floats(1, 1024), floats(1024, 1024)),
    "matmul_float16": lambda: node("MatMul", floats(128, 512).astype("float16"), Weight(weights(512, 512).array, "float16")),
    "gemm_head_resnet": lambda: node("Gemm", floats(1, 2048), weights(1000, 2048), Weight(floats(1000)), transB=1),
    "gemm_transposed": lambda: node("Gemm", floats(64, 512), weights(512, 512), Weight(floats(512)), transB=1),
    "gemm_scaled": lambda: node("Gemm", floats(256, 128), floats(128, 256), floats(256, 256), alpha=0.5, beta=2.0),
    "einsum_scores": lambda: node("Einsum", floats(1, 12, 128, 64), floats(1, 12, 128, 64), equation="bhid,bhjd->bhij"),
    "einsum_heads": lambda: node("Einsum", floats(1, 128, 768), weights(768, 12, 64), equation="bld,dhk->bhlk"),
    "attention_bert": lambda: attention(12, 12, 128, 128, 64),
    "attention_causal": lambda: attention(8, 8, 128, 128, 64, is_causal=1),
    "attention_decode_llama": lambda: attention(32, 8, 1, 512, 64),
}

NORMALISATIONS = {
    "softmax_scores": lambda: node("Softmax", floats(1, 12, 128, 128), axis=-1),
    "softmax_vocabulary": lambda: node("Softmax", floats(4, 32000), axis=-1),
    "softmax_middle": lambda: node("Softmax", floats(1, 21, 65, 65), axis=1),
    "log_softmax": lambda: node("LogSoftmax", floats(16, 30522), axis=-1),
    "log_softmax_middle": lambda: node("LogSoftmax", floats(1, 19, 64, 128), axis=1),
    "layer_norm_bert": lambda: affine_norm("LayerNormalization", (1, 128, 768), 768),
    "layer_norm_swin": lambda: affine_norm("LayerNormalization", (1, 3136, 96), 96),
    "rms_norm_llama": lambda: node("RMSNormalization", floats(1, 64, 2048), Weight(positive(2048))),
    "instance_norm": lambda: affine_norm("InstanceNormalization", (1, 64, 64, 64), 64),
    "group_norm": lambda: affine_norm("GroupNormalization", (1, 320, 32, 32), 320, num_groups=32),
    "batch_norm": lambda: affine_norm("BatchNormalization", (1, 64, 56, 56), 64, Weight(floats(64)), Weight(positive(64))),
    "lrn_alexnet": lambda: node("LRN", floats(1, 96, 27, 27), size=5, alpha=1e-4, beta=0.75, bias=2.0),
    "lp_norm": lambda: node("LpNormalization", floats(512, 512), axis=-1, p=2),
}

REDUCTIONS = {
    "reduce_mean_last": lambda: reduce("ReduceMean", (1, 128, 768), -1),
    "reduce_mean_spatial": lambda: reduce("ReduceMean", (1, 512, 14, 14), 2, 3),
    "reduce_mean_tokens": lambda: reduce("ReduceMean", (1, 197, 768), 1, keepdims=0),
    "reduce_sum_all": lambda: reduce("ReduceSum", (1, 64, 56, 56)),
    "reduce_sum_first": lambda: reduce("ReduceSum", (512, 1024), 0),
    "reduce_sum_ends": lambda: reduce("ReduceSum", (8, 64, 32, 32), 0, 2, 3),
    "reduce_max_channels": lambda: reduce("ReduceMax", (1, 64, 56, 56), 1),
    "reduce_max_last": lambda: reduce("ReduceMax", (12, 128, 128), -1),
    "reduce_min_last": lambda: reduce("ReduceMin", (256, 1000), -1),
    "reduce_prod_last": lambda: reduce("ReduceProd", (2048, 64), -1, make=positive),
    "reduce_l2_last": lambda: reduce("ReduceL2", (256, 768), -1),
    "reduce_l2_middle": lambda: reduce("ReduceL2", (1, 64, 56, 56), 1),
    "reduce_log_sum_exp": lambda: reduce("ReduceLogSumExp", (128, 1000), -1),
    "argmax_vocabulary": lambda: node("ArgMax", floats(8, 32000), axis=-1),
    "argmax_middle": lambda: node("ArgMax", floats(1, 21, 128, 128), axis=1),
    "argmin_last": lambda: node("ArgMin", floats(256, 1000), axis=-1, keepdims=0),
    "cumsum_last": lambda: node("CumSum", floats(64, 2048), longs(1)),
    "cumsum_first": lambda: node("CumSum", floats(512, 256), longs(0)),
    "cumsum_int64": lambda: node("CumSum", whole(0, 2, 16, 2048), longs(1)),
    "topk_vocabulary": lambda: node("TopK", floats(1, 32000), longs(50), results=2),
    "topk_boxes": lambda: node("TopK", floats(1, 8400), longs(300), results=2),
    "topk_experts": lambda: node("TopK", floats(512, 64), longs(8), results=2),
}

INDICES = {
    "gather_embedding": lambda: node("Gather", Weight(floats(30522, 768)), whole(0, 30522, 1, 128)),
    "gather_columns": lambda: node("Gather", floats(256, 1024), whole(0, 1024, 256), axis=1),
    "gather_elements": lambda: node("GatherElements", floats(512, 512), whole(0, 512, 512, 256), axis=1),
    "gather_nd": lambda: node("GatherND", floats(56, 56, 64), whole(0, 56, 1024, 2)),
    "scatter_nd": lambda: node("ScatterND", floats(512, 256), Weight(RNG.permutation(512)[:64, None]), floats(64, 256)),
    "scatter_elements": lambda: node("ScatterElements", floats(256, 256), np.argsort(floats(256, 64)), floats(256, 64), axis=1),
    "one_hot": lambda: node("OneHot", whole(0, 1000, 256), longs(1000), floats_in(0, 1)),
    "grid_sample": lambda: node("GridSample", floats(1, 32, 64, 64), np.tanh(floats(1, 64, 64, 2)), mode="linear"),
    "grid_sample_border": lambda: node("GridSample", floats(1, 32, 64, 64), floats(1, 64, 64, 2), mode="linear",
                                       padding_mode="border", align_corners=1),
    "roi_align": lambda: node("RoiAlign", floats(1, 64, 50, 50), rois(20, 50), Weight(np.zeros(20, "int64")), opset=16,
                              output_height=7, output_width=7, sampling_ratio=2),
}

MOVES = {
    "resize_nearest_yolo": lambda: resize((1, 128, 26, 26), 2, mode="nearest", coordinate_transformation_mode="asymmetric",
                                          nearest_mode="floor"),
    "resize_linear_unet": lambda: resize((1, 64, 56, 56), 2, mode="linear"),
    "resize_linear_corners": lambda: resize((1, 21, 33, 33), 4, mode="linear", coordinate_transformation_mode="align_corners"),
    "resize_linear_down": lambda: resize((1, 3, 480, 640), 0.5, mode="linear"),
    "resize_cubic": lambda: resize((1, 3, 128, 128), 2, mode="cubic", cubic_coeff_a=-0.75),
    "transpose_0213": lambda: node("Transpose", floats(1, 128, 12, 64), perm=[0, 2, 1, 3]),
    "transpose_0231": lambda: node("Transpose", floats(1, 128, 12, 64), perm=[0, 2, 3, 1]),
    "transpose_021": lambda: node("Transpose", floats(1, 768, 196), perm=[0, 2, 1]),
    "transpose_to_nchw": lambda: node("Transpose", floats(1, 56, 56, 64), perm=[0, 3, 1, 2]),
    "transpose_to_nhwc": lambda: node("Transpose", floats(1, 64, 56, 56), perm=[0, 2, 3, 1]),
    "transpose_images_uint8": lambda: node("Transpose", whole(0, 256, 1, 320, 320, 3, dtype="uint8"), perm=[0, 3, 1, 2]),
    "concat_channels": lambda: node("Concat", floats(1, 64, 52, 52), floats(1, 128, 52, 52), axis=1),
    "concat_last": lambda: node("Concat", floats(1, 512, 12, 32), floats(1, 512, 12, 32), axis=-1),
    "split_channels": lambda: node("Split", floats(1, 128, 40, 40), results=2, axis=1, num_outputs=2),
    "split_qkv": lambda: node("Split", floats(1, 128, 2304), results=3, axis=-1, num_outputs=3),
    "slice_crop": lambda: window((1, 64, 64, 64), (4, 4), (60, 60), (2, 3), (1, 1)),
    "slice_every_second": lambda: window((1, 3, 320, 320), (0, 0), (320, 320), (2, 3), (2, 2)),
    "slice_reversed": lambda: window((1, 64, 56, 56), (-1,), (-1000,), (3,), (-1,)),
    "slice_reversed_rows": lambda: window((128, 1024), (-1,), (-1000,), (0,), (-1,)),
    "pad_constant": lambda: pad((1, 64, 56, 56), 1, "constant"),
    "pad_reflect": lambda: pad((1, 32, 64, 64), 3, "reflect"),
    "pad_edge": lambda: pad((1, 32, 64, 64), 1, "edge"),
    "depth_to_space": lambda: node("DepthToSpace", floats(1, 36, 80, 80), blocksize=2, mode="DCR"),
    "depth_to_space_crd": lambda: node("DepthToSpace", floats(1, 27, 64, 64), blocksize=3, mode="CRD"),
    "space_to_depth": lambda: node("SpaceToDepth", floats(1, 16, 104, 104), blocksize=2),
    "expand": lambda: node("Expand", floats(1, 8, 1, 128, 64), longs(1, 8, 4, 128, 64)),
    "expand_last": lambda: node("Expand", floats(512, 1), longs(512, 512)),
    "tile": lambda: node("Tile", floats(1, 64, 16, 16), longs(1, 1, 3, 3)),
    "trilu": lambda: node("Trilu", floats(4, 256, 256), upper=0),
}

POOLS = {
    "max_pool_resnet": lambda: pool("MaxPool", 64, 112, 3, 2, 1),
    "max_pool_2x2": lambda: pool("MaxPool", 64, 112, 2, 2),
    "max_pool_sppf": lambda: pool("MaxPool", 128, 20, 5, 1, 2),
    "average_pool_inception": lambda: pool("AveragePool", 64, 35, 3, 1, 1),
    "average_pool_padded": lambda: pool("AveragePool", 64, 56, 3, 2, 1, count_include_pad=1),
    "average_pool_2x2": lambda: pool("AveragePool", 128, 56, 2, 2),
    "global_average_pool": lambda: node("GlobalAveragePool", floats(1, 2048, 7, 7)),
    "global_max_pool": lambda: node("GlobalMaxPool", floats(1, 512, 14, 14)),
}

VALUES = {
    "relu": lambda: node("Relu", floats(1, 64, 56, 56)),
    "leaky_relu": lambda: node("LeakyRelu", floats(1, 64, 52, 52), alpha=0.1),
    "prelu": lambda: node("PRelu", floats(1, 64, 56, 56), Weight(floats(64, 1, 1))),
    "clip_relu6": lambda: node("Clip", floats(1, 96, 56, 56), Weight(np.float32(0)), Weight(np.float32(6))),
    "gelu": lambda: node("Gelu", floats(1, 64, 3072)),
    "gelu_tanh": lambda: node("Gelu", floats(1, 64, 3072), approximate="tanh"),
    "sigmoid": lambda: node("Sigmoid", floats(1, 64, 52, 52)),
    "tanh": lambda: node("Tanh", floats(1, 128, 768)),
    "erf": lambda: node("Erf", floats(1, 64, 3072)),
    "exp": lambda: node("Exp", floats(1, 128, 768)),
    "log": lambda: node("Log", positive(1, 128, 768)),
    "sqrt": lambda: node("Sqrt", positive(1, 128, 768)),
    "hard_swish": lambda: node("HardSwish", floats(1, 72, 56, 56)),
    "softplus": lambda: node("Softplus", floats(1, 64, 1024)),
    "pow_square": lambda: node("Pow", floats(1, 128, 768), Weight(np.float32(2))),
    "pow_numbers": lambda: node("Pow", positive(64, 1024), floats(64, 1024)),
    "add_residual": lambda: node("Add", floats(1, 64, 56, 56), floats(1, 64, 56, 56)),
    "add_bias": lambda: node("Add", floats(1, 128, 3072), Weight(floats(3072))),
    "add_channels": lambda: node("Add", floats(1, 64, 56, 56), floats(64, 1, 1)),
    "add_outer": lambda: node("Add", floats(512, 1), floats(1, 512)),
    "add_float16": lambda: node("Add", floats(128, 768).astype("float16"), floats(128, 768).astype("float16")),
    "add_int64": lambda: node("Add", whole(-100, 100, 128, 512), whole(-100, 100, 512)),
    "mul_gate": lambda: node("Mul", floats(1, 72, 56, 56), floats(1, 72, 1, 1)),
    "div_rows": lambda: node("Div", floats(12, 128, 128), positive(12, 128, 1)),
    "where_mask": lambda: node("Where", booleans(1, 1, 128, 128), floats(1, 12, 128, 128), Weight(np.float32(-9))),
    "where_same": lambda: node("Where", booleans(512, 512), floats(512, 512), floats(512, 512)),
    "equal_int64": lambda: node("Equal", whole(0, 3, 256, 1024), Weight(np.int64(0))),
    "less_float": lambda: node("Less", floats(256, 1024), floats(256, 1024)),
    "and_bool": lambda: node("And", booleans(512, 512), booleans(512, 512)),
    "not_bool": lambda: node("Not", booleans(512, 1024)),
    "cast_to_float16": lambda: node("Cast", floats(256, 768), to=TensorProto.FLOAT16),
    "cast_from_float16": lambda: node("Cast", floats(256, 768).astype("float16"), to=TensorProto.FLOAT),
    "cast_to_int64": lambda: node("Cast", floats(256, 768) * 100, to=TensorProto.INT64),
    "cast_images": lambda: node("Cast", whole(0, 256, 1, 3, 320, 320, dtype="uint8"), to=TensorProto.FLOAT),
    "cast_bool": lambda: node("Cast", booleans(512, 512), to=TensorProto.FLOAT),
}

BYTES = {
    "qlinear_conv_3x3": lambda: quantised(convolution(64, 28, 64, 3)),
    "qlinear_conv_1x1": lambda: quantised(convolution(128, 14, 256, 1, per_channel=True)),
    "qlinear_conv_depthwise": lambda: quantised(convolution(128, 28, 128, 3, groups=128)),
    "qlinear_matmul": lambda: quantised(product(128, 512, 512)),
    "matmul_integer": lambda: node("MatMulInteger", whole(0, 256, 128, 768, dtype="uint8"),
                                   Weight(whole(-127, 128, 768, 768, dtype="int8")), Weight(np.uint8(128))),
    "quantize": lambda: node("QuantizeLinear", floats(1, 64, 56, 56), Weight(np.float32(0.02)), Weight(np.uint8(120))),
    "quantize_channels": lambda: node("QuantizeLinear", floats(256, 768), Weight(positive(768) / 50),
                                      Weight(np.zeros(768, "int8"))),
    "dequantize": lambda: node("DequantizeLinear", whole(0, 256, 1, 64, 56, 56, dtype="uint8"), Weight(np.float32(0.02)),
                               Weight(np.uint8(120))),
    "dequantize_channels": lambda: node("DequantizeLinear", whole(-128, 128, 256, 768, dtype="int8"), Weight(positive(768))),
    "dynamic_quantize": lambda: node("DynamicQuantizeLinear", floats(128, 768), results=3),
}

OPERATORS = CONVOLUTIONS | PRODUCTS | NORMALISATIONS | REDUCTIONS | INDICES | MOVES | POOLS | VALUES | BYTES


def placed(array, number):
    """A copy for the argument of this number. Its address is a multiple of 64 bytes, elsewhere in its page than the others'."""
    memory = np.empty(array.nbytes + 2 * 4096, "uint8")
    start = -memory.ctypes.data % 4096 + number * 576 % 4096
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class Bound(OnnxRuntime):
    """A session with bound inputs, and after `bind` with bound results."""

    def bind(self, results):
        self.results = results
        binding = self.session.io_binding()
        for name, a in self.arrays.items():
            binding.bind_input(name, "cpu", 0, a.dtype.type, a.shape, a.ctypes.data)
        for output, a in zip(self.session.get_outputs(), results, strict=True):
            binding.bind_output(output.name, "cpu", 0, a.dtype.type, a.shape, a.ctypes.data)
        self.run = functools.partial(self.session.run_with_iobinding, binding)


class Symbol(Tvmr):
    """The C function of a library, called without the checks of its Python module."""

    def bind(self, results):
        self.results = results
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in self.arrays + results]
        self.run = functools.partial(self.module._main, *pointers)


def batch(run, calls):
    """Seconds of a call, in a loop of so many."""
    def loop():
        for _ in range(calls):
            run()

    return seconds(loop) / calls


def in_turns(args, *runs):
    """Microseconds of a call of each: the medians of batches in turns, the first one changing."""
    calls = []
    for run in runs:
        batch(run, 2)
        calls.append(max(1, math.ceil(BATCH / min(batch(run, 3) for _ in range(3)))))
    times = [[] for _ in runs]
    order = list(zip(runs, calls, times))
    for _ in range(args.rounds):
        for run, n, kept in order:
            if args.threads > 1:
                # Threads of the others go on spinning for a while.
                time.sleep(PAUSE)
            # The first call finds data of the others in the caches.
            run()
            kept.append(batch(run, n))
        order.reverse()
    return [statistics.median(kept) * 1e6 for kept in times]


def difference(found, expected):
    """The largest difference of floats as a part of the largest number, and what is wrong."""
    error, wrong = 0.0, None
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        limit = TOLERANCE.get(b.dtype.name)
        if limit is None:
            if not np.array_equal(a, b):
                wrong = f"{np.count_nonzero(a != b)} of {b.size} elements of result {i} differ"
            continue
        a, b = a.astype("float64"), b.astype("float64")
        here = float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))
        # NaN is no number below the limit.
        if not here <= limit:
            wrong = f"result {i} differs by {here:.1e}"
        error = max(error, here)
    return error, wrong


def command(*words):
    """Runs a command; returns why it failed, if it did."""
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode == 0:
        return None
    lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return next((line for line in lines if line.startswith("error")), lines[-1])


def compare(args, name, content, inputs, directory, tune=True):
    """The microseconds of a call of both and the error, or why there are none."""
    path = pathlib.Path(directory) / f"{name}.onnx"
    onnx.save(content, path)
    threads = ["--threads", str(args.threads)]
    common = [path, *threads, "--work-dir", args.work_dir or directory, "--quiet"]
    if tune:
        limits = ["--trials", str(args.trials), *(["--max-seconds", str(args.seconds)] if args.seconds else [])]
        why = command(args.tvmr, "tune", *common, *limits)
        if why:
            return None, f"tune: {why}"
    module = pathlib.Path(directory) / f"built_{name}.py"
    made = common if tune else [path, *threads, "--as-written", "--quiet"]
    why = command(args.tvmr, "build", *made, "-o", module.with_suffix(""), "--emit", "python")
    if why:
        return None, f"build: {why}"
    arrays = {k: placed(a, i) for i, (k, a) in enumerate(inputs.items())}
    theirs = Bound(path, arrays, args.threads)
    results = [np.asarray(r) for r in theirs()]
    ours = Symbol(module, arrays, args.threads, results)
    for peer in (theirs, ours):
        # Elements that a call does not write stay wrong.
        poisoned = [np.full(r.nbytes, 0xAA, "uint8").view(r.dtype).reshape(r.shape) for r in results]
        peer.bind([placed(a, len(arrays) + i) for i, a in enumerate(poisoned)])
    theirs.run()
    code = ours.run()
    if code != 0:
        return None, f"the call returned {code}"
    if difference(theirs.results, results)[1]:
        return None, "ONNX Runtime's results in bound arrays differ from the others"
    error, wrong = difference(ours.results, results)
    if wrong:
        return None, wrong
    return (*in_turns(args, ours.run, theirs.run), error), None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tvmr")
    parser.add_argument("filter", nargs="*", help="parts of names of operators")
    parser.add_argument("--trials", type=int, default=64, help="of tuning, for each operator")
    parser.add_argument("--seconds", type=float, help="of tuning at most, for each operator")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15, help="batches of calls of each")
    parser.add_argument("--work-dir", help="keeps the database")
    parser.add_argument("--list", action="store_true", help="only print the names of the operators")
    args = parser.parse_intermixed_args()
    args.tvmr = str(pathlib.Path(args.tvmr).resolve())
    names = [n for n in OPERATORS if not args.filter or any(f in n for f in args.filter)]
    if not names:
        sys.exit("there is no such operator")
    if args.list:
        print("\n".join(names))
        return 0
    start = RNG.bit_generator.state
    with tempfile.TemporaryDirectory() as directory:
        times, why = compare(args, "call", *node("Neg", floats(1)), directory, tune=False)
        print(f"a call of one number: {f'tvmr {times[0]:.2f} µs, ORT {times[1]:.2f} µs' if times else why}")
    print(f"{'operator':28} {'tvmr µs':>10} {'ORT µs':>10} {'vs ORT':>7} {'error':>8}", flush=True)
    ratios, failures = {}, 0
    for name in names:
        # An operator has the same numbers whichever others run.
        RNG.bit_generator.state = start
        with tempfile.TemporaryDirectory() as directory:
            times, why = compare(args, name, *OPERATORS[name](), directory)
        if why:
            failures += 1
            print(f"{name:28} FAILED: {why[:300]}", flush=True)
            continue
        us, ort, error = times
        ratios[name] = ort / us
        print(f"{name:28} {us:10.2f} {ort:10.2f} {ort / us:7.2f} {error:8.1e}", flush=True)
    summary = f"{len(ratios)} rows of {len(names)} operators, {failures} failures"
    if ratios:
        mean, least = math.exp(statistics.mean(map(math.log, ratios.values()))), min(ratios, key=ratios.get)
        summary += f"; geometric mean {mean:.2f}, least {ratios[least]:.2f} ({least})"
    print(summary)
    slow = sorted((r, name) for name, r in ratios.items() if r < SLOW)
    print(f"below {SLOW}: {', '.join(f'{name} {r:.2f}' for r, name in slow) or 'none'}")
    return 0 if ratios and not failures else 1


if __name__ == "__main__":
    sys.exit(main())
