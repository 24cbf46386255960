#!/usr/bin/env python3
"""Reads the text of a picture with the three networks of `rapidocr-onnxruntime`, by ONNX Runtime and by tvmr, and compares it.

    python3 benches/peers/onnx_text.py TVMR [--picture FILE] [--work-dir DIR]

Without a picture, one is drawn: some lines of different lengths, so that the networks run at several shapes. What comes before and
behind the networks is the package's own, for both. tvmr runs each network for each shape as a user would, by `tvmr run`, with the best
records of `--work-dir` if it is given. The exit code is 1 if a text differs, or if there is none.

It needs `rapidocr-onnxruntime` and `pillow`.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import rapidocr_onnxruntime
from onnx_nodes import identifier
from PIL import Image, ImageDraw, ImageFont
from rapidocr_onnxruntime import RapidOCR

LINES = ["tensor programs", "0123456789", "A fast kernel is a tuned kernel", "Rust", "90 % of the peak"]


def drawn():
    """A picture with `LINES`, some rows apart."""
    picture = Image.new("RGB", (640, 64 * len(LINES) + 40), "white")
    draw = ImageDraw.Draw(picture)
    for i, line in enumerate(LINES):
        draw.text((24, 24 + 64 * i), line, fill="black", font=ImageFont.load_default(32))
    return np.array(picture)


class Session:
    """Stands for a session of ONNX Runtime in the package, and runs the network by tvmr."""

    calls = []

    def __init__(self, args, inner, model):
        self.args, self.inner, self.model = args, inner, model

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def __call__(self, data):
        name = self.inner.get_input_names()[0]
        shape = ",".join(map(str, data.shape))
        with tempfile.TemporaryDirectory() as directory:
            given, found = (pathlib.Path(directory) / f for f in ("in.npz", "out.npz"))
            np.savez(given, **{identifier(name): data})
            command = [self.args.tvmr, "run", self.model, "--shape", f"{identifier(name)}={shape}", "--inputs", given, "--output", found]
            if self.args.work_dir:
                command += ["--best", "--work-dir", self.args.work_dir]
            subprocess.run(command, check=True, capture_output=True)
            with np.load(found) as arrays:
                results = list(arrays.values())
        expected = self.inner(data)
        error = max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in zip(results, expected, strict=True))
        Session.calls.append((self.model.stem, shape, error))
        return results


def text_of(reader, picture):
    found, _ = reader(picture)
    return [(text, round(float(score), 2)) for _, text, score in found or []]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tvmr")
    parser.add_argument("--picture", type=pathlib.Path)
    parser.add_argument("--work-dir")
    args = parser.parse_args()
    picture = np.array(Image.open(args.picture).convert("RGB")) if args.picture else drawn()
    expected = text_of(RapidOCR(), picture)
    reader = RapidOCR()
    models = pathlib.Path(rapidocr_onnxruntime.__file__).parent / "models"
    for part, attribute, pattern in (("text_det", "infer", "*det*"), ("text_cls", "infer", "*cls*"), ("text_rec", "session", "*rec*")):
        stage = getattr(reader, part)
        [model] = models.glob(f"{pattern}.onnx")
        setattr(stage, attribute, Session(args, getattr(stage, attribute), model))
    found = text_of(reader, picture)
    for model, shape, error in Session.calls:
        print(f"{model:40} {shape:16} {error:.1e}")
    for (text, score), (theirs, _) in zip(found, expected):
        print(f"{score:5.2f} {text!r}" + ("" if text == theirs else f", but {theirs!r} by ONNX Runtime"))
    same = bool(found) and [t for t, _ in found] == [t for t, _ in expected]
    print(f"{len(found)} texts, {'all' if same else 'not all'} as ONNX Runtime reads them")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
