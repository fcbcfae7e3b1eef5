"""Attention cores: whole heads, Q, K and V in and AV out."""
