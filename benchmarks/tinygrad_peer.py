"""The peer of `make bench-replay`: the same two networks in tinygrad on WebGPU. Run by a Python that has tinygrad.

Reads a model's name per line, runs it once on the batch and answers with the milliseconds it took. It imports nothing
of Retrace. Needs `pip install tinygrad dawn-python`; RETRACE_BENCH_TINYGRAD names that Python.
"""

import importlib.util
import os
import platform
import sys
import time
from pathlib import Path

import numpy as np


def main() -> None:
    dawn = importlib.util.find_spec("pydawn")
    assert dawn is not None
    assert dawn.submodule_search_locations is not None
    [package] = dawn.submodule_search_locations
    library = next(Path(package).rglob(f"*{platform.machine()}.so"))
    os.environ["WEBGPU_PATH"] = str(library)
    os.environ["DEV"] = "WEBGPU"
    from tinygrad import Tensor, TinyJit

    random = np.random.default_rng(1)

    def weight(*shape: int) -> Tensor:
        return Tensor(random.normal(size=shape).astype("f4") * 0.1).realize()

    w1, w2, w3 = weight(784, 256), weight(256, 128), weight(128, 10)
    b1, b2, b3 = weight(256), weight(128), weight(10)
    c1, d1, c2, d2, w, b = weight(8, 1, 3, 3), weight(8), weight(16, 8, 3, 3), weight(16), weight(784, 10), weight(10)

    def mlp(x: Tensor) -> Tensor:
        return (((x @ w1 + b1).relu() @ w2 + b2).relu() @ w3 + b3).realize()

    def cnn(x: Tensor) -> Tensor:
        x = x.conv2d(c1, d1, padding=1).relu().max_pool2d((2, 2))
        x = x.conv2d(c2, d2, padding=1).relu().max_pool2d((2, 2))
        return (x.flatten(1) @ w + b).realize()

    models = {
        "mlp": (TinyJit(mlp), random.normal(size=(1024, 784)).astype("f4")),
        "cnn": (TinyJit(cnn), random.normal(size=(64, 1, 28, 28)).astype("f4")),
    }
    for run, x in models.values():
        for _ in range(3):  # the first runs compile and record
            run(Tensor(x).realize()).numpy()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for line in sys.stdin:
        run, x = models[line.strip()]
        started = time.perf_counter()
        run(Tensor(x).realize()).numpy()
        sys.stdout.write(f"{(time.perf_counter() - started) * 1000}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
