#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The PyTorch side of the benchmarks: torch_peer.py CASE, then the protocol of parts/bench_serve.h.

Environment: BENCH_THREADS, BENCH_DATA (folder of the four IDX files, plain or .gz; unset: random data of the same
shape).  The network, batch, optimizer and what is waited for are those of bench_cases.c.
"""
import gzip
import os
import sys
import time

try:
    import torch
except ImportError:
    print("none PyTorch is not installed: apt-get install python3-torch", flush=True)
    sys.exit(0)

F = torch.nn.functional
torch.manual_seed(0)
torch.set_num_threads(int(os.environ.get("BENCH_THREADS", "1")))
BATCH = 128


def status_kb(key):
    with open("/proc/self/status") as f:
        return int(next(line for line in f if line.startswith(key + ":")).split()[1])


def forget_peak():
    try:
        with open("/proc/self/clear_refs", "w") as f:
            f.write("5")
    except OSError:
        pass


def idx(name, shape, high):
    folder = os.environ.get("BENCH_DATA")
    if not folder:
        return torch.randint(0, high, shape, dtype=torch.uint8)
    path = os.path.join(folder, name)
    if os.path.exists(path):
        with open(path, "rb") as f:
            raw = f.read()
    else:
        with gzip.open(path + ".gz") as f:
            raw = f.read()
    skip = 4 + 4 * (3 if len(shape) == 4 else 1)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8, offset=skip).reshape(shape)


class Tutorial:
    """The network of the MNIST tutorial, its data and its Adam."""

    def __init__(self):
        self.x = idx("train-images-idx3-ubyte", (60000, 1, 28, 28), 256)
        self.y = idx("train-labels-idx1-ubyte", (60000,), 10)
        self.x_test = idx("t10k-images-idx3-ubyte", (10000, 1, 28, 28), 256)
        self.y_test = idx("t10k-labels-idx1-ubyte", (10000,), 10)
        forget_peak()
        self.loaded_kb = status_kb("VmRSS")
        nn = torch.nn
        self.net = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3), nn.ReLU(),
                                 nn.MaxPool2d(2), nn.Flatten(1), nn.Dropout(0.5), nn.Linear(1600, 10))
        self.opt = torch.optim.Adam(self.net.parameters())

    def step(self):
        pick = torch.randint(0, self.x.shape[0], (BATCH,))
        self.opt.zero_grad()
        loss = F.cross_entropy(self.net(self.x[pick].float()), self.y[pick].long())
        loss.backward()
        self.opt.step()
        return loss.item()

    def accuracy(self):
        with torch.no_grad():
            return (self.net(self.x_test.float()).argmax(1) == self.y_test).float().mean().item()


def without_result(fn):
    """The time of fn counts."""
    def once():
        fn()
    return once


def mnist_step():
    return without_result(Tutorial().step)


def mnist_first():
    t = Tutorial()
    t.step()
    return without_result(t.step)


def mnist_eval():
    t = Tutorial()
    t.net.eval()
    return without_result(t.accuracy)


def step_peak():
    t = Tutorial()

    def once():
        t.step()
        return status_kb("VmHWM") - t.loaded_kb
    return once


def conv2d():
    x, w, b = torch.rand(128, 32, 13, 13), torch.rand(64, 32, 3, 3), torch.rand(64)
    return without_result(torch.no_grad()(lambda: F.conv2d(x, w, b)))


def elementwise():
    a, b = torch.rand(1 << 24), torch.rand(1 << 24)
    return without_result(torch.no_grad()(lambda: torch.relu(a * b + a) / 2 + b))


def softmax():
    x = torch.rand(4096, 1024)
    return without_result(torch.no_grad()(lambda: torch.softmax(x, 1)))


CASES = {f.__name__: f for f in (mnist_step, mnist_first, mnist_eval, step_peak, conv2d, elementwise, softmax)}


def iteration(once):
    start = time.perf_counter()
    own = once()
    return (time.perf_counter() - start) * 1e3 if own is None else own


def batch(once, n):
    start = time.perf_counter()
    while True:
        iteration(once)
        if time.perf_counter() - start >= 0.02:
            break
    values = sorted(iteration(once) for _ in range(n))
    return (values[n // 2] + values[(n - 1) // 2]) / 2, values[0]


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in CASES:
        sys.exit("usage: torch_peer.py " + "|".join(CASES))
    once = CASES[sys.argv[1]]()
    print("ready PyTorch " + torch.__version__, flush=True)
    for line in sys.stdin:
        print("%.9g %.9g" % batch(once, max(1, int(line))), flush=True)


main()
