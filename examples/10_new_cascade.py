"""Your own algorithm: sigmoid attention as text; its passes, its numbers in bfloat16, and its graph as a picture."""

import numpy as np

from accel import parse
from mapping import passes

cascade = parse("""
cascade sigmoid-attention-with-bias
  input  Q[p,e]  K[m,e]  V[m,f]
  QK[p,m] = Q[p,e] * K[m,e]
  A[p,m]  = sigmoid(QK[p,m] - log(M))
  AV[p,f] = A[p,m] * V[m,f]
""")
print(f"{passes(cascade, 'm').passes} pass over the keys: no maximum, no sum to wait for")

rng = np.random.default_rng(0)
inputs = {"Q": rng.normal(size=(64, 32)), "K": rng.normal(size=(256, 32)), "V": rng.normal(size=(256, 32))}
exact = cascade.evaluate(inputs)["AV"]
for dtype in ("float32", "float16", "bfloat16", "s16f8,nearest_even,saturate"):
    error = np.abs(cascade.evaluate(inputs, dtype=dtype)["AV"].astype(float) - exact).max()
    print(f"{dtype:28} largest error {error:.1e}")
