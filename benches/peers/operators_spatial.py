"""Calls of operators over images for operators.py: convolutions, pooling, padding, resizing, sampling, attention, detection.

A case is the text of a call and its inputs: `name: (shape, dtype)`, or `name: (shape, dtype, low, high)` for values between two
bounds. Without bounds floats are between -1 and 1, and integers between -4 and 8.
"""

import numpy as np

F32, F64, F16, I32 = "float32", "float64", "float16", "int32"


def call(text, **inputs):
    return text, inputs


def conv(name, data, weight, attributes="", dtype=F32):
    return call(f"R.nn.{name}(x, w{', ' if attributes else ''}{attributes})", x=(data, dtype), w=(weight, dtype))


def one(name, data, attributes="", dtype=F32):
    return call(f"R.{name}(x{', ' if attributes else ''}{attributes})", x=(data, dtype))


CONVOLUTIONS = [
    conv("conv1d", (2, 3, 16), (4, 3, 3)),
    conv("conv1d", (2, 4, 17), (6, 2, 3), "strides=2, padding=(1, 2), dilation=2, groups=2"),
    conv("conv1d", (2, 16, 3), (3, 3, 5), 'data_layout="NWC", kernel_layout="WIO", padding=2'),
    conv("conv2d", (1, 3, 9, 9), (4, 3, 3, 3)),
    conv("conv2d", (2, 3, 9, 10), (4, 3, 3, 2), "strides=(2, 1), padding=(1, 0, 2, 1)"),
    conv("conv2d", (1, 4, 11, 9), (6, 2, 3, 3), "padding=1, dilation=(2, 1), groups=2"),
    conv("conv2d", (1, 4, 8, 8), (4, 1, 3, 3), "padding=1, groups=4"),
    conv("conv2d", (1, 4, 8, 8), (8, 1, 3, 3), "padding=1, groups=4, strides=2"),
    conv("conv2d", (1, 8, 7, 3), (3, 3, 3, 4), 'padding=1, data_layout="NHWC", kernel_layout="HWIO"'),
    conv("conv2d", (1, 8, 7, 4), (6, 2, 3, 3), 'padding=1, groups=2, strides=2, data_layout="NHWC", kernel_layout="OIHW"'),
    conv("conv2d", (1, 3, 8, 8), (4, 3, 3, 3), 'out_dtype="float32"', F16),
    conv("conv2d", (1, 3, 8, 8), (4, 3, 3, 3), "padding=1", F64),
    conv("conv2d", (1, 3, 8, 8), (4, 3, 3, 3), 'padding=1, out_dtype="int32"', "int8"),
    conv("conv3d", (1, 3, 6, 7, 8), (4, 3, 3, 3, 3), "padding=1"),
    conv("conv3d", (1, 4, 6, 7, 8), (4, 2, 3, 2, 1), "strides=(2, 1, 2), padding=(1, 0, 1, 2, 1, 0), groups=2"),
    conv("conv3d", (1, 6, 7, 8, 3), (3, 3, 3, 3, 2), 'data_layout="NDHWC", kernel_layout="DHWIO", dilation=(1, 2, 1)'),
]

TRANSPOSED = [
    conv("conv1d_transpose", (2, 3, 8), (3, 4, 3)),
    conv("conv1d_transpose", (2, 4, 8), (4, 3, 4), "strides=2, padding=1, output_padding=1, groups=2"),
    conv("conv1d_transpose", (1, 3, 8), (3, 2, 3), "strides=3, padding=(1, 2), dilation=2, output_padding=2"),
    conv("conv1d_transpose", (1, 3, 8), (3, 2, 3), "strides=1, dilation=2"),
    conv("conv1d_transpose", (1, 3, 8), (3, 2, 7), "strides=2, padding=5"),
    conv("conv2d_transpose", (1, 3, 5, 6), (3, 4, 3, 3)),
    conv("conv2d_transpose", (1, 3, 5, 6), (3, 4, 2, 2), "strides=2"),
    conv("conv2d_transpose", (2, 3, 5, 6), (3, 4, 4, 4), "strides=2, padding=1"),
    conv("conv2d_transpose", (1, 4, 5, 6), (4, 3, 3, 4), "strides=(2, 3), padding=(1, 0, 2, 1), output_padding=(1, 2), groups=2"),
    conv("conv2d_transpose", (1, 4, 5, 6), (4, 3, 3, 3), "strides=(1, 2), dilation=(2, 2), padding=1"),
    conv("conv2d_transpose", (1, 4, 5, 6), (4, 3, 3, 3), "padding=1, groups=4"),
    conv("conv2d_transpose", (1, 4, 5, 6), (4, 3, 1, 1), "strides=2"),
    conv("conv2d_transpose", (1, 4, 5, 6), (4, 3, 3, 3), "padding=4, strides=3"),
    conv("conv2d_transpose", (1, 3, 5, 5), (3, 4, 3, 3), "strides=2", F64),
    conv("conv3d_transpose", (1, 3, 3, 4, 5), (3, 2, 3, 3, 3), "strides=2, padding=1, output_padding=1"),
    conv("conv3d_transpose", (1, 4, 3, 4, 5), (4, 2, 2, 3, 4), "strides=(1, 2, 3), groups=2"),
]

_POOLS = [
    ("1d", (2, 3, 13), [
        "pool_size=2, strides=2",
        "pool_size=3, strides=2, padding=1",
        "pool_size=3, strides=2, padding=(0, 1), ceil_mode=True",
        "pool_size=3, strides=3, padding=1, dilation=2, ceil_mode=True",
        "pool_size=2, strides=2, padding=1, ceil_mode=True",
        "pool_size=1, strides=3, ceil_mode=True, count_include_pad=True",
    ]),
    ("2d", (1, 3, 11, 12), [
        "pool_size=2, strides=2",
        "pool_size=(3, 2), strides=(2, 1), padding=1",
        "pool_size=3, strides=2, padding=(1, 0, 0, 1), ceil_mode=True",
        "pool_size=3, strides=2, padding=1, ceil_mode=True, count_include_pad=True",
        "pool_size=3, strides=2, padding=1, count_include_pad=True",
        "pool_size=3, strides=1, padding=2, dilation=2",
        "pool_size=2, strides=(2, 3), padding=1, ceil_mode=True",
    ]),
    ("3d", (1, 2, 6, 7, 8), [
        "pool_size=2, strides=2",
        "pool_size=(3, 2, 3), strides=2, padding=1, ceil_mode=True",
        "pool_size=3, strides=2, padding=1, count_include_pad=False",
    ]),
]

POOLING = [
    one(f"nn.{kind}_pool{dims}", shape, attributes)
    for kind in ("max", "avg")
    for dims, shape, all_attributes in _POOLS
    for attributes in all_attributes
] + [
    one("nn.max_pool1d", (2, 13, 3), 'pool_size=3, strides=2, layout="NWC"'),
    one("nn.max_pool2d", (1, 9, 8, 3), 'pool_size=3, strides=2, padding=1, layout="NHWC"'),
    one("nn.avg_pool2d", (1, 9, 8, 3), 'pool_size=3, strides=2, padding=1, layout="NHWC"'),
    one("nn.avg_pool2d", (1, 2, 8, 8, 4), 'pool_size=3, strides=2, padding=1, layout="NCHW4c"'),
    one("nn.max_pool3d", (1, 6, 7, 8, 2), 'pool_size=2, strides=2, layout="NDHWC"'),
    one("nn.max_pool2d", (1, 3, 9, 8), "pool_size=3, strides=2, padding=1", I32),
    one("nn.max_pool2d", (1, 3, 9, 8), "pool_size=3, strides=2, padding=1", F16),
    one("nn.adaptive_avg_pool1d", (2, 3, 12), "output_size=5"),
    one("nn.adaptive_avg_pool1d", (2, 3, 12)),
    one("nn.adaptive_avg_pool2d", (1, 3, 8, 8), "output_size=1"),
    one("nn.adaptive_avg_pool2d", (1, 3, 11, 8), "output_size=(4, 2)"),
    one("nn.adaptive_avg_pool2d", (1, 3, 3, 4), "output_size=(5, 7)"),
    one("nn.adaptive_avg_pool2d", (1, 11, 8, 3), 'output_size=(4, 3), layout="NHWC"'),
    one("nn.adaptive_avg_pool3d", (1, 2, 5, 6, 7), "output_size=(2, 3, 4)"),
    call("R.grad.max_pool2d_backward(g, x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1))",
         g=((1, 3, 4, 4), F32), x=((1, 3, 8, 8), F32)),
    call("R.grad.max_pool2d_backward(g, x, pool_size=(3, 2), strides=(1, 2), padding=(1, 0, 1, 1), ceil_mode=True)",
         g=((1, 3, 8, 4), F32), x=((1, 3, 8, 8), F32)),
    call("R.grad.max_pool2d_backward(g, x, pool_size=(2, 2), strides=(2, 2))", g=((1, 3, 4, 4), F32), x=((1, 3, 8, 8), F32)),
    call("R.grad.avg_pool2d_backward(g, x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1))",
         g=((1, 3, 4, 4), F32), x=((1, 3, 8, 8), F32)),
    call("R.grad.avg_pool2d_backward(g, x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1, 1, 1), count_include_pad=True)",
         g=((1, 3, 4, 4), F32), x=((1, 3, 8, 8), F32)),
    call("R.grad.avg_pool2d_backward(g, x, pool_size=(3, 2), strides=(2, 3))", g=((1, 3, 3, 3), F32), x=((1, 3, 8, 8), F32)),
]

PADDING = [
    one("nn.pad", (3, 4), "pad_width=(1, 2, 0, 3)"),
    one("nn.pad", (3, 4), "pad_width=(1, 2, 0, 3), pad_value=2.5"),
    one("nn.pad", (3, 4), "pad_width=(1, 2, 0, 3), pad_value=7.0", I32),
    one("nn.pad", (2, 3, 5, 6), 'pad_width=(0, 0, 0, 0, 2, 1, 3, 2), pad_mode="reflect"'),
    one("nn.pad", (2, 3, 5, 6), 'pad_width=(0, 0, 1, 0, 2, 1, 3, 2), pad_mode="replicate"'),
    one("nn.pad", (2, 3, 5, 6), 'pad_width=(0, 0, 0, 0, 2, 1, 3, 2), pad_mode="circular"'),
    one("nn.pixel_shuffle", (2, 8, 3, 4), "upscale_factor=2"),
    one("nn.pixel_shuffle", (9, 3, 4), "upscale_factor=3", I32),
]

MODES = ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn"]
RESIZING = [
    one("image.resize2d", (1, 2, 5, 7), f'size=R.shape([{h}, {w}]), method="{method}", '
        f'coordinate_transformation_mode="{mode}", rounding_method="{rounding}"')
    for h, w in ((8, 14), (3, 4))
    for mode in MODES
    for method, rounding in (("linear", ""), ("cubic", ""), ("nearest_neighbor", ""), ("nearest_neighbor", "round"))
] + [
    one("image.resize2d", (1, 2, 5, 7), 'size=R.shape([9, 6]), method="nearest_neighbor", '
        f'coordinate_transformation_mode="{mode}", rounding_method="{rounding}"')
    for mode in ("half_pixel", "asymmetric")
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
] + [
    one("image.resize2d", (1, 2, 5, 7), 'size=R.shape([10, 14]), method="nearest_neighbor", '
        'coordinate_transformation_mode="asymmetric", rounding_method="floor"'),
    one("image.resize2d", (1, 5, 7, 2), 'size=R.shape([10, 9]), layout="NHWC"'),
    one("image.resize2d", (1, 2, 5, 7, 4), 'size=R.shape([10, 9]), layout="NCHW4c", method="cubic"'),
    one("image.resize2d", (1, 2, 5, 7), 'size=R.shape([8, 9]), method="cubic", cubic_alpha=-0.5, cubic_exclude=1'),
    one("image.resize2d", (1, 2, 5, 7), 'size=R.shape([8, 9]), roi=(0.1, 0.2, 0.8, 1.3), extrapolation_value=0.5, '
        'coordinate_transformation_mode="tf_crop_and_resize"'),
    one("image.resize2d", (1, 2, 5, 7), 'size=R.shape([8, 9])', F64),
    one("image.resize2d", (1, 2, 5, 7), 'size=R.shape([8, 9]), method="nearest_neighbor"', I32),
] + [
    one("image.resize3d", (1, 2, 4, 5, 6), f'size=R.shape([{d}, {h}, {w}]), method="{method}", '
        f'coordinate_transformation_mode="{mode}"')
    for d, h, w in ((8, 6, 3),)
    for mode in MODES
    for method in ("linear", "nearest_neighbor", "cubic")
] + [
    one("image.resize3d", (1, 4, 5, 6, 2), 'size=R.shape([3, 6, 9]), layout="NDHWC"'),
    one("image.resize3d", (1, 2, 4, 5, 6), 'size=R.shape([3, 6, 9]), roi=(0.1, 0.0, 0.0, 0.9, 1.0, 1.0), '
        'coordinate_transformation_mode="tf_crop_and_resize"'),
]

SAMPLING = [
    call(f'R.image.grid_sample(x, g, method="{method}", padding_mode="{padding}", align_corners={align})',
         x=((2, 3, 5, 6), F32), g=((2, 2, 4, 7), F32, -1.8, 1.8))
    for method in ("bilinear", "nearest", "bicubic")
    for padding in ("zeros", "border", "reflection")
    for align in (False, True)
] + [
    call(f'R.image.grid_sample(x, g, method="{method}", layout="NCDHW", padding_mode="{padding}", align_corners={align})',
         x=((1, 2, 4, 5, 6), F32), g=((1, 3, 3, 4, 5), F32, -1.8, 1.8))
    for method in ("bilinear", "nearest")
    for padding, align in (("zeros", True), ("border", False), ("reflection", False), ("reflection", True))
] + [
    call("R.image.affine_grid(x, size=R.shape([5, 7]))", x=((2, 2, 3), F32)),
    call("R.image.affine_grid(x, size=R.shape([5, 7]), align_corners=False)", x=((2, 2, 3), F32)),
    call("R.image.affine_grid(x, size=R.shape([3, 5, 7]))", x=((2, 3, 4), F32)),
]


def attention(attributes="", bias=None, dtype=F32, s=5, keys=6):
    inputs = {"q": ((2, s, 3, 4), dtype), "k": ((2, keys, 3, 4), dtype), "v": ((2, keys, 3, 5), dtype)}
    if bias:
        inputs["b"] = (bias, dtype)
    text = "R.nn.attention(" + ", ".join(inputs) + (", " + attributes if attributes else "") + ")"
    return text.replace("R.nn.attention(", "R.nn.attention_bias(") if bias else text, inputs


ATTENTION = [
    attention(),
    attention("scale=0.3"),
    attention('causal_mask="TopLeft"'),
    attention('causal_mask="BottomRight"'),
    attention('causal_mask="BottomRight"', s=6, keys=4),
    attention(bias=(2, 3, 5, 6)),
    attention(bias=(1, 3, 1, 6)),
    attention('scale=0.5, causal_mask="TopLeft"', bias=(2, 1, 5, 6)),
    attention(dtype=F16),
]

DETECTION = [
    call(f'R.vision.roi_align(x, R.multiply(r, R.const([[2.0, {w}, {h}, {w}, {h}]], "float32")), pooled_size=(3, 4), '
         f'spatial_scale={scale}, sample_ratio={ratio}, aligned={aligned}, mode="{mode}", layout="{layout}")',
         x=((2, 3, 8, 9) if layout == "NCHW" else (2, 8, 9, 3), F32), r=((4, 5), F32, 0.0, 0.999))
    for scale, w, h, ratio, aligned, mode, layout in (
        (1.0, 9.0, 8.0, 2, False, "avg", "NCHW"),
        (0.5, 18.0, 16.0, 2, True, "avg", "NCHW"),
        (1.0, 14.0, 14.0, 3, False, "max", "NCHW"),
        (1.0, 9.0, 8.0, 2, True, "avg", "NHWC"),
    )
] + [
    call('R.vision.roi_pool(x, R.multiply(r, R.const([[2.0, 12.0, 12.0, 12.0, 12.0]], "float32")), pooled_size=(3, 2), '
         f'spatial_scale={scale})', x=((2, 3, 8, 9), F32), r=((4, 5), F32, 0.0, 0.999))
    for scale in (1.0, 0.5)
] + [
    call("R.vision.get_valid_counts(x, score_threshold=0.1, id_index=0, score_index=1)", x=((2, 9, 6), F32)),
    call("R.vision.get_valid_counts(x, score_threshold=0.5, id_index=-1, score_index=2)", x=((2, 9, 6), F32)),
] + [
    call(f"R.vision.multibox_transform_loc(c, l, a, {attributes})",
         c=((2, 4, 7), F32), l=((2, 28), F32), a=((1, 7, 4), F32, 0.0, 1.0))
    for attributes in (
        "clip=False, threshold=0.0, variances=(1.0, 1.0, 1.0, 1.0), keep_background=True",
        "clip=True, threshold=0.2, variances=(0.1, 0.1, 0.2, 0.2), keep_background=False",
        "clip=True, threshold=0.1, variances=(0.1, 0.1, 0.2, 0.2), apply_softmax=False",
    )
] + [
    # Two classes, with scores and corners of boxes.
    call(f"R.vision.non_max_suppression(R.floor(R.multiply(x, R.const([{classes}, 64, 16, 16, 16, 16], \"float32\"))), n, i{attributes})",
         x=((2, 40, 6), F32, 0.0, 1.0), n=np.array([40, 31], I32), i=np.argsort(np.sin(np.arange(80.0).reshape(2, 40))).astype(I32))
    for classes in (1, 2)
    for attributes in (
        ", iou_threshold=0.2",
        ", iou_threshold=0.3, max_output_size=4, top_k=20, force_suppress=True",
        ", iou_threshold=0.1, id_index=-1, return_indices=False",
        ", iou_threshold=0.1, return_indices=False, invalid_to_bottom=True",
    )
] + [
    # Not rounded: scores that soft suppression lowers would be equal but for their last digits.
    call(f"R.vision.non_max_suppression(x, n, i{attributes})",
         x=((2, 40, 6), F32, 0.0, 1.0), n=np.array([40, 31], I32), i=np.argsort(np.sin(np.arange(80.0).reshape(2, 40))).astype(I32))
    for attributes in (
        ", id_index=-1, iou_threshold=0.6, soft_nms_sigma=0.5, score_threshold=0.1",
        ", id_index=-1, iou_threshold=0.9, soft_nms_sigma=0.2, score_threshold=0.3, max_output_size=9, return_indices=False",
    )
] + [
    call(f'R.vision.all_class_non_max_suppression(b, s, R.const({most}, "int64"), R.const({overlap}, "float32"), '
         f'R.const({score}, "float32"), output_format="{output}")', b=((2, 30, 4), F32, 0.0, 1.0), s=((2, 3, 30), F32, 0.0, 1.0))
    for output in ("onnx", "tensorflow")
    for most, overlap, score in ((5, 0.3, 0.2), (30, 0.05, 0.0), (0, 0.5, 0.5), (3, 0.0, 0.5))
]

CASES = CONVOLUTIONS + TRANSPOSED + POOLING + PADDING + RESIZING + SAMPLING + ATTENTION + DETECTION
