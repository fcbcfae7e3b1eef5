"""The formulas of the zoo, written out plainly in the widest floats of numpy: independent of the cascades."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

__all__ = ["OUTPUTS", "WEIGHTS"]

L = np.longdouble
Formula = Callable[[SimpleNamespace], Any]

WEIGHTS: dict[str, Formula] = {}
"""The weights, or the normalised vector, by entry."""

OUTPUTS: dict[str, Formula] = {}
"""The result of the contracted form, by entry; weights times ``V`` where it is not here."""


def weights(name: str) -> Callable[[Formula], Formula]:
    return lambda formula: WEIGHTS.setdefault(name, formula)


def output(name: str) -> Callable[[Formula], Formula]:
    return lambda formula: OUTPUTS.setdefault(name, formula)


def softmax(x: Any, axis: int = -1) -> Any:
    w = np.exp(x - x.max(axis=axis, keepdims=True))
    return w / w.sum(axis=axis, keepdims=True)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def relu(x: Any) -> Any:
    return np.where(x > 0, x, L(0))


def phi(x: Any) -> Any:
    return np.vectorize(lambda each: L(0.5 * math.erfc(-float(each) / math.sqrt(2))), otypes=[L])(x)


def normalised(x: Any, eps: float = 0.0) -> Any:
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def rows(formula: Callable[[Any], Any], x: Any) -> Any:
    return np.stack([formula(row) for row in x])


for _name in ("online-softmax", "two-exponent-softmax", "edge-moe-softmax", "uniattn"):
    WEIGHTS[_name] = lambda i: softmax(i.X)
for _name in ("softmax-3pass", "softmax-naive"):
    WEIGHTS[_name] = lambda i: softmax(i.QK)
for _name in (
    "attention-1pass",
    "attention-2pass",
    "attention-3pass",
    "attention-3pass-deferred",
    "attention-naive",
    "attention-naive-deferred",
):
    OUTPUTS[_name] = lambda i: softmax(i.Q @ i.K.T) @ i.V


def masked_attention(i: SimpleNamespace, window: int) -> Any:
    """Return attention of the last positions, each to the ``window`` keys up to its own."""
    queries, keys = i.Q.shape[0], i.K.shape[0]
    behind = np.arange(queries)[:, None] + keys - queries - np.arange(keys)
    return softmax(np.where((behind >= 0) & (behind < window), i.Q @ i.K.T, -np.inf)) @ i.V


OUTPUTS["attention-1pass-causal"] = lambda i: masked_attention(i, i.K.shape[0])
OUTPUTS["attention-1pass-window"] = lambda i: masked_attention(i, 3)
for _name in ("pedagogical-2pass", "pedagogical-deferred", "pedagogical-iterative"):
    OUTPUTS[_name] = lambda i: (i.A * i.B).sum() * i.A.sum()
OUTPUTS["online-attention"] = lambda i: softmax(i.X) @ i.V
OUTPUTS["log-sum-exp"] = lambda i: np.log(np.exp(i.X).sum(1))


@weights("softpick")
def _(i: SimpleNamespace) -> Any:
    seen = np.isfinite(i.X)
    excess = np.exp(i.X) - 1
    return relu(excess) / ((np.abs(excess) * seen).sum(1, keepdims=True) + L(1e-8))


WEIGHTS["sigmoid-attention"] = lambda i: sigmoid(i.X - np.log(L(i.X.shape[1])))
WEIGHTS["relu-attention"] = lambda i: relu(i.X) / i.X.shape[1]


@output("rela")
def _(i: SimpleNamespace) -> Any:
    heads = np.stack([relu(x) @ v for x, v in zip(i.X, i.V, strict=True)])
    rms = np.sqrt((heads**2).mean(axis=(0, 2)) + L(1e-8))[None, :, None]
    return i.G[:, None] * heads / rms * sigmoid(i.S[:, None] * heads)


WEIGHTS["nap"] = lambda i: normalised(i.X)
WEIGHTS["self-adjust"] = lambda i: np.where(np.isfinite(i.X), i.X, 0) * softmax(i.X)


@weights("self-adjust-normalised")
def _(i: SimpleNamespace) -> Any:
    x = np.where(np.isfinite(i.X), i.X, 0)
    low, high = np.minimum(x.min(1), 0)[:, None], np.maximum(x.max(1), 0)[:, None]
    return (x - low) / np.where(high > low, high - low, 1) * softmax(i.X)


WEIGHTS["ssmax"] = lambda i: softmax(L(0.43) * np.log(L(i.X.shape[1])) * i.X)
WEIGHTS["ssa"] = lambda i: softmax(
    (1 + np.exp(-np.exp(L(2))) * np.log(np.arange(1, len(i.X) + 1, dtype=L)))[:, None] * i.X
)


@weights("adaptive-temperature")
def _(i: SimpleNamespace) -> Any:
    def sharpened(x: Any) -> Any:
        p = softmax(x)
        entropy = -sum(each * np.log(each) for each in p if each > 0)
        beta = max(L(1), sum(L(c) * entropy**k for k, c in enumerate((-1.791, 4.917, -2.3, 0.481, -0.037))))
        return softmax((beta if entropy > 0.5 else L(1)) * x)

    return rows(sharpened, i.X)


@weights("stablemax")
def _(i: SimpleNamespace) -> Any:
    with np.errstate(divide="ignore"):
        s = np.where(i.X >= 0, i.X + 1, 1 / (1 - i.X + L(1e-30)))
    return s / s.sum(1, keepdims=True)


@weights("multimax")
def _(i: SimpleNamespace) -> Any:
    x = i.X
    bent = x + L(0.02) * relu(-1 - x) - L(0.02) * relu(x - 1) + L(0.01) * relu(-2 - x) ** 2 - L(0.01) * relu(x - 2) ** 2
    return softmax(bent)


WEIGHTS["clipped-softmax"] = lambda i: np.clip(L(1.03) * softmax(i.X) - L(0.03), 0, 1)
OUTPUTS["gated-attention"] = lambda i: sigmoid(i.Q @ i.G + L(-1.0986))[:, None] * (softmax(i.X) @ i.V)
WEIGHTS["softmax-bias-correction"] = lambda i: np.round(softmax(i.X) * 255) / 255 + L(0.0005)


@weights("log2-quantised-softmax")
def _(i: SimpleNamespace) -> Any:
    k = np.round(-np.log2(np.maximum(softmax(i.X), L(1e-30))))
    return np.where(k >= 16, 0, L(2) ** -k)


@weights("log-sqrt2-quantised-softmax")
def _(i: SimpleNamespace) -> Any:
    k = np.round(-2 * np.log2(np.maximum(softmax(i.X), L(1e-30))))
    value = L(2) ** -np.ceil(k / 2) * np.where(k % 2 == 1, np.sqrt(L(2)), 1)
    return np.where(k >= 16, 0, value)


@weights("adalog-softmax")
def _(i: SimpleNamespace) -> Any:
    k = np.round(-np.log2(np.maximum(softmax(i.X), L(1e-30))) * 37 / 19)
    table = np.round(L(2) ** (-((19 * k) % 37) / 37) * 30) / 30
    return np.where(k >= 16, 0, L(2) ** -((k * 19) // 37) * table)


@weights("sulq-softmax")
def _(i: SimpleNamespace) -> Any:
    low, high = L(-7.643856189774724), L(0.0072)
    u = np.log2(softmax(i.X) + L(0.005))
    grid = np.clip(np.round((u - low) / (high - low) * 15), 0, 15) / 15 * (high - low) + low
    return L(2) ** np.round(grid) - L(0.005)


WEIGHTS["bivit"] = lambda i: (softmax(i.X) >= L(0.25) * softmax(i.X).max(1, keepdims=True)).astype(L)
WEIGHTS["rmsnorm"] = lambda i: i.G * i.X / (np.sqrt((i.X**2).mean(1, keepdims=True)) + L(1e-8))
OUTPUTS["rmsnorm"] = lambda i: WEIGHTS["rmsnorm"](i) @ i.W
WEIGHTS["prmsnorm"] = lambda i: i.G * i.X / (np.sqrt((i.X[:, :2] ** 2).mean(1, keepdims=True)) + L(1e-8))
OUTPUTS["prmsnorm"] = lambda i: WEIGHTS["prmsnorm"](i) @ i.W
WEIGHTS["layernorm"] = lambda i: normalised(i.X, 1e-5) * i.G + i.B
OUTPUTS["layernorm"] = lambda i: WEIGHTS["layernorm"](i) @ i.W
WEIGHTS["gelu"] = lambda i: i.X * phi(i.X)
WEIGHTS["gelu-tanh"] = lambda i: L(0.5) * i.X * (1 + np.tanh(np.sqrt(2 / L(np.pi)) * (i.X + L(0.044715) * i.X**3)))
WEIGHTS["swish"] = lambda i: i.X * sigmoid(i.X)
WEIGHTS["mish"] = lambda i: i.X * np.tanh(np.log1p(np.exp(i.X)))


@weights("pau")
def _(i: SimpleNamespace) -> Any:
    a = (0.0335583603, 0.505000375, 1.65343934, 2.01001052, 0.931901999, 0.152424124)
    b = (3.30847e-06, 3.98021568, 5.12471e-07, 0.301830109)
    top = sum(L(c) * i.X**k for k, c in enumerate(a))
    return top / (1 + sum(abs(L(c)) * np.abs(i.X) ** (k + 1) for k, c in enumerate(b)))


WEIGHTS["aglu"] = lambda i: i.X * (L(0.5) * np.exp(-L(0.5) * i.X) + 1) ** L(-2)
WEIGHTS["mfm"] = lambda i: i.X.max(axis=1)
WEIGHTS["simple-gate"] = lambda i: i.X[:, 0] * i.X[:, 1]
OUTPUTS["glu"] = lambda i: sigmoid(i.X @ i.W) * (i.X @ i.V)
OUTPUTS["swiglu"] = lambda i: (i.X @ i.W) * sigmoid(i.X @ i.W) * (i.X @ i.V)
OUTPUTS["geglu"] = lambda i: (i.X @ i.W) * phi(i.X @ i.W) * (i.X @ i.V)
OUTPUTS["bilinear-glu"] = lambda i: (i.X @ i.W) * (i.X @ i.V)
WEIGHTS["simplified-channel-attention"] = lambda i: i.X * (i.W @ i.X.mean(0))
OUTPUTS["softpool"] = lambda i: (np.where(np.isfinite(i.X), i.X, 0) * softmax(i.X)).sum(1)
OUTPUTS["mixed-pooling"] = lambda i: (i.X.max(1) + i.X.mean(1)) / 2


@output("gated-pooling")
def _(i: SimpleNamespace) -> Any:
    a = sigmoid(i.X @ i.W)
    return a * i.X.max(1) + (1 - a) * i.X.mean(1)


OUTPUTS["cut-cross-entropy"] = lambda i: -np.log((softmax(i.H @ i.W.T) * i.T).sum(1))
OUTPUTS["max-softmax-probability"] = lambda i: softmax(i.X).max(1)
WEIGHTS["vq-logits"] = lambda i: i.N * np.exp(i.X) / (i.N * np.exp(i.X)).sum(1, keepdims=True)
WEIGHTS["gumbel-softmax"] = lambda i: softmax(i.X - np.log(-np.log(i.U)))


@weights("sdm")
def _(i: SimpleNamespace) -> Any:
    return np.stack([softmax(np.log(2 + q) * d * x) for q, d, x in zip(i.Q, i.D, i.X, strict=True)])


@weights("forgetting-attention")
def _(i: SimpleNamespace) -> Any:
    gates = np.cumsum(np.log(sigmoid(i.F)))
    x = np.full(i.X.shape, L(-np.inf))
    for p in range(len(x)):
        x[p, : p + 1] = i.X[p, : p + 1] + gates[p] - gates[: p + 1]
    return softmax(x)


@output("cosformer")
def _(i: SimpleNamespace) -> Any:
    length = max(len(i.Q), len(i.K))
    between = (np.arange(len(i.Q))[:, None] - np.arange(len(i.K))[None, :]).astype(L)
    w = (relu(i.Q) @ relu(i.K).T) * np.cos(L(np.pi) * between / (2 * length))
    return w @ i.V / np.maximum(w.sum(1, keepdims=True), L(1e-6))


@output("performer")
def _(i: SimpleNamespace) -> Any:
    scale = L(i.Q.shape[1]) ** L(-0.25)
    q, k = i.Q * scale, i.K * scale
    dash_q, dash_k = q @ i.W.T, k @ i.W.T
    fq = np.exp(dash_q - (q**2).sum(1, keepdims=True) / 2 - dash_q.max(1, keepdims=True)) + L(1e-4)
    fk = np.exp(dash_k - (k**2).sum(1, keepdims=True) / 2 - dash_k.max()) + L(1e-4)
    w = fq @ fk.T
    return w @ i.V / w.sum(1, keepdims=True)


@output("performer-relu")
def _(i: SimpleNamespace) -> Any:
    w = (relu(i.Q @ i.W.T) + L(1e-3)) @ (relu(i.K @ i.W.T) + L(1e-3)).T
    return w @ i.V / w.sum(1, keepdims=True)


@output("mala")
def _(i: SimpleNamespace) -> Any:
    fq, fk = (np.where(x > 0, x + 1, np.exp(np.minimum(x, 0))) for x in (i.Q, i.K))
    count = len(i.K)
    s = fq @ fk.T / (np.sqrt(L(i.Q.shape[1])) * count)
    z = s.sum(1, keepdims=True)
    return ((1 + 1 / (z + L(1e-6))) * s - z / count) @ i.V


@output("soft")
def _(i: SimpleNamespace) -> Any:
    width, features = i.W.shape[1], i.Q.shape[1]
    pooled = np.stack([
        sum(i.W[:, c] @ i.Q[start + c] for c in range(width)) for start in range(0, len(i.Q), width)
    ])  # fmt: skip
    marks = normalised(pooled, 1e-5)
    marks = marks * phi(marks)
    kernel = lambda a, b: np.exp(-((a[:, None] - b[None]) ** 2).sum(-1) / 2)  # noqa: E731 (one formula)
    c, a = kernel(i.Q, marks), kernel(marks, marks) + L(0.01) * np.eye(len(marks), dtype=L)
    inverse = L(1.8) / a.sum(1).max() ** 2 * a
    for _step in range(20):
        inverse = 2 * inverse - inverse @ a @ inverse
    assert features == marks.shape[1]
    return c @ (inverse @ (c.T @ i.V))


OUTPUTS["galerkin"] = lambda i: i.Q @ (normalised(i.K, 1e-5).T @ normalised(i.V, 1e-5)) / len(i.K)
OUTPUTS["fourier-attention"] = lambda i: (
    normalised(i.Q, 1e-5) @ normalised(i.K, 1e-5).T / np.sqrt(L(i.Q.shape[1])) @ i.V / len(i.K)
)


def slots(i: SimpleNamespace, window: int) -> Any:
    """Gated slots, and logits of a window of keys in the same softmax."""
    keys = np.zeros((i.F.shape[1], i.K.shape[1]), L)
    values = np.zeros((i.F.shape[1], i.V.shape[1]), L)
    result = []
    for t in range(len(i.K)):
        gate = np.exp(np.log(sigmoid(i.F[t])) / 8)[:, None]
        keys, values = gate * keys + (1 - gate) * i.K[t], gate * values + (1 - gate) * i.V[t]
        first = max(0, t - window + 1) if window else t + 1
        logits = np.concatenate([keys @ i.Q[t], i.K[first : t + 1] @ i.Q[t]])
        result.append(softmax(logits) @ np.concatenate([values, i.V[first : t + 1]]))
    return np.stack(result)


OUTPUTS["gated-slot-attention"] = lambda i: slots(i, 0)
OUTPUTS["native-hybrid-attention"] = lambda i: slots(i, 3)


@output("parallax")
def _(i: SimpleNamespace) -> Any:
    p = softmax(i.X)
    d2 = (p * i.Y).sum(1, keepdims=True)
    return (p @ i.V) * (1 + d2) - (p * i.Y) @ i.V


@output("local-linear-attention")
def _(i: SimpleNamespace) -> Any:
    result = []
    for q in i.Q:
        # Weighted least squares over (1, k - q) with a ridge of 1 on the slope; the row of largest weight scales it.
        x = i.K @ q
        w, z = np.exp(x - x.max()).astype(np.float64), (i.K - q).astype(np.float64)
        design = np.concatenate([np.ones((len(z), 1)), z], axis=1)
        normal = design.T @ (w[:, None] * design) + np.diag([0.0, *[1.0] * z.shape[1]])
        result.append(np.linalg.solve(normal, design.T @ (w[:, None] * i.V.astype(np.float64)))[0])
    return np.stack(result)


@output("multiscreen")
def _(i: SimpleNamespace) -> Any:
    w, limit, r = 8, 256, L(0.5)

    def turned(x: Any) -> Any:
        unit = x / np.sqrt((x**2).sum(1, keepdims=True))
        angle = L(np.pi) * (np.cos(L(np.pi) * w / limit) + 1) / 2 * np.arange(len(x), dtype=L) / w
        both = (unit[:, 0] + 1j * unit[:, 1]) * np.exp(1j * angle)
        unit[:, 0], unit[:, 1] = both.real, both.imag
        return unit

    x = turned(i.Q.copy()) @ turned(i.K.copy()).T
    ahead = (np.arange(x.shape[1])[None] - np.arange(x.shape[0])[:, None]).astype(L)
    mask = np.where((ahead <= 0) & (ahead > -w), (np.cos(L(np.pi) * ahead / w) + 1) / 2, 0)
    o = (relu(1 - (1 - x) / r) ** 2 * mask) @ i.V
    length = np.sqrt((o**2).sum(1, keepdims=True))
    return o * np.where(length > 0, np.tanh(length) / np.where(length > 0, length, 1), 1) * np.tanh(i.G * sigmoid(i.G))


@output("test-time-training")
def _(i: SimpleNamespace) -> Any:
    k = (i.K - i.K.mean(0)) / np.sqrt(i.K.var(0) + 1)
    silu = lambda x: x * sigmoid(x)  # noqa: E731 (one formula)
    z1, z2 = k @ i.W1, k @ i.W2
    e = -i.V / len(k)
    da = e @ i.W3.T
    slope = sigmoid(z1) + z1 * sigmoid(z1) * (1 - sigmoid(z1))
    g1, g2, g3 = k.T @ (da * z2 * slope), k.T @ (da * silu(z1)), (silu(z1) * z2).T @ e
    return (silu(i.Q @ (i.W1 - g1)) * (i.Q @ (i.W2 - g2))) @ (i.W3 - g3)


OUTPUTS["gaussian-kernel-attention"] = lambda i: np.exp(-((i.Q[:, None] - i.K[None]) ** 2).sum(-1) / 2) @ i.V


@output("soft-moe")
def _(i: SimpleNamespace) -> Any:
    inputs = softmax(i.X, axis=0).T @ i.T
    return softmax(i.X, axis=1) @ np.einsum("sd,sdf->sf", inputs, i.W)


@output("taylor-attention")
def _(i: SimpleNamespace) -> Any:
    x = i.Q @ i.K.T
    w = 1 + x + x**2 / 2
    return w @ i.V / w.sum(1, keepdims=True)


def threshold(excess: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Return where the falling function ``excess`` is 0, by bisection."""
    for _step in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    return (low + high) / 2


def simplex(x: Any, power: int) -> Any:
    scaled = x / power
    tau = threshold(lambda t: (relu(scaled - t) ** power).sum() - 1, scaled.max() - 1, scaled.max())
    return relu(scaled - tau) ** power


WEIGHTS["sparsemax"] = lambda i: rows(lambda x: simplex(x, 1), i.X)
WEIGHTS["entmax15"] = lambda i: rows(lambda x: simplex(x, 2), i.X)


@weights("top-k-softmax")
def _(i: SimpleNamespace) -> Any:
    kth = np.sort(i.X, axis=1)[:, -4][:, None]
    return softmax(np.where(kth <= i.X, i.X, L(-np.inf)))


@output("blasst")
def _(i: SimpleNamespace) -> Any:
    x, tile = i.X, 3
    running = np.maximum.accumulate(x, axis=1)
    kept = np.zeros(x.shape[1], bool)
    for start in range(0, x.shape[1], tile):
        local = x[:, start : start + tile].max(1)
        kept[start : start + tile] = not all(local - running[:, start + tile - 1] < np.log(0.001))
    return softmax(np.where(kept, x, L(-np.inf))) @ i.V


@output("product-key-memory")
def _(i: SimpleNamespace) -> Any:
    result = []
    for qa, qb, gate in zip(i.QA, i.QB, i.G, strict=True):
        # The largest sums of pairs are among the pairs of the largest of each half.
        sa, sb = i.A @ qa, i.B @ qb
        first, second = np.argsort(-sa)[:4], np.argsort(-sb)[:4]
        pairs = sorted(((sa[a] + sb[b], a, b) for a in first for b in second), reverse=True)[:4]
        p = softmax(np.array([score for score, _, _ in pairs], L))
        read = sum(each * i.V[a, b] for each, (_, a, b) in zip(p, pairs, strict=True))
        result.append(read * gate * sigmoid(gate) @ i.U)
    return np.stack(result)


@output("scap")
def _(i: SimpleNamespace) -> Any:
    eta, t = L(0.1), L(0.3)
    return np.where(np.abs(i.X - eta) <= t, eta, i.X) @ i.W + i.B


OUTPUTS["uniattn"] = lambda i: softmax(i.X) @ i.V + i.N @ i.W
