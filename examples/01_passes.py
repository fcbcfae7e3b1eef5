"""Count the passes of an attention algorithm before choosing any hardware: write it as a cascade, and ask."""

from accel.notation import parse
from mapping.passes import passes

CASCADE = """
cascade my-attention
  input  Q[p,e]  K[m,e]  V[m,f]
  QK[p,m]  = Q[p,e] * K[m,e]
  GM[p]    = QK[p,m] :: max[m]
  SN[p,m]  = exp(QK[p,m] - GM[p])
  SD[p]    = SN[p,m]
  SNV[p,f] = SN[p,m] * V[m,f]
  AV[p,f]  = SNV[p,f] / SD[p]
"""

analysis = passes(parse(CASCADE), "m")
print(f"{analysis.passes} passes over the keys")
for boundary in analysis.boundaries:
    print(f"pass {boundary.opens} begins at {boundary.einsum}: {' -> '.join(boundary.chain)}")
for each in analysis.live:
    print(f"{each.tensor}: {each.formula} words for each {', '.join(each.per)} must be kept or made again")
