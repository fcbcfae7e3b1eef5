"""What is said about wrong cascades: the whole text of every message."""

# ruff: noqa: E501 (messages stand as they are printed, whatever their length)

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accel.cascade import Cascade, Einsum, Reduction, Tensor, cascade_names, load_cascade
from accel.errors import InputError
from accel.expression import Access, Index, Number, Operation
from accel.notation import parse
from accel.zoo import ZooEntry
from mapping.graph import pass_graph
from mapping.plot_graph import draw_graph
from mapping.traffic import least_traffic

ONES = np.ones
K = Access(tensor="A", indices=(Index.of("k"),))

TEXTS = {
    "a rank on the left that no operand has": (
        """\
cascade x
  input A[m]
  Z[n] = A[m]
""",
        """\
x.ein:3:5: rank 'n' of Z[n] is not a rank of any operand; known: m
  3 |   Z[n] = A[m]
    |     ^
""",
    ),
    "a tensor read before it is written": (
        """\
cascade x
  input A[m]
  Z[m] = Y[m] + 1
  Y[m] = A[m]
""",
        """\
x.ein:3:10: Y[m] is read before Y is written; move the Einsum that writes it ahead of this one
  3 |   Z[m] = Y[m] + 1
    |          ^
""",
    ),
    "a tensor that is neither an input nor written": (
        """\
cascade x
  input Query[p,e] K[m,e]
  QK[p,m] = Quey[p,e] * K[m,e]
""",
        """\
x.ein:3:13: unknown tensor Quey: neither an input nor written; did you mean 'Query'?
  3 |   QK[p,m] = Quey[p,e] * K[m,e]
    |             ^
""",
    ),
    "too few indices": (
        """\
cascade x
  input A[m,e]
  Z[m] = A[m]
""",
        """\
x.ein:3:10: A[m,e] must be read with 2 indices, not 1 as in A[m]; index its ranks 'm', 'e'
  3 |   Z[m] = A[m]
    |          ^
""",
    ),
    "an index on a tensor without ranks": (
        """\
cascade x
  input A[m] S
  Z[m] = A[m] * S[m]
""",
        """\
x.ein:3:17: S must be read with 0 indices, not 1 as in S[m]; write S alone
  3 |   Z[m] = A[m] * S[m]
    |                 ^
""",
    ),
    "a reduced rank that stays on the left": (
        """\
cascade x
  input A[p,m]
  Z[p,m] = A[p,m] :: max[m]
""",
        """\
x.ein:3:22: rank 'm' is reduced by max[m] but stays on the left in Z[p,m]; remove m from one of the two
  3 |   Z[p,m] = A[p,m] :: max[m]
    |                      ^
""",
    ),
    "an iterative rank without an initial value": (
        """\
cascade x
  input A[p,m]
  R[p,m+1] = max(R[p,m], A[p,m])
""",
        """\
x.ein:3:3: iterative tensor R must have an initial value at m = 0; write R[p,0] = VALUE ahead of it
  3 |   R[p,m+1] = max(R[p,m], A[p,m])
    |   ^
""",
    ),
    "two writes of one tensor": (
        """\
cascade x
  input A[m]
  Z[m] = A[m]
  Z[m] = A[m] + 1
""",
        """\
x.ein:4:3: tensor Z must be written once, but is written again (first on line 3); give the second one a name of its own
  4 |   Z[m] = A[m] + 1
    |   ^
""",
    ),
    "two initial values of one tensor": (
        """\
cascade x
  input A[m]
  R[0] = 0
  R[0] = 1
  R[m+1] = R[m] + A[m]
""",
        """\
x.ein:4:3: tensor R must be written once, but is written again (first on line 3); give the second one a name of its own
  4 |   R[0] = 1
    |   ^
""",
    ),
    "an input that is written": (
        """\
cascade x
  input A[m]
  A[m] = 2 * A[m]
""",
        """\
x.ein:3:3: A is an input and must not be written; use another name
  3 |   A[m] = 2 * A[m]
    |   ^
""",
    ),
    "an input declared twice": (
        """\
cascade x
  input A[m] A[m]
  Z = A[m]
""",
        """\
x.ein:2:14: input A must be declared once; remove one of the two declarations
  2 |   input A[m] A[m]
    |              ^
""",
    ),
    "a rank in capitals": (
        """\
cascade x
  input A[M]
  Z[m] = A[m]
""",
        """\
x.ein:2:9: a rank must be in small letters, but A[M] has 'M' (M names a size); write m
  2 |   input A[M]
    |         ^
""",
    ),
    "an input with a rank twice": (
        """\
cascade x
  input A[m,m]
  Z[m] = A[m,m]
""",
        """\
x.ein:2:9: the ranks of A[m,m] must differ, but 'm' stands twice; give the second one a name of its own
  2 |   input A[m,m]
    |         ^
""",
    ),
    "a cascade name in capitals": (
        """\
cascade Attention_1
  input A[m]
  Z = A[m]
""",
        """\
x.ein:1:9: the name of a cascade must be small letters and digits joined by hyphens, not 'Attention_1'; write it as in attention-3pass
  1 | cascade Attention_1
    |         ^
""",
    ),
    "a cascade without Einsums": (
        """\
cascade x
  input A[m]
""",
        """\
x.ein:1:9: cascade x has no Einsum; write at least one, such as Z[m] = A[m]
  1 | cascade x
    |         ^
""",
    ),
    "an initial value that is not at 0": (
        """\
cascade x
  input A[m]
  R[1] = 0
  R[m+1] = R[m] + A[m]
""",
        """\
x.ein:3:5: an initial value must stand at coordinate 0, not 1; iterative ranks count from 0
  3 |   R[1] = 0
    |     ^
""",
    ),
    "a partition on the left": (
        """\
cascade x
  input A[m1,m0]
  Z[m1*M0+m0] = A[m1,m0]
""",
        """\
x.ein:3:5: an index on the left must be a rank, rank+1 or 0, not m1*M0+m0; partition and shift where the tensor is read
  3 |   Z[m1*M0+m0] = A[m1,m0]
    |     ^
""",
    ),
    "a size on the left": (
        """\
cascade x
  input A[p]
  Z[P] = A[p]
""",
        """\
x.ein:3:5: an index on the left must be a rank, rank+1 or 0, not P; write p
  3 |   Z[P] = A[p]
    |     ^
""",
    ),
    "a rank twice on the left": (
        """\
cascade x
  input A[p]
  Z[p,p] = A[p]
""",
        """\
x.ein:3:7: rank 'p' must stand once on the left of Z[p,p]; give the second one a name of its own
  3 |   Z[p,p] = A[p]
    |       ^
""",
    ),
    "two iterative ranks in one tensor": (
        """\
cascade x
  input A[i,j]
  R[0,0] = 0
  R[i+1,j+1] = R[i,j] + A[i,j]
""",
        """\
x.ein:3:3: one rank at most may be iterative, but R[0,0] has 2; split it into two tensors
  3 |   R[0,0] = 0
    |   ^
x.ein:4:3: one rank at most may be iterative, but R[i+1,j+1] has 2; split it into two tensors
  4 |   R[i+1,j+1] = R[i,j] + A[i,j]
    |   ^
""",
    ),
    "an unknown reduction": (
        """\
cascade x
  input A[p,m]
  Z[p] = A[p,m] :: maximum[m]
""",
        """\
x.ein:3:20: a reduction must be one of add, max, min, top, not 'maximum'; did you mean 'max'?
  3 |   Z[p] = A[p,m] :: maximum[m]
    |                    ^
""",
    ),
    "a reduction over a rank of no operand": (
        """\
cascade x
  input A[p,m]
  Z[p] = A[p,m] :: max[n]
""",
        """\
x.ein:3:20: rank 'n' of max[n] is not a rank of any operand of Z[p]; known: m
  3 |   Z[p] = A[p,m] :: max[n]
    |                    ^
""",
    ),
    "a rank reduced twice": (
        """\
cascade x
  input A[p,m]
  Z[p] = A[p,m] :: max[m,m]
""",
        """\
x.ein:3:20: rank 'm' must be reduced once, but max[m,m] names it twice; remove one of the two
  3 |   Z[p] = A[p,m] :: max[m,m]
    |                    ^
""",
    ),
    "a rank that a named reduction leaves out": (
        """\
cascade x
  input A[p,m,e]
  Z[p] = A[p,m,e] :: max[m]
""",
        """\
x.ein:3:22: rank 'e' of Z[p] must be reduced too: an Einsum has one reduction, and max[m] leaves it out; write max[m,e], or reduce 'e' in an Einsum ahead of it
  3 |   Z[p] = A[p,m,e] :: max[m]
    |                      ^
""",
    ),
    "an initial value that nothing continues": (
        """\
cascade x
  input A[m]
  Z[0] = 3
  Y = A[m]
""",
        """\
x.ein:3:3: Z[0] is an initial value, but no Einsum builds Z step by step; write Z[...,r+1] = ... for the iterative rank r
  3 |   Z[0] = 3
    |   ^
""",
    ),
    "an initial value with other indices than its step": (
        """\
cascade x
  input A[p,m]
  R[0,p] = 0
  R[p,m+1] = R[p,m] + A[p,m]
""",
        """\
x.ein:3:3: the indices of R[0,p] and R[p,m+1] must agree, with 0 where the other has rank+1; use the same ranks in the same order
  3 |   R[0,p] = 0
    |   ^
""",
    ),
    "a final coordinate of a tensor that is not iterative": (
        """\
cascade x
  input A[m]
  Y[m] = 2 * A[m]
  Z = Y[M]
""",
        """\
x.ein:4:9: M is past the last coordinate of rank 'm' of Y[m], which is not iterative; read it at m, or at M-1 for its last coordinate
  4 |   Z = Y[M]
    |         ^
""",
    ),
    "a running value read at another rank": (
        """\
cascade x
  input A[m]
  R[0] = 0
  R[m+1] = R[m] + A[m]
  Z[n] = R[n]
""",
        """\
x.ein:5:12: iterative rank 'm' of R[m] must be read at m, m+1, 0 or M, not at n; read it at M for its final value
  5 |   Z[n] = R[n]
    |            ^
""",
    ),
    "the next step read before it is written": (
        """\
cascade x
  input A[m]
  R[0] = 0
  Z[m] = R[m+1] + A[m]
  R[m+1] = R[m] + A[m]
""",
        """\
x.ein:4:10: R[m+1] is read before R is written; move the Einsum that writes it ahead of this one
  4 |   Z[m] = R[m+1] + A[m]
    |          ^
""",
    ),
    "a bare name that is neither tensor nor size": (
        """\
cascade x
  input A[m] scale
  Z[m] = A[m] * scaled
""",
        """\
x.ein:3:17: scaled is neither a tensor without ranks, a parameter, a rank nor a size (sizes are in capitals); did you mean 'scale'?
  3 |   Z[m] = A[m] * scaled
    |                 ^
""",
    ),
    "an output that nothing writes": (
        """\
cascade x
  input A[m]
  Y[m] = A[m]
  output Z
""",
        """\
x.ein:4:10: output Z is not written by any Einsum; known: Y
  4 |   output Z
    |          ^
""",
    ),
    "an output named twice": (
        """\
cascade x
  input A[m]
  Y[m] = A[m]
  output Y Y
""",
        """\
x.ein:4:12: output Y must be named once; remove one of the two
  4 |   output Y Y
    |            ^
""",
    ),
    "a cascade whose tensors are all read again": (
        """\
cascade x
  input A[m]
  R[0] = 0
  S[m] = R[m] + A[m]
  R[m+1] = S[m]
""",
        """\
x.ein:1:9: cascade x has no output: every tensor is read again; name the outputs: output TENSOR
  1 | cascade x
    |         ^
""",
    ),
    "a step that needs every step": (
        """\
cascade x
  input A[m]
  R[0] = 0
  S = R[m]
  R[m+1] = S + A[m]
  Z = R[M]
""",
        """\
x.ein:4:3: S needs every step of 'm', and the steps need it: R, S form a cycle; keep m on the left of S
  4 |   S = R[m]
    |   ^
""",
    ),
    "a step that needs the next step of another tensor": (
        """\
cascade x
  input A[m]
  R[0] = 0
  S[m] = R[m] + A[m]
  R[m+1] = R[m] + S[m+1]
  Z = R[M]
""",
        """\
x.ein:5:19: S[m+1] is read within the steps of 'm' that write it: R, S form a cycle; read it at m
  5 |   R[m+1] = R[m] + S[m+1]
    |                   ^
""",
    ),
    "a step that needs the final value": (
        """\
cascade x
  input A[m]
  R[0] = 0
  S[m] = R[m]
  R[m+1] = R[M] + S[m]
  Z = R[M]
""",
        """\
x.ein:5:12: R[M] is read before R is written; move the Einsum that writes it ahead of this one
  5 |   R[m+1] = R[M] + S[m]
    |            ^
""",
    ),
    "a recurrence along two ranks": (
        """\
cascade x
  input A[i,j]
  R[0,j] = 0
  S[i,0] = 0
  R[i+1,j] = R[i,j] + S[i,j] + A[i,j]
  S[i,j+1] = S[i,j] + R[i,j]
  Z[j] = R[I,j]
""",
        """\
x.ein:6:3: R, S depend on each other along 'i' and 'j', but a recurrence must have one iterative rank; split the recurrence
  6 |   S[i,j+1] = S[i,j] + R[i,j]
    |   ^
""",
    ),
    "an unknown function": (
        """\
cascade x
  input A[m]
  Z[m] = expp(A[m])
""",
        """\
x.ein:3:10: unknown function expp; did you mean 'exp'?
  3 |   Z[m] = expp(A[m])
    |          ^
""",
    ),
    "a function with too few operands": (
        """\
cascade x
  input A[m]
  Z[m] = max(A[m])
""",
        """\
x.ein:3:10: max must have 2 operands, not 1; give it 2
  3 |   Z[m] = max(A[m])
    |          ^
""",
    ),
    "an index with a fraction": (
        """\
cascade x
  input A[m]
  Z[m] = A[m+0.5]
""",
        """\
x.ein:3:14: an index must be made of whole numbers, not 0.5; write a whole number
  3 |   Z[m] = A[m+0.5]
    |              ^
""",
    ),
    "a product of ranks in an index": (
        """\
cascade x
  input A[m]
  Z[m,n] = A[m*n]
""",
        """\
x.ein:3:16: an index must be linear in its ranks, but multiplies m by n; keep one of the two
  3 |   Z[m,n] = A[m*n]
    |                ^
""",
    ),
    "several faults at once": (
        """\
cascade x
  input A[m]
  Z[n] = A[m]
  Y[m] = A[m] :: max[m]
""",
        """\
x.ein:3:5: rank 'n' of Z[n] is not a rank of any operand; known: m
  3 |   Z[n] = A[m]
    |     ^
x.ein:4:18: rank 'm' is reduced by max[m] but stays on the left in Y[m]; remove m from one of the two
  4 |   Y[m] = A[m] :: max[m]
    |                  ^
""",
    ),
    "an operator without its second operand": (
        """\
cascade x
  input A[m]
  Z[m] = A[m] +
""",
        """\
x.ein:3:16: expected a tensor, a number, a function or '(', not the end of the line
  3 |   Z[m] = A[m] +
    |                ^
""",
    ),
    "a bracket left open": (
        """\
cascade x
  input A[m]
  Z[m] = (A[m] + 1
  Y[m] = A[m]
""",
        """\
x.ein:4:3: expected an operator (+, -, *, / or a comparison) or ')', not 'Y'; close the bracket on the line before
  4 |   Y[m] = A[m]
    |   ^
""",
    ),
    "a wrong sign of equality": (
        """\
cascade x
  input A[m]
  Z[m] := A[m]
""",
        """\
x.ein:3:8: expected '=', not ':'
  3 |   Z[m] := A[m]
    |        ^
""",
    ),
    "a power": (
        """\
cascade x
  input A[m]
  Z[m] = A[m] ^ 2
""",
        """\
x.ein:3:15: expected an operator (+, -, *, /), the end of the line, 'where' or '::', not '^'
  3 |   Z[m] = A[m] ^ 2
    |               ^
""",
    ),
    "a text without a heading": (
        """\
input A[m]
Z[m] = A[m]
""",
        """\
x.ein:1:1: expected 'cascade NAME' ahead of all else, not 'input'
  1 | input A[m]
    | ^
""",
    ),
    "a reduction without brackets": (
        """\
cascade x
  input A[p,m]
  Z[p] = A[p,m] :: max m
""",
        """\
x.ein:3:24: expected '[', not 'm'
  3 |   Z[p] = A[p,m] :: max m
    |                        ^
""",
    ),
    "a filter without a comparison": (
        """\
cascade x
  input A[p,m]
  Z[p] = A[p,m] where m
""",
        """\
x.ein:3:24: expected a comparison (<=, <, >=, >, ==, !=), not the end of the line
  3 |   Z[p] = A[p,m] where m
    |                        ^
""",
    ),
    "a comma between inputs": (
        """\
cascade x
  input A[p,m], B[m]
  Z[p] = A[p,m]
""",
        """\
x.ein:2:15: expected the end of the line or a name, not ','
  2 |   input A[p,m], B[m]
    |               ^
""",
    ),
    "a line that is no statement": (
        """\
cascade x
  3 = 4
""",
        """\
x.ein:2:3: expected an Einsum, 'input' or 'output', not '3'
  2 |   3 = 4
    |   ^
""",
    ),
    "an unknown function with definitions about": (
        """\
cascade x
  input A[p,m]
  define cube(x) = x * x * x
  Z[p,m] = cub(A[p,m])
""",
        """\
x.ein:4:12: unknown function cub; did you mean 'cube'?
  4 |   Z[p,m] = cub(A[p,m])
    |            ^
""",
    ),
    "a definition with the wrong number of operands": (
        """\
cascade x
  input A[p,m]
  define ratio(a, b) = a / b
  Z[p,m] = ratio(A[p,m])
""",
        """\
x.ein:4:12: ratio must have 2 operands, not 1; give it 2
  4 |   Z[p,m] = ratio(A[p,m])
    |            ^
""",
    ),
    "a definition defined twice": (
        """\
cascade x
  input A[p,m]
  define f(a) = a
  define f(a) = a + 1
  Z[p,m] = f(A[p,m])
""",
        """\
x.ein:4:10: f is defined already; use another name
  4 |   define f(a) = a + 1
    |          ^
""",
    ),
    "a definition named like a function": (
        """\
cascade x
  input A[p,m]
  define exp(a) = a
  Z[p,m] = exp(A[p,m])
""",
        """\
x.ein:3:10: exp is defined already; use another name
  3 |   define exp(a) = a
    |          ^
""",
    ),
    "a definition with an operand twice": (
        """\
cascade x
  input A[p,m]
  define f(a, a) = a
  Z[p,m] = f(A[p,m], 1)
""",
        """\
x.ein:3:15: operand a of f must be named once; use another name
  3 |   define f(a, a) = a
    |               ^
""",
    ),
    "a definition that reads a tensor": (
        """\
cascade x
  input A[p,m]
  define f(a) = a - A[p,m]
  Z[p,m] = f(A[p,m])
""",
        """\
x.ein:3:21: a definition must read its operands only, not A[p,m]; make it an operand
  3 |   define f(a) = a - A[p,m]
    |                     ^
""",
    ),
    "a definition that calls itself": (
        """\
cascade x
  input A[p,m]
  define f(a) = f(a) + 1
  Z[p,m] = f(A[p,m])
""",
        """\
x.ein:3:17: unknown function f; known: abs, cos, erf, exp, floor, log, log1p, max, min, pow, relu, round, rsqrt, select, sigmoid, sin, sqrt, tanh
  3 |   define f(a) = f(a) + 1
    |                 ^
""",
    ),
    "a parameter declared twice": (
        """\
cascade x
  input A[p,m]
  param tau = 1  tau = 2
  Z[p,m] = A[p,m] * tau
""",
        """\
x.ein:3:18: parameter tau must be declared once; remove one of the two declarations
  3 |   param tau = 1  tau = 2
    |                  ^
""",
    ),
    "a parameter named like a tensor": (
        """\
cascade x
  input A[p,m]
  param A = 1
  Z[p,m] = A[p,m]
""",
        """\
x.ein:3:9: A is a tensor and cannot be a parameter as well; give the parameter another name
  3 |   param A = 1
    |         ^
""",
    ),
    "a parameter named like a rank": (
        """\
cascade x
  input A[p,m]
  param m = 1
  Z[p,m] = A[p,m]
""",
        """\
x.ein:3:9: m is a rank and cannot be a parameter as well; give the parameter another name
  3 |   param m = 1
    |         ^
""",
    ),
    "a parameter of mixed letters": (
        """\
cascade x
  input A[p,m]
  param Tau = 1
  Z[p,m] = A[p,m] * Tau
""",
        """\
x.ein:3:9: a parameter must be in small letters (a real number) or in capitals (a size), not Tau; write tau or TAU
  3 |   param Tau = 1
    |         ^
""",
    ),
    "a size that is no whole number": (
        """\
cascade x
  input A[p,m]
  param W = 2.5
  Z[p] = A[p,m] where m < W
""",
        """\
x.ein:3:9: parameter W must be a whole number of at least 1, not 2.5; small letters name a real number
  3 |   param W = 2.5
    |         ^
""",
    ),
    "a parameter without a value": (
        """\
cascade x
  input A[p,m]
  param tau
  Z[p,m] = A[p,m] * tau
""",
        """\
x.ein:3:12: expected '=', not the end of the line
  3 |   param tau
    |            ^
""",
    ),
    "a misspelled parameter": (
        """\
cascade x
  input A[p,m]
  param scale = 1
  Z[p,m] = A[p,m] * scal
""",
        """\
x.ein:4:21: scal is neither a tensor without ranks, a parameter, a rank nor a size (sizes are in capitals); did you mean 'scale'?
  4 |   Z[p,m] = A[p,m] * scal
    |                     ^
""",
    ),
    "a comparison without parentheses": (
        """\
cascade x
  input A[p,m]
  Z[p,m] = A[p,m] <= 2
""",
        """\
x.ein:3:19: expected the end of the line, '-', '+', 'where' or '::', not '<='
  3 |   Z[p,m] = A[p,m] <= 2
    |                   ^
""",
    ),
    "a top without a rank of its own": (
        """\
cascade x
  input A[p,m]
  Z[p] = A[p,m] :: top[m]
""",
        """\
x.ein:3:20: top[m] must have one rank on the left that counts the largest values, but none of Z[p] is; write it as in T[p,j] = X[p,m] :: top[m]
  3 |   Z[p] = A[p,m] :: top[m]
    |                    ^
""",
    ),
    "a top with two ranks of its own": (
        """\
cascade x
  input A[p,m]
  Z[p,i,j] = A[p,m] :: top[m]
""",
        """\
x.ein:3:24: top[m] must have one rank on the left that counts the largest values, but 'i', 'j' of Z[p,i,j] are; write it as in T[p,j] = X[p,m] :: top[m]
  3 |   Z[p,i,j] = A[p,m] :: top[m]
    |                        ^
""",
    ),
    "a top that is iterative": (
        """\
cascade x
  input A[p,m]
  Z[0,p] = 0
  Z[j+1,p] = A[p,m] :: top[m]
""",
        """\
x.ein:4:24: top[m] must have one rank on the left that counts the largest values, but Z[j+1,p] is iterative; write it as in T[p,j] = X[p,m] :: top[m]
  4 |   Z[j+1,p] = A[p,m] :: top[m]
    |                        ^
""",
    ),
    "an unknown cascade to use": (
        """\
cascade inner
  input X[p,m]
  param tau = 1
  G[p] = X[p,m] / tau :: max[m]
cascade x
  input A[p,m]
  use iner(X = A) giving B
""",
        """\
x.ein:7:7: no cascade ahead of this one is named iner; did you mean 'inner'?
  7 |   use iner(X = A) giving B
    |       ^
""",
    ),
    "an input that is not bound": (
        """\
cascade inner
  input X[p,m]
  param tau = 1
  G[p] = X[p,m] / tau :: max[m]
cascade x
  input A[p,m]
  use inner(tau = 2) giving B
""",
        """\
x.ein:7:7: input X[p,m] of inner is missing; write X = TENSOR
  7 |   use inner(tau = 2) giving B
    |       ^
""",
    ),
    "a binding of nothing": (
        """\
cascade inner
  input X[p,m]
  param tau = 1
  G[p] = X[p,m] / tau :: max[m]
cascade x
  input A[p,m]
  use inner(X = A, tua = 2) giving B
""",
        """\
x.ein:7:20: inner has nothing named tua to bind; did you mean 'tau'?
  7 |   use inner(X = A, tua = 2) giving B
    |                    ^
""",
    ),
    "a tensor that comes later": (
        """\
cascade inner
  input X[p,m]
  param tau = 1
  G[p] = X[p,m] / tau :: max[m]
cascade x
  input A[p,m]
  use inner(X = B) giving G
  B[p,m] = A[p,m]
""",
        """\
x.ein:7:17: B is no tensor ahead of this line; known: A
  7 |   use inner(X = B) giving G
    |                 ^
""",
    ),
    "a tensor with other ranks": (
        """\
cascade inner
  input X[p,m]
  param tau = 1
  G[p] = X[p,m] / tau :: max[m]
cascade x
  input A[m]
  use inner(X = A) giving B
""",
        """\
x.ein:7:17: A must have 2 ranks as X[p,m] of inner, not 1; give another tensor
  7 |   use inner(X = A) giving B
    |                 ^
""",
    ),
    "too many outputs": (
        """\
cascade inner
  input X[p,m]
  param tau = 1
  G[p] = X[p,m] / tau :: max[m]
cascade x
  input A[p,m]
  use inner(X = A) giving B, C
""",
        """\
x.ein:7:7: inner gives G: name each of them once; write giving G
  7 |   use inner(X = A) giving B, C
    |       ^
""",
    ),
    "two ranks that become one": (
        """\
cascade inner
  input X[p,m]
  param tau = 1
  G[p] = X[p,m] / tau :: max[m]
cascade x
  input A[p,m]
  B[m,i] = A[m,i]
  use inner(X = B, p = i) giving C
""",
        """\
x.ein:8:24: rank 'p' of inner must be one rank, not 'm' and 'i'; rename one
  8 |   use inner(X = B, p = i) giving C
    |                        ^
""",
    ),
    "an output of a used cascade that is written again": (
        """\
cascade inner
  input X[p,m]
  param tau = 1
  G[p] = X[p,m] / tau :: max[m]
cascade x
  input A[p,m]
  use inner(X = A) giving B
  B[p] = A[p,m]
""",
        """\
x.ein:8:3: tensor B must be written once, but is written again (first on line 7); give the second one a name of its own
  8 |   B[p] = A[p,m]
    |   ^
""",
    ),
    "a used cascade without giving": (
        """\
cascade inner
  input X[p,m]
  param tau = 1
  G[p] = X[p,m] / tau :: max[m]
cascade x
  input A[p,m]
  use inner(X = A)
  Z = A[p,m]
""",
        """\
x.ein:7:19: expected 'giving', not the end of the line
  7 |   use inner(X = A)
    |                   ^
""",
    ),
    "two cascades of one name": (
        """\
cascade inner
  input X[p,m]
  param tau = 1
  G[p] = X[p,m] / tau :: max[m]
cascade inner
  input X[p,m]
  param tau = 1
  G[p] = X[p,m] / tau :: max[m]
""",
        """\
x.ein:5:9: cascade inner must stand once in a file; give the second one another name
  5 | cascade inner
    |         ^
""",
    ),
    "a number for a tensor": (
        """\
cascade inner
  input X[p,m]
  param tau = 1
  G[p] = X[p,m] / tau :: max[m]
cascade x
  input A[p,m]
  use inner(X = 2) giving B
""",
        """\
x.ein:7:13: X of inner must be bound to a name, not to 2; write X = NAME
  7 |   use inner(X = 2) giving B
    |             ^
""",
    ),
    "an inner rank that meets another": (
        """\
cascade inner
  input X[p,m]
  S[q] = X[p,m] where p <= q
cascade x
  input A[q,m]
  use inner(X = A) giving B
""",
        """\
x.ein:6:7: two ranks of inner become 'q'; rename one of them: q = NAME
  6 |   use inner(X = A) giving B
    |       ^
""",
    ),
    "definitions that grow past all bounds": (
        """\
cascade x
  input A[p,m]
  define f(a) = a * a + a * a + a * a + a * a
  define g(a) = f(f(f(f(a))))
  Z[p,m] = g(g(g(A[p,m])))
""",
        """\
x.ein:4:17: an expression must have 5000 parts at most, but f makes it 8191; give its operands Einsums of their own
  4 |   define g(a) = f(f(f(f(a))))
    |                 ^
""",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_wrong_text_is_refused_with_place_line_and_way_out(name: str) -> None:
    text, message = TEXTS[name]
    with pytest.raises(InputError) as caught:
        parse(text, file="x.ein")
    assert f"{caught.value}\n" == message


def three_pass(**arrays: Any) -> Callable[..., Any]:
    given = {"Q": ONES((4, 2)), "K": ONES((8, 2)), "V": ONES((8, 2))} | arrays

    def run(**options: Any) -> Any:
        return load_cascade("attention-3pass").evaluate(given, **options)

    return run


def softpick(x: float = 1.0, **options: Any) -> Any:
    return load_cascade("softpick").evaluate({"X": x * ONES((1, 4)), "V": ONES((4, 1))}, {"M0": 2}, **options)


def one_pass() -> Cascade:
    return load_cascade("attention-1pass")


CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "a rank without a size": (
        lambda: one_pass().sizes({"P": 4, "M": 8, "E": 2, "F": 2}),
        """\
cascade attention-1pass: rank 'm0' has no size; give M0=NUMBER
""",
    ),
    "several ranks without a size": (
        lambda: one_pass().sizes({"P": 4, "L": 8}),
        """\
cascade attention-1pass: rank 'e' has no size, rank 'm' has no size, rank 'f' has no size, rank 'm0' has no size (L: no rank of this cascade); give E=NUMBER, M=NUMBER, F=NUMBER, M0=NUMBER
""",
    ),
    "a parameter without a value": (
        lambda: parse("cascade x\ninput A[p,m]\nZ[p] = A[p,m] where m > p - W\n").sizes({"P": 1, "M": 3}),
        """\
cascade x: parameter W has no value; give W=NUMBER
""",
    ),
    "sizes that are no whole numbers of at least 1": (
        lambda: load_cascade("attention-3pass").sizes({"P": 0, "M": 2.5, "E": True, "F": 2}),
        """\
size P must be a whole number of at least 1, not 0; count its coordinates
size E must be a whole number of at least 1, not True; count its coordinates
size M must be a whole number of at least 1, not 2.5; count its coordinates
""",
    ),
    "a number of tiles that contradicts the tile size": (
        lambda: one_pass().sizes({"P": 4, "M": 8, "E": 2, "F": 2, "M0": 4, "M1": 3}),
        """\
M1 must be 2 = ceil(M / M0) = ceil(8 / 4), not 3; leave M1 out
""",
    ),
    "two sizes of one rank under two names": (
        lambda: parse("cascade x\ninput A[m]\nZ[n] = A[n]\n").sizes({"M": 3, "N": 4}),
        """\
N and M must be equal, because 'n' and 'm' index the same rank of a tensor, but are 4 and 3; give one of the two, or use 'm' for both
""",
    ),
    "an input whose shape does not fit another": (
        lambda: three_pass(K=ONES((8, 3)))(),
        """\
rank 'e' of input K[m,e] must have size 2 as in input Q[p,e], not 3 (shape (8, 3)); check the order of its dimensions
""",
    ),
    "an input whose shape does not fit the sizes": (
        lambda: three_pass()(sizes={"M": 9}),
        """\
rank 'm' of input K[m,e] must have size 9 as in the sizes given, not 8 (shape (8, 2)); check the order of its dimensions
""",
    ),
    "inputs that are missing, unknown, NaN and of too few dimensions": (
        lambda: load_cascade("attention-3pass").evaluate({"Q": ONES(4), "K": [[1, np.nan], [np.nan, 1]], "X": 1}),
        """\
cascade attention-3pass has no input 'X'; known: K, Q, V
input Q[p,e] must have 2 dimensions, but has shape (4,); one dimension for each rank
input K[m,e] must not hold NaN, but does at (0, 1) (2 in all); find out where it comes from
input V[m,f] of cascade attention-3pass is missing; give an array for V
""",
    ),
    "an input of text": (
        lambda: three_pass(Q=np.array([["a"]]), K=ONES((4, 1)), V=ONES((4, 1)))(),
        """\
input Q[p,e] must hold real numbers, not <U1; convert it to floats
""",
    ),
    "a tile that does not divide its rank": (
        lambda: one_pass().evaluate({"Q": ONES((4, 2)), "K": ONES((10, 2)), "V": ONES((10, 2))}, {"M0": 4}),
        """\
to evaluate cascade attention-1pass, M0 = 4 must divide M = 10; use a tile size that divides 10, such as 2
""",
    ),
    "a whole-number type": (
        lambda: three_pass()(dtype="int8"),
        """\
dtype must be one of float64, float32, float16, bfloat16 or a fixed-point format, not int8; use float64 for a reference
""",
    ),
    "an unknown type": (
        lambda: three_pass()(dtype="bf17"),
        """\
dtype must be one of float64, float32, float16, bfloat16 or a fixed-point format, not bf17; use float64 for a reference
""",
    ),
    "an unknown tensor to keep": (
        lambda: three_pass()(keep=["QQ"]),
        """\
cascade attention-3pass has no tensor 'QQ'; did you mean 'Q'?
""",
    ),
    "a coordinate outside a rank": (
        lambda: parse("cascade x\ninput A[k]\nD[k] = A[k] - A[k-1]\n", file="x.ein").evaluate({"A": ONES(3)}),
        """\
x.ein:3:15: A[k-1] must stay within rank 'k' of A[k], whose coordinates are 0 to 2, but reads coordinate -1; leave such points out with a filter (where ...)
""",
    ),
    "an unknown packaged cascade": (
        lambda: load_cascade("atention-1pass"),
        """\
no packaged cascade is named 'atention-1pass'; did you mean 'attention-1pass'? a file is given by its path, FILE.ein
""",
    ),
    "a file that is not there": (
        lambda: load_cascade("nowhere/x.ein"),
        """\
nowhere/x.ein must be a readable file: No such file or directory; check the path
""",
    ),
    "an unknown Einsum": (
        lambda: load_cascade("attention-3pass").einsum("QKK"),
        """\
cascade attention-3pass has no Einsum 'QKK'; did you mean 'QK'?
""",
    ),
    "a parameter that the cascade lacks": (
        lambda: softpick(parameters={"epz": 1}),
        "cascade softpick has no parameter 'epz'; did you mean 'eps'?\n",
    ),
    "a parameter that is no number": (
        lambda: softpick(parameters={"eps": True}),
        "parameter eps must be a number, not True; give a float\n",
    ),
    "a size among the parameters": (
        lambda: softpick(parameters={"M0": 2}),
        "cascade softpick has no parameter 'M0'; give it among the sizes\n",
    ),
    "a cascade that a file lacks": (
        lambda: load_cascade("softpick:soft"),
        "softpick holds no cascade 'soft'; did you mean 'softpick'?\n",
    ),
    "a fixed-point format of unknown rounding": (
        lambda: softpick(dtype="s16f10,up,saturate"),
        "a number format must read like s16f10,nearest_even,saturate, not 's16f10,up,saturate'; give sign and width, fraction bits, rounding (truncate, nearest_even, nearest_up) and overflow (saturate, wrap, error)\n",
    ),
    "an input out of the range of a format that must not overflow": (
        lambda: softpick(dtype="s4f2,nearest_even,error", x=9.0),
        "input X[p,m] cannot be stored: values of s4f2,nearest_even,error must be from -2.0 to 1.75, not 9.0; widen the format or let it saturate\n",
    ),
    "a result out of the range of a format that must not overflow": (
        lambda: parse("cascade x\ninput A[m]\nZ = A[m]\n", file="x.ein").evaluate(
            {"A": [1, 1]}, dtype="s4f2,nearest_even,error"
        ),
        "x.ein:3:1: Z cannot be stored: values of s4f2,nearest_even,error must be from -2.0 to 1.75, not 2.0; widen the format or let it saturate\n",
    ),
    "an undefined result in fixed point": (
        lambda: parse("cascade x\ninput A[m]\nZ[m] = A[m] / A[m]\n", file="x.ein").evaluate(
            {"A": [0]}, dtype="s4f2,nearest_even,saturate"
        ),
        "x.ein:3:1: Z[m] cannot be stored: values must be numbers, not NaN; mask or replace the NaN first\n",
    ),
    "a buffer too small for one row": (
        lambda: least_traffic(load_cascade("softpick"), "m", {"P": 4, "M": 8, "F": 4, "M0": 2}, 5),
        "the buffer must hold 25 words, which one row of softpick needs, not 5; enlarge it, or take smaller tiles\n",
    ),
    "a graph in another format": (
        lambda: draw_graph(pass_graph(load_cascade("softpick"), "m"), "graph.pdf"),
        "a graph must be drawn to a file that ends in .svg, .png or .dot, not graph.pdf; rename it\n",
    ),
    "a graph in a folder that is not there": (
        lambda: draw_graph(pass_graph(load_cascade("softmax-naive"), "m"), "/nowhere/graph.svg"),
        "/nowhere/graph.svg must be writable: No such file or directory; choose another path\n",
    ),
    "an entry of the zoo of an unknown template": (
        lambda: ZooEntry(template="pointwize", contracted="gelu"),
        "template must be one of pointwise, sum-normalised, exp-normalised, statistic-then-apply, kernel-state, select, normalisation, reduction, definition, not 'pointwize'; see accel.zoo.TEMPLATES\n",
    ),
    "an entry of the zoo without a form": (
        lambda: ZooEntry(template="pointwise"),
        "an entry of the zoo must have a contracted or a materialised form; name one\n",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_call_is_refused_with_the_way_out(name: str) -> None:
    call, message = CALLS[name]
    with pytest.raises(InputError) as caught:
        call()
    assert f"{caught.value}\n" == message


def einsum(**changes: Any) -> Einsum:
    given: dict[str, Any] = {
        "output": Access(tensor="Z"),
        "expression": K,
        "reduction": Reduction(operator="add", ranks=("k",)),
    }
    return Einsum(**(given | changes))


BUILT: dict[str, tuple[Einsum, str]] = {
    "a reduction left unsaid": (
        einsum(reduction=None),
        "ranks 'k' are not on the left of Z and must be reduced; give Reduction(operator='add', ranks=('k',))",
    ),
    "an operation that the notation lacks": (
        einsum(expression=Operation(operator="expp", operands=(K,))),
        "'expp' with 1 operands is not an operation of the notation; did you mean 'exp'?",
    ),
    "a negated constant": (
        einsum(
            expression=Operation(
                operator="add", operands=(K, Operation(operator="negate", operands=(Number(value=2.0),)))
            )
        ),
        "a negated constant must be written as a negative constant, not as -2; give Number(value=-2.0)",
    ),
}


@pytest.mark.parametrize("name", BUILT)
def test_a_wrong_cascade_built_from_data_is_refused(name: str) -> None:
    built, message = BUILT[name]
    with pytest.raises(InputError) as caught:
        Cascade(name="x", inputs=(Tensor(name="A", ranks=("k",)),), einsums=(built,))
    assert str(caught.value) == message


def test_a_tab_ahead_of_the_fault_keeps_the_caret_below_it() -> None:
    with pytest.raises(InputError) as caught:
        parse("cascade x\n\tinput A[m]\n\tZ[m] = B[m]\n", file="x.ein")
    assert caught.value.problems[0].excerpt == "  3 | \tZ[m] = B[m]\n    | \t       ^"


COMMANDS = {
    "an unknown cascade": (
        ("attention-4pass",),
        (
            "error: no packaged cascade is named 'attention-4pass'; did you mean 'attention-3pass'? "
            "a file is given by its path, FILE.ein\n"
        ),
    ),
    "an unknown rank": (
        ("attention-3pass", "--rank", "n"),
        "error: cascade attention-3pass has no rank 'n'; known: e, f, m, p\n",
    ),
    "a size without a number": (
        ("attention-3pass", "--size", "M"),
        "error: --size must be SYMBOL=NUMBER, not 'M'; write it as in --size M=4096\n",
    ),
    "an unknown size": (
        ("attention-3pass", "--size", "M0=4"),
        "error: --size M0=4: cascade attention-3pass has no size 'M0'; did you mean 'M'?\n",
    ),
    "a size given twice": (
        ("attention-3pass", "--size", "M=4,M=5"),
        "error: --size must give M once, not twice; remove one of the two\n",
    ),
    "sizes that are not enough": (
        ("attention-3pass", "--size", "M=4"),
        (
            "error: cascade attention-3pass: rank 'p' has no size, rank 'e' has no size, rank 'f' has no size; "
            "give P=NUMBER, E=NUMBER, F=NUMBER\n"
        ),
    ),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_command_says_what_is_wrong_and_ends_with_2(name: str, einrtl: Callable[..., Any]) -> None:
    arguments, message = COMMANDS[name]
    done = einrtl("passes", *arguments)
    assert (done.code, done.out, done.err) == (2, "", message)


def test_the_command_shows_the_line_of_a_wrong_file(einrtl: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "wrong.ein"
    path.write_text("cascade wrong\n  input A[m]\n  Z[n] = A[m]\n", encoding="utf-8")
    done = einrtl("passes", path)
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        f"error: {path}:3:5: rank 'n' of Z[n] is not a rank of any operand; known: m\n  3 |   Z[n] = A[m]\n    |     ^\n"
    )


def test_the_command_refuses_passes_without_bound(einrtl: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "power.ein"
    path.write_text(
        "cascade power\ninput A[m]\nX[0,m] = A[m]\nS[t] = X[t,m]\nX[t+1,m] = X[t,m] / S[t]\nZ[m] = X[T,m]\n",
        encoding="utf-8",
    )
    done = einrtl("passes", path, "--rank", "m")
    assert done.code == 2
    assert done.err == (
        f"error: {path}:4:1: the number of passes over 'm' must be bounded, but each step of 't' in S, X needs another one; "
        "analyse another rank of cascade power\n"
    )


def test_no_packaged_cascade_is_refused() -> None:
    assert all(load_cascade(name) for name in cascade_names())
