#!/usr/bin/env python3
"""Trains the two models of handwritten digits and writes them, with test images, beside itself.

    pip install numpy scikit-learn safetensors
    python3 workloads/models/train_digits.py

The images are the 1,797 of scikit-learn (8 x 8 pixels, ten classes; CC BY 4.0, E. Alpaydin and C. Kaynak, UCI Machine Learning
Repository); every fifth one is for testing. `digits_mlp` has a hidden layer of 128 neurons. `digits_cnn` has two convolutions,
each with ReLU and pooling, and a classifier. Same versions of the packages give the same files.

| file | content |
| --- | --- |
| `digits_mlp.safetensors`, `digits_cnn.safetensors` | weights, named like the parameters of the modules |
| `digits_test.npz` | `x`, the test images as the MLP takes them; `images`, as the CNN does; `labels` |
"""

import pathlib

import numpy as np
from safetensors.numpy import save_file
from sklearn.datasets import load_digits

HERE = pathlib.Path(__file__).parent


def he(rng, *shape):
    """Random weights whose outputs have about the variance of their inputs; the first axis counts outputs."""
    return rng.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape).astype(np.float32)


class Adam:
    """Adam's rule with a decaying rate (Kingma and Ba, 2015)."""

    def __init__(self, weights, rate, steps):
        self.weights, self.rate, self.steps, self.step = weights, rate, steps, 0
        self.moments = {k: (np.zeros_like(w), np.zeros_like(w)) for k, w in weights.items()}

    def update(self, gradients):
        self.step += 1
        rate = self.rate * 0.5 * (1 + np.cos(np.pi * self.step / self.steps))
        for k, g in gradients.items():
            m, v = self.moments[k]
            m += 0.1 * (g - m)
            v += 0.001 * (g * g - v)
            unbiased = m / (1 - 0.9**self.step), v / (1 - 0.999**self.step)
            self.weights[k] -= (rate * unbiased[0] / (np.sqrt(unbiased[1]) + 1e-8)).astype(np.float32)


def softmax_gradient(logits, labels):
    """The gradient of the mean cross entropy."""
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(labels)), labels] -= 1
    return p / len(labels)


def mlp(w, x):
    """Logits, and what the gradient needs."""
    h = np.maximum(x @ w["w0"].T + w["b0"], 0)
    return h @ w["w1"].T + w["b1"], (x, h)


def mlp_gradients(w, kept, g):
    x, h = kept
    gh = (g @ w["w1"]) * (h > 0)
    return {"w1": g.T @ h, "b1": g.sum(0), "w0": gh.T @ x, "b0": gh.sum(0)}


def windows(x):
    """The 3 x 3 windows of images with a border of zeros: (n, c, h, w, 3, 3)."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))


def conv(x, w, b):
    return np.einsum("ncijrs,ocrs->noij", windows(x), w, optimize=True) + b.reshape(1, -1, 1, 1)


def conv_gradients(x, w, g):
    """The gradients of input, weights and bias."""
    flipped = w[:, :, ::-1, ::-1]
    return (np.einsum("noijrs,ocrs->ncij", windows(g), flipped, optimize=True),
            np.einsum("noij,ncijrs->ocrs", g, windows(x), optimize=True), g.sum((0, 2, 3)))


def pool(x):
    """The maxima of 2 x 2 windows."""
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).max((3, 5))


def pool_gradient(x, y, g):
    up = lambda a: a.repeat(2, 2).repeat(2, 3)
    return up(g) * (x == up(y))


def cnn(w, x):
    """Logits, and what the gradient needs."""
    a = np.maximum(conv(x, w["conv0_weight"], w["conv0_bias"]), 0)
    p = pool(a)
    b = np.maximum(conv(p, w["conv1_weight"], w["conv1_bias"]), 0)
    q = pool(b)
    flat = q.reshape(len(x), -1)
    return flat @ w["dense_weight"].T + w["dense_bias"], (x, a, p, b, q, flat)


def cnn_gradients(w, kept, g):
    x, a, p, b, q, flat = kept
    gq = (g @ w["dense_weight"]).reshape(q.shape)
    gb = pool_gradient(b, q, gq) * (b > 0)
    gp, gw1, gb1 = conv_gradients(p, w["conv1_weight"], gb)
    ga = pool_gradient(a, p, gp) * (a > 0)
    _, gw0, gb0 = conv_gradients(x, w["conv0_weight"], ga)
    return {"dense_weight": g.T @ flat, "dense_bias": g.sum(0), "conv1_weight": gw1, "conv1_bias": gb1,
            "conv0_weight": gw0, "conv0_bias": gb0}


def train(name, model, gradients, weights, images, labels, is_test, epochs, rng):
    x, y = images[~is_test], labels[~is_test]
    batch = 64
    rule = Adam(weights, 3e-3, epochs * (len(x) // batch))
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for i in range(0, len(x) - batch + 1, batch):
            pick = order[i:i + batch]
            logits, kept = model(weights, x[pick])
            rule.update(gradients(weights, kept, softmax_gradient(logits, y[pick])))
    logits, _ = model(weights, images[is_test])
    right = int((logits.argmax(1) == labels[is_test]).sum())
    print(f"{name}: {right} of {is_test.sum()} test images right")
    save_file(weights, HERE / f"{name}.safetensors")


def main():
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    is_test = np.arange(len(labels)) % 5 == 4
    flat = images.reshape(len(images), 64)

    rng = np.random.default_rng(0)
    weights = {"w0": he(rng, 128, 64), "b0": np.zeros(128, np.float32), "w1": he(rng, 10, 128), "b1": np.zeros(10, np.float32)}
    train("digits_mlp", mlp, mlp_gradients, weights, flat, labels, is_test, 40, rng)

    rng = np.random.default_rng(0)
    weights = {
        "conv0_weight": he(rng, 16, 1, 3, 3), "conv0_bias": np.zeros(16, np.float32),
        "conv1_weight": he(rng, 32, 16, 3, 3), "conv1_bias": np.zeros(32, np.float32),
        "dense_weight": he(rng, 10, 32 * 2 * 2), "dense_bias": np.zeros(10, np.float32),
    }
    train("digits_cnn", cnn, cnn_gradients, weights, images, labels, is_test, 30, rng)

    np.savez_compressed(HERE / "digits_test.npz", x=flat[is_test], images=images[is_test], labels=labels[is_test])


if __name__ == "__main__":
    main()
