# Definitions by operators of topi.
import tvm
from tvm import te, topi


def elementwise():
    A = te.placeholder((4, 6), name="A")
    x = topi.exp(topi.negative(A))
    x = topi.tanh(topi.sqrt(topi.abs(x)))
    x = topi.sigmoid(topi.floor(x))
    y = topi.clip(topi.rsqrt(x), -1.0, 4.0)
    return [A, y]


def elementwise_2():
    A = te.placeholder((4, 6), name="A")
    x = topi.sin(topi.cos(topi.atan(A)))
    x = topi.log(topi.erf(topi.ceil(x)))
    y = topi.sign(topi.round(topi.trunc(x)))
    return [A, y]


def tests_of_floats():
    A = te.placeholder((4, 6), name="A")
    x = topi.isnan(A)
    y = topi.isfinite(A)
    z = topi.logical_or(x, topi.logical_not(y))
    return [A, z]


def casts():
    A = te.placeholder((4, 6), name="A")
    x = topi.cast(A, "int32")
    y = topi.cast(topi.bitwise_not(x), "float16")
    z = topi.identity(y)
    return [A, z]


def broadcast_of_tensors():
    A = te.placeholder((4, 6), name="A")
    b = te.placeholder((6,), name="b")
    x = topi.add(A, b)
    y = topi.multiply(x, topi.subtract(b, A))
    z = topi.maximum(y, topi.divide(A, b))
    return [A, b, z]


def numbers_beside_tensors():
    A = te.placeholder((4, 6), name="A")
    x = topi.add(A, 1.5)
    y = topi.multiply(2.0, topi.power(x, 3.0))
    z = topi.minimum(topi.subtract(y, 1), 6.0)
    return [A, z]


def operators_of_tensors():
    A = te.placeholder((4, 6), name="A")
    B = te.placeholder((4, 6), name="B")
    x = A + B * 2.0
    y = (x - A) / B
    return [A, B, y]


def integers():
    A = te.placeholder((4, 6), name="A", dtype="int32")
    x = topi.floor_divide(A, 3)
    y = topi.floor_mod(A, 5)
    z = topi.left_shift(topi.bitwise_and(x, y), 1)
    return [A, z]


def comparisons():
    A = te.placeholder((4, 6), name="A")
    B = te.placeholder((4, 6), name="B")
    x = topi.greater(A, B)
    y = topi.less_equal(A, B)
    z = topi.logical_and(x, y)
    v = topi.not_equal(A, 0.0)
    return [A, B, z, v]


def choices():
    c = te.placeholder((4, 6), name="c", dtype="bool")
    A = te.placeholder((4, 6), name="A")
    B = te.placeholder((4, 6), name="B")
    x = topi.where(c, A, B)
    return [c, A, B, x]


def filled():
    A = te.placeholder((4, 6), name="A")
    x = topi.full((4, 6), "float32", 3.0)
    y = topi.full_like(A, 2.0)
    z = topi.add(topi.add(x, y), A)
    return [A, z]


def sums():
    A = te.placeholder((4, 6, 8), name="A")
    x = topi.sum(A, axis=1)
    y = topi.sum(A, axis=[0, 2], keepdims=True)
    z = topi.sum(A)
    return [A, x, y, z]


def extremes():
    A = te.placeholder((4, 6, 8), name="A")
    x = topi.max(A, axis=-1)
    y = topi.min(A, axis=(0, 1))
    z = topi.prod(A, axis=1, keepdims=True)
    return [A, x, y, z]


def positions():
    A = te.placeholder((4, 6), name="A")
    x = topi.argmax(A, axis=1)
    y = topi.argmin(A, axis=0, keepdims=True)
    return [A, x, y]


def truth_of_all():
    A = te.placeholder((4, 6), name="A", dtype="bool")
    x = topi.all(A, axis=1)
    y = topi.any(A, axis=0, keepdims=True)
    return [A, x, y]


def transposed():
    A = te.placeholder((4, 6, 8), name="A")
    x = topi.transpose(A, (2, 0, 1))
    y = topi.transpose(A)
    return [A, x, y]


def reshaped():
    A = te.placeholder((4, 6, 8), name="A")
    x = topi.reshape(A, (24, 8))
    y = topi.reshape(A, (2, 2, 48))
    z = topi.nn.flatten(A)
    return [A, x, y, z]


def dimensions_of_one():
    A = te.placeholder((4, 1, 6), name="A")
    x = topi.squeeze(A, axis=1)
    y = topi.expand_dims(x, axis=0, num_newaxis=2)
    z = topi.expand_dims(x, axis=-1)
    return [A, y, z]


def joined():
    A = te.placeholder((4, 6), name="A")
    B = te.placeholder((2, 6), name="B")
    x = topi.concatenate((A, B), axis=0)
    y = topi.stack((A, A), axis=1)
    return [A, B, x, y]


def parted():
    A = te.placeholder((6, 8), name="A")
    x, y, z = topi.split(A, 3, axis=0)
    v = topi.split(A, (2, 5), axis=1)
    return [A, x, y, z, v[0], v[1], v[2]]


def slices():
    A = te.placeholder((8, 10), name="A")
    x = topi.strided_slice(A, [1, 2], [7, 9], [2, 3])
    y = topi.strided_slice(A, [2], [6], [1], axes=[1])
    return [A, x, y]


def taken():
    A = te.placeholder((8, 5), name="A")
    at = te.placeholder((3,), name="at", dtype="int32")
    x = topi.take(A, at, axis=0)
    y = topi.take(A, at)
    return [A, at, x, y]


def gathered_along_an_axis():
    A = te.placeholder((4, 5), name="A")
    at = te.placeholder((4, 2), name="at", dtype="int32")
    x = topi.gather(A, 1, at)
    return [A, at, x]


def tiled():
    A = te.placeholder((4, 6), name="A")
    x = topi.tile(A, (2, 3))
    y = topi.repeat(A, 2, axis=1)
    z = topi.flip(A, axis=1)
    return [A, x, y, z]


def broadcast_to_a_shape():
    b = te.placeholder((6,), name="b")
    x = topi.broadcast_to(b, (4, 6))
    return [b, x]


def numbered():
    x = topi.arange(2, 14, 3, dtype="int32")
    A = te.placeholder((4,), name="A", dtype="int32")
    y = topi.add(A, x)
    return [A, y]


def matrix_product():
    A = te.placeholder((4, 6), name="A")
    B = te.placeholder((6, 8), name="B")
    x = topi.matmul(A, B)
    y = topi.matmul(A, x, True, False)
    return [A, B, y]


def activations():
    A = te.placeholder((4, 6), name="A")
    x = topi.nn.relu(A)
    y = topi.nn.leaky_relu(A, 0.1)
    z = topi.nn.softplus(A)
    return [A, x, y, z]


def channelwise_activation():
    A = te.placeholder((2, 3, 4, 4), name="A")
    slope = te.placeholder((3,), name="slope")
    x = topi.nn.prelu(A, slope)
    return [A, slope, x]


def dense_with_bias():
    data = te.placeholder((4, 16), name="data")
    weight = te.placeholder((8, 16), name="weight")
    bias = te.placeholder((8,), name="bias")
    x = topi.nn.relu(topi.nn.dense(data, weight, bias))
    return [data, weight, bias, x]


def dense_in_wider_type():
    data = te.placeholder((4, 16), name="data", dtype="float16")
    weight = te.placeholder((8, 16), name="weight", dtype="float16")
    x = topi.nn.dense(data, weight, out_dtype="float32")
    return [data, weight, x]


def matmul_of_batches():
    A = te.placeholder((3, 4, 16), name="A")
    B = te.placeholder((3, 8, 16), name="B")
    x = topi.nn.batch_matmul(A, B)
    y = topi.nn.matmul(x, B)
    return [A, B, y]


def convolution_nchw():
    data = te.placeholder((1, 4, 8, 8), name="data")
    weight = te.placeholder((6, 4, 3, 3), name="weight")
    x = topi.nn.conv2d_nchw(data, weight, 1, 1, 1)
    return [data, weight, x]


def convolution_with_stride():
    data = te.placeholder((1, 4, 9, 9), name="data")
    weight = te.placeholder((6, 4, 3, 3), name="weight")
    bias = te.placeholder((1, 6, 1, 1), name="bias")
    x = topi.nn.conv2d_nchw(data, weight, (2, 2), (1, 1, 1, 1), (1, 1))
    y = topi.nn.relu(topi.add(x, bias))
    return [data, weight, bias, y]


def convolution_nhwc():
    data = te.placeholder((1, 8, 8, 4), name="data")
    weight = te.placeholder((3, 3, 4, 6), name="weight")
    x = topi.nn.conv2d_nhwc(data, weight, 1, "SAME", 2)
    return [data, weight, x]


def convolution_of_groups():
    data = te.placeholder((1, 8, 6, 6), name="data")
    weight = te.placeholder((4, 4, 3, 3), name="weight")
    x = topi.nn.group_conv2d_nchw(data, weight, 1, 0, 1, 2)
    return [data, weight, x]


def convolution_of_channels():
    data = te.placeholder((1, 4, 8, 8), name="data")
    weight = te.placeholder((4, 2, 3, 3), name="weight")
    x = topi.nn.depthwise_conv2d_nchw(data, weight, 1, 1, 1)
    return [data, weight, x]


def convolution_of_channels_nhwc():
    data = te.placeholder((1, 8, 8, 4), name="data")
    weight = te.placeholder((3, 3, 4, 1), name="weight")
    x = topi.nn.depthwise_conv2d_nhwc(data, weight, (2, 2), "SAME", 1)
    return [data, weight, x]


def convolution_of_rows():
    data = te.placeholder((1, 4, 16), name="data")
    weight = te.placeholder((6, 4, 3), name="weight")
    x = topi.nn.conv1d_ncw(data, weight, 1, 1)
    return [data, weight, x]


def convolution_of_volumes():
    data = te.placeholder((1, 2, 4, 6, 6), name="data")
    weight = te.placeholder((3, 2, 2, 3, 3), name="weight")
    x = topi.nn.conv3d_ncdhw(data, weight, 1, 0, 1, 1)
    return [data, weight, x]


def padding():
    A = te.placeholder((4, 6), name="A")
    x = topi.nn.pad(A, (1, 0), (2, 3))
    y = topi.nn.pad(A, (1, 1), pad_value=-1.0, name="frame")
    return [A, x, y]


def largest_of_windows():
    data = te.placeholder((1, 4, 9, 9), name="data")
    x = topi.nn.pool2d(data, (3, 3), (2, 2), (1, 1), (1, 1, 1, 1), "max")
    return [data, x]


def averages_of_windows():
    data = te.placeholder((1, 4, 8, 8), name="data")
    x = topi.nn.pool2d(data, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "avg")
    y = topi.nn.global_pool(x, "avg")
    return [data, y]


def softmax():
    A = te.placeholder((4, 10), name="A")
    x = topi.nn.softmax(A)
    return [A, x]


def log_softmax():
    A = te.placeholder((4, 10), name="A")
    x = topi.nn.log_softmax(A)
    return [A, x]


def layer_norm():
    A = te.placeholder((4, 10), name="A")
    gamma = te.placeholder((10,), name="gamma")
    beta = te.placeholder((10,), name="beta")
    x = topi.nn.layer_norm(A, gamma, beta, [1])
    return [A, gamma, beta, x]


def rms_norm():
    A = te.placeholder((4, 10), name="A")
    weight = te.placeholder((10,), name="weight")
    x = topi.nn.rms_norm(A, weight, [1])
    return [A, weight, x]


def batch_norm():
    A = te.placeholder((2, 3, 4, 4), name="A")
    gamma = te.placeholder((3,), name="gamma")
    beta = te.placeholder((3,), name="beta")
    mean = te.placeholder((3,), name="mean")
    var = te.placeholder((3,), name="var")
    x = topi.nn.batch_norm(A, gamma, beta, mean, var, axis=1)[0]
    return [A, gamma, beta, mean, var, x]


def scale_and_shift():
    A = te.placeholder((2, 3, 4, 4), name="A")
    scale = te.placeholder((3,), name="scale")
    shift = te.placeholder((3,), name="shift")
    x = topi.nn.scale_shift_nchw(A, scale, shift)
    return [A, scale, shift, x]


def one_of_many():
    at = te.placeholder((4,), name="at", dtype="int32")
    x = topi.one_hot(at, 1.0, 0.0, 6, -1, "float32")
    return [at, x]


