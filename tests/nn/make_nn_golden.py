#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Golden values of layers, optimizers and schedulers, computed in float64.

Layers, SGD, Adam, AdamW and all schedulers by PyTorch; LARS, LAMB and Muon, which it lacks or defines otherwise, by
numpy from the papers.  Writes nn_golden.inc beside this file: rows of name, count, values.
"""
import math
import pathlib

import numpy as np
import torch
import torch.nn as nn

torch.manual_seed(7)
torch.set_default_dtype(torch.float64)
out = {}


def put(name, t):
    out[name] = np.asarray(t.detach() if isinstance(t, torch.Tensor) else t, dtype=np.float64).reshape(-1)


def rand(*shape):
    return (torch.randint(-64, 65, shape).double() / 32).requires_grad_()


def layer(name, m, *shape, x=None):
    for k, p in m.named_parameters():
        with torch.no_grad():
            p.copy_(rand(*p.shape) / 2)
        put(f"{name}.{k}", p)
    x = rand(*shape) if x is None else x
    put(f"{name}.x", x)
    y = m(x)
    put(f"{name}.y", y)
    g = torch.autograd.grad((y * y).sum(), [p for p in m.parameters()])
    for (k, _), v in zip(m.named_parameters(), g):
        put(f"{name}.{k}.grad", v)
    for k, b in m.named_buffers():
        put(f"{name}.{k}", b)
    return m


layer("linear", nn.Linear(5, 3), 2, 4, 5)
layer("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, dilation=2, groups=2), 2, 4, 11)
layer("conv2d", nn.Conv2d(2, 3, (3, 2), stride=(2, 1), padding=(1, 0)), 2, 2, 7, 5)
layer("same", nn.Conv2d(2, 3, 4, padding="same", dilation=(1, 2)), 1, 2, 6, 7)
layer("convt1d", nn.ConvTranspose1d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), 2, 4, 5)
layer("convt2d", nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1, output_padding=1, dilation=2), 1, 2, 4, 3)
bn = layer("batchnorm", nn.BatchNorm2d(3), 4, 3, 2, 3)
bn.eval()
put("batchnorm.eval", bn(torch.from_numpy(out["batchnorm.x"].reshape(4, 3, 2, 3))))
layer("layernorm", nn.LayerNorm((3, 4)), 2, 3, 4)
layer("groupnorm", nn.GroupNorm(2, 4), 3, 4, 5)
layer("instancenorm", nn.InstanceNorm2d(3, affine=True), 2, 3, 4, 3)
layer("rmsnorm", nn.RMSNorm(6, eps=1e-6), 4, 6)
emb = layer("embedding", nn.Embedding(7, 3), x=torch.tensor([[1, 6, 0], [1, 3, 1]]))
ln2 = nn.LayerNorm(3)
put("layernorm2d.weight", rand(3))
put("layernorm2d.bias", rand(3))
x = rand(2, 3, 4, 5)
put("layernorm2d.x", x)
w, b = (torch.from_numpy(out[f"layernorm2d.{k}"]) for k in ("weight", "bias"))
put("layernorm2d.y", nn.functional.layer_norm(x.permute(0, 2, 3, 1), (3,), w, b).permute(0, 3, 1, 2))
cell = nn.LSTMCell(3, 4)
for k, p in cell.named_parameters():
    with torch.no_grad():
        p.copy_(rand(*p.shape) / 2)
    put(f"lstm.{k}", p)
xs, h, c = rand(2, 3), None, None
put("lstm.x", xs)
h, c = cell(xs)
put("lstm.h1", h), put("lstm.c1", c)
h, c = cell(xs * 0.5, (h, c))
put("lstm.h2", h), put("lstm.c2", c)

# ---- optimizers: loss = mean((x w + b - y)^2), 6 steps ----
X, Y, W0, B0 = (rand(8, 4).detach() for _ in range(4))
Y, W0, B0 = Y[:, :3].contiguous(), (rand(4, 3) / 2).detach(), (rand(3) / 2).detach()
for k, v in (("x", X), ("y", Y), ("w", W0), ("b", B0)):
    put(f"optim.{k}", v)
STEPS = 6


def run(name, make):
    w, b = W0.clone().requires_grad_(), B0.clone().requires_grad_()
    o = make([w, b])
    for _ in range(STEPS):
        o.zero_grad()
        ((X @ w + b - Y) ** 2).mean().backward()
        o.step()
    put(f"{name}.w", w), put(f"{name}.b", b)


T = torch.optim
run("sgd", lambda p: T.SGD(p, lr=0.05))
run("sgd_decay", lambda p: T.SGD(p, lr=0.05, weight_decay=0.1))
run("sgd_momentum", lambda p: T.SGD(p, lr=0.05, momentum=0.9))
run("sgd_nesterov", lambda p: T.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.1))
run("adam", lambda p: T.Adam(p, lr=0.01))
run("adam_decay", lambda p: T.Adam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-5, weight_decay=0.1))
run("adam_plain", lambda p: T.Adam(p, lr=0.02, betas=(0.0, 0.95)))
run("adamw", lambda p: T.AdamW(p, lr=0.01, weight_decay=0.01))


def newton_schulz(g, steps):
    tall = g.shape[0] > g.shape[1]
    x = g.T if tall else g
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(steps):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return x.T if tall else x


class Own:
    def __init__(self, p, rule, **k):
        self.p, self.rule, self.k, self.s, self.t = p, rule, k, [{} for _ in p], 0

    def zero_grad(self):
        for p in self.p:
            p.grad = None

    def step(self):
        self.t += 1
        with torch.no_grad():
            for p, s in zip(self.p, self.s):
                p.copy_(torch.from_numpy(np.ascontiguousarray(self.rule(p.numpy().copy(), p.grad.numpy().copy(), s, self.t, **self.k))))


def classic(w, g, s, t, lr, momentum, nesterov=False):
    s["b"] = momentum * s.get("b", 0) + lr * g
    return w - (lr * g + momentum * s["b"] if nesterov else s["b"])


def lars(w, g, s, t, lr, momentum=0.9, wd=1e-4, tcoef=1e-3):
    r1, r2 = np.linalg.norm(w), np.linalg.norm(g)
    r = tcoef * r1 / (r2 + wd * r1) if r1 > 0 and r2 > 0 else 1.0
    s["b"] = momentum * s.get("b", 0) + (g + wd * w)
    return w - lr * r * s["b"]


def lamb(w, g, s, t, lr, b1=0.9, b2=0.999, eps=1e-6, wd=0.0):
    s["m"] = b1 * s.get("m", 0) + (1 - b1) * g
    s["v"] = b2 * s.get("v", 0) + (1 - b2) * g * g
    up = (s["m"] / (1 - b1**t)) / (np.sqrt(s["v"] / (1 - b2**t)) + eps) + wd * w
    r1, r2 = np.linalg.norm(w), np.linalg.norm(up)
    return w - lr * (r1 / r2 if r1 > 0 and r2 > 0 else 1.0) * up


def muon(w, g, s, t, lr, momentum=0.95, wd=0.1, steps=5):
    s["b"] = momentum * s.get("b", 0) + g
    up = newton_schulz((g + momentum * s["b"]).reshape(w.shape[0], -1), steps).reshape(w.shape)
    return w * (1 - lr * wd) - lr * up


run("sgd_classic", lambda p: Own(p, classic, lr=0.05, momentum=0.9))
run("lars", lambda p: Own(p, lars, lr=2.0))
run("lamb", lambda p: Own(p, lamb, lr=0.02, wd=0.1))
run("muon", lambda p: Own(p, muon, lr=0.02))


# ---- schedulers ----
def sched(name, make, n, metric=None):
    o = T.SGD([torch.zeros(1, requires_grad=True)], lr=0.4)
    s = make(o)
    v = [o.param_groups[0]["lr"]]
    for i in range(n):
        o.step()
        s.step(*([metric[i]] if metric else []))
        v.append(o.param_groups[0]["lr"])
    put(name, v)


L = T.lr_scheduler
sched("multistep", lambda o: L.MultiStepLR(o, [2, 5, 5, 7], gamma=0.5), 9)
sched("cosine", lambda o: L.CosineAnnealingLR(o, 10, eta_min=0.01), 10)
sched("onecycle", lambda o: L.OneCycleLR(o, 0.8, total_steps=12), 11)
sched("onecycle_linear", lambda o: L.OneCycleLR(o, 0.8, total_steps=12, pct_start=0.4, div_factor=10, final_div_factor=100, anneal_strategy="linear"), 11)
M = [1.0, 0.9, 0.95, 0.93, 0.92, 0.91, 0.89999, 0.5, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6]
put("plateau.metric", M)
sched("plateau", lambda o: L.ReduceLROnPlateau(o, factor=0.5, patience=2, min_lr=0.06), len(M), M)
sched("plateau_max", lambda o: L.ReduceLROnPlateau(o, mode="max", patience=1, threshold=0.05, threshold_mode="abs"), len(M), M)

here = pathlib.Path(__file__).parent
with open(here / "nn_golden.inc", "w") as f:
    f.write("/* Made by make_nn_golden.py. */\n")
    for k, v in out.items():
        f.write(f'{{"{k}", {len(v)}, (const double[]){{\n')
        for i in range(0, len(v), 6):
            f.write("    " + " ".join(f"{x!r}," if not math.isnan(x) else "NAN," for x in map(float, v[i : i + 6])) + "\n")
        f.write("}},\n")
