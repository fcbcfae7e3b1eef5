"""Transformers in ONNX files: where their attention, linear, norm and activation nodes are, and their sizes."""

from __future__ import annotations

from accel.onnx_model.found import AttentionNode, FunctionNode, LinearNode, OnnxModel
from accel.onnx_model.reader import read_onnx

__all__ = ["AttentionNode", "FunctionNode", "LinearNode", "OnnxModel", "read_onnx"]
