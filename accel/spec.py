"""Strict reading and writing of YAML: all errors of a file at once, each with file:line:column and dotted path."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar, cast

import yaml
from pydantic import TypeAdapter, ValidationError

from accel.errors import InputError, Place, Problem, did_you_mean

__all__ = ["dump", "load", "loads", "read_text"]

T = TypeVar("T")
Loc = tuple[str | int, ...]

MAX_DEPTH = 50
"""Deepest nesting; no description comes near it, and hostile input must not exhaust the stack."""

# What a plain (unquoted) scalar means. PyYAML follows YAML 1.1, where 1e9 is text, no is false, 010 is eight and 1:30
# is ninety. Here numbers are decimal, hexadecimal or binary, and only true and false are booleans (YAML 1.2). Leading
# zeros and colons, which YAML versions read differently, are refused.
_PLAIN = re.compile(
    r"""(?:
      (?P<null> ~ | null | Null | NULL | )
    | (?P<true> true | True | TRUE )
    | (?P<false> false | False | FALSE )
    | (?P<int> [-+]? (?: 0 | [1-9][0-9_]* | 0x[0-9a-fA-F][0-9a-fA-F_]* | 0b[01][01_]* ) )
    | (?P<zeros> [-+]? 0 [0-9_]+ )
    | (?P<float> [-+]? (?: [0-9][0-9_]* (?: \.[0-9_]* )? | \.[0-9][0-9_]* ) (?: [eE][-+]?[0-9]+ )? )
    | (?P<limit> [-+]? \.(?: inf | Inf | INF ) | \.(?: nan | NaN | NAN ) )
    | (?P<sixty> [-+]? [0-9][0-9_]* (?: :[0-5]?[0-9] )+ (?: \.[0-9_]* )? )
    )\Z""",
    re.VERBOSE,
)


def read_text(path: Path) -> str:
    """Return the text of the file at ``path``, without the byte order mark that some editors write.

    Raises
    ------
    InputError
        There is no such file, it cannot be read, or it is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} must be UTF-8 text, but byte {error.start} is not", hint="save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path} must be a readable file: {error.strerror}", hint="check the path") from None
    except ValueError as error:  # a NUL in the name
        raise InputError(f"{str(path)!r} must be a readable file: {error}", hint="check the path") from None


class _Refused(yaml.ScalarNode):
    """Stands where the text has something that a description does without: an alias or a tag."""

    def __init__(self, mark: yaml.Mark, message: str, hint: str) -> None:
        super().__init__("refused", "", mark, mark)
        self.message = message
        self.hint = hint


class _Loader(yaml.SafeLoader):
    """Composes nodes, marks aliases and tags where they stand, and bounds the depth; nothing is constructed."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        mark: yaml.Mark = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            self.get_event()  # type: ignore[no-untyped-call]
            return _Refused(mark, "values must be written out, not referred to by an alias", "copy the value")
        if self.depth == MAX_DEPTH:
            raise yaml.composer.ComposerError(None, None, f"nesting is deeper than {MAX_DEPTH}", mark)
        self.depth += 1
        node = super().compose_node(parent, index)
        self.depth -= 1
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            return _Refused(mark, f"tag {tag} must not be used", "leave the tag out")
        return node


class _Dumper(yaml.SafeDumper):
    """Quotes all text that YAML 1.1 or this reader would take for something else."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, text: str) -> yaml.ScalarNode:
        # PyYAML's other styles lose the line breaks U+0085, U+2028 and U+2029.
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=None if text.isprintable() else '"')


_Dumper.add_representer(str, _Dumper.text)
_Dumper.add_implicit_resolver("tag:yaml.org,2002:float", _PLAIN, None)


class _Reader:
    """Turns a composed YAML tree into plain values and remembers where each stood."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.places: dict[Loc, Place] = {}
        self.problems: list[Problem] = []
        self.unread: set[Loc] = set()

    def place(self, mark: yaml.Mark) -> Place:
        return Place(file=self.file, line=mark.line + 1, column=mark.column + 1)

    def problem(self, node: yaml.Node, loc: Loc, message: str, hint: str) -> None:
        self.problems.append(Problem(message=message, hint=hint, place=self.place(node.start_mark), field=loc))

    def value(self, node: yaml.Node, loc: Loc) -> Any:
        self.places.setdefault(loc, self.place(node.start_mark))
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, loc)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*loc, index)) for index, item in enumerate(node.value)]
        count = len(self.problems)
        value = self.scalar(cast(yaml.ScalarNode, node), loc)
        if len(self.problems) > count:
            self.unread.add(loc)
        return value

    def mapping(self, node: yaml.MappingNode, loc: Loc) -> dict[str, Any]:
        result: dict[str, Any] = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if isinstance(key_node, _Refused):
                self.problem(key_node, loc, key_node.message, key_node.hint)
                continue
            if not isinstance(key_node, yaml.ScalarNode) or not key_node.value:
                self.problem(key_node, loc, "a key must be a name", "write key: value")
                continue
            key = str(key_node.value)
            if not _is_unicode(key):
                self.problem(key_node, loc, f"key {key!r} must hold Unicode characters", "take the surrogate out")
            elif key in result:
                message = f"key {_dotted((*loc, key))!r} must stand once, but stands on line {lines[key]} already"
                self.problem(key_node, loc, message, "remove one of the two")
            else:
                lines[key] = key_node.start_mark.line + 1
                self.places[(*loc, key)] = self.place(key_node.start_mark)
                result[key] = self.value(value_node, (*loc, key))
        return result

    def scalar(self, node: yaml.ScalarNode, loc: Loc) -> Any:
        text = str(node.value)
        if isinstance(node, _Refused):
            self.problem(node, loc, node.message, node.hint)
            return None
        match = _PLAIN.match(text) if node.style is None else None
        if match is None:
            if not _is_unicode(text):
                self.problem(node, loc, f"{_show(text)} must hold Unicode characters", "take the surrogate out")
                return None
            return text
        kind = str(match.lastgroup)
        if kind in ("null", "true", "false"):
            return {"null": None, "true": True, "false": False}[kind]
        if kind in ("zeros", "sixty"):
            how = "without leading zeros" if kind == "zeros" else "without colons"
            self.problem(node, loc, f"{text} must be written {how} if it is a number", "quote it if it is text")
            return None
        bare = text.replace("_", "").lower()
        if kind == "limit":
            return float(bare.replace(".", ""))
        number = _integer(bare) if kind == "int" else float(bare)
        if abs(number) >= 2**63 if kind == "int" else math.isinf(number):
            limit = "2**63" if kind == "int" else "1.8e308"
            self.problem(node, loc, f"a number must be below {limit}, not {_short(text)}", "check its digits")
            return None
        return number


def _integer(text: str) -> float:
    try:
        return int(text, 0)
    except ValueError:  # Python refuses thousands of digits
        return math.inf


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _dotted(loc: Loc) -> str:
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else (f".{part}" if text else part)
    return text or "the file"


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _show(value: Any) -> str:
    """Return ``value`` as a message quotes it, spelled as YAML spells it."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return repr(_short(value))
    return yaml.dump(value, Dumper=_Dumper).split("\n")[0]


def _resolve(schema: Any, node: Any) -> Iterator[Any]:
    """Yield the object, array and scalar schemas that ``node`` of a JSON ``schema`` stands for."""
    if "$ref" in node:
        yield from _resolve(schema, schema["$defs"][node["$ref"].rsplit("/", 1)[-1]])
    elif "anyOf" in node or "oneOf" in node:
        for option in node.get("anyOf") or node["oneOf"]:
            yield from _resolve(schema, option)
    else:
        yield node


def _below(node: Any, part: str | int) -> Iterator[Any]:
    if isinstance(part, int):
        fixed = node.get("prefixItems", [])
        below = fixed[part] if part < len(fixed) else node.get("items")
    else:
        below = node.get("properties", {}).get(part) or node.get("additionalProperties")
    if isinstance(below, Mapping):
        yield below


def _known_names(cls: Any, loc: Loc) -> list[str]:
    """Return the field names allowed at ``loc`` below the dataclass ``cls``, as far as its types tell."""
    schema = TypeAdapter(cls).json_schema(mode="validation")
    nodes = list(_resolve(schema, schema))
    for part in loc:
        nodes = [found for node in nodes for below in _below(node, part) for found in _resolve(schema, below)]
    return [name for node in nodes for name in node.get("properties", {})]


_MISSING = ("missing", "missing_argument", "missing_keyword_only_argument")
_TYPE_NAMES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "dataclass_type": "a mapping",
    "none_required": "nothing",
}


def _type_hint(wanted: str, given: Any) -> str | None:
    """Return the way out where a value has the wrong type and the right one is near."""
    if wanted == "text" and isinstance(given, bool | int | float):
        return "write it in quotes"
    if wanted == "a whole number" and isinstance(given, float) and given.is_integer():
        return f"write {int(given)}"
    if wanted == "true or false" and str(given).lower() in ("yes", "on", "y", "no", "off", "n"):
        return f"write {'true' if str(given).lower() in ('yes', 'on', 'y') else 'false'}"
    match = _PLAIN.match(given) if isinstance(given, str) else None
    if match and match.lastgroup in {"a whole number": ("int",), "a number": ("int", "float")}.get(wanted, ()):
        return "write it without quotes"
    return None


def _real_loc(item: Any, value: Any) -> Loc:
    """Return where a pydantic error lies in ``value``, without the parts that pydantic adds for options of a union."""
    parts: list[str | int] = list(item["loc"])
    kept: list[str | int] = []
    for index, part in enumerate(parts):
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            if item["type"] not in _MISSING or index < len(parts) - 1:
                continue
        kept.append(part)
    return tuple(kept)


def _problem(item: Any, loc: Loc, cls: Any) -> tuple[str, str | None]:
    """Return message and hint for one pydantic error that is neither ours nor about a type."""
    kind, given, name = item["type"], item.get("input"), _dotted(loc)
    if kind in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"{name!r} is not a known key", did_you_mean(str(loc[-1]), _known_names(cls, loc[:-1]))
    if kind in _MISSING:
        return f"{name!r} is missing", "add an item" if isinstance(loc[-1], int) else f"add {loc[-1]}: VALUE"
    if kind in ("enum", "literal_error"):
        expected = str(item["ctx"]["expected"])
        known = re.findall(r"'([^']*)'", expected)
        message = f"{name!r} must be one of {', '.join(known) or expected}, not {_show(given)}"
        near = did_you_mean(given, known) if isinstance(given, str) else ""
        return message, near if near.startswith("did") else None
    return f"{name!r} must hold: {item['msg']}; it is {_show(given)}", None


def _problems(error: ValidationError, cls: Any, value: Any, reader: _Reader) -> Iterator[Problem]:
    """Yield the problems that validation found, but for those of values that could not be read anyway."""
    wanted: dict[Loc, dict[str, str | None]] = {}
    givens: dict[Loc, Any] = {}
    for item in error.errors():
        own, loc = item.get("ctx", {}).get("error"), _real_loc(item, value)
        if any(loc[:end] in reader.unread for end in range(len(loc) + 1)):
            continue
        if isinstance(own, InputError):
            prefix = f"{_dotted(loc)}: " if loc else ""
            for inner in own.problems:
                field = (*loc, *inner.field)
                place = _nearest(reader, field)
                yield Problem(message=prefix + inner.message, hint=inner.hint, place=place, field=field)
        elif item["type"] in _TYPE_NAMES:  # one for each option of a union: told together
            name = _TYPE_NAMES[item["type"]]
            wanted.setdefault(loc, {})[name] = _type_hint(name, item["input"])
            givens[loc] = item["input"]
        else:
            message, hint = _problem(item, loc, cls)
            yield Problem(message=message, hint=hint, place=_nearest(reader, loc), field=loc)
    for loc, names in wanted.items():
        message = f"{_dotted(loc)!r} must be {' or '.join(names)}, not {_show(givens[loc])}"
        hint = next(filter(None, names.values()), None)
        yield Problem(message=message, hint=hint, place=_nearest(reader, loc), field=loc)


def _nearest(reader: _Reader, loc: Loc) -> Place:
    """Return the place of ``loc`` or of the innermost value around it; the whole file has one."""
    end = len(loc)
    while loc[:end] not in reader.places:
        end -= 1
    return reader.places[loc[:end]]


def _order(problem: Problem) -> tuple[int, int]:
    return (problem.place.line, problem.place.column) if problem.place else (0, 0)


def _compose(text: str, file: str) -> yaml.MappingNode:
    """Return the tree of the one mapping in ``text``."""

    def error(message: str, hint: str, line: int = 0, column: int = 0) -> InputError:
        return InputError(message, hint=hint, place=Place(file=file, line=line + 1, column=column + 1))

    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as wrong:
        what = ", ".join(part for part in (wrong.context, wrong.problem) if part)
        mark = wrong.problem_mark or wrong.context_mark
        at = (mark.line, mark.column) if mark else ()
        raise error(f"the text must be YAML: {what}", "check indentation and quotes", *at) from None
    except yaml.reader.ReaderError as wrong:
        before = text[: wrong.position]
        message = f"the text must be YAML: character {ord(text[wrong.position]):#06x} is not allowed"
        at = (before.count("\n"), len(before) - before.rfind("\n") - 1)
        raise error(message, "write it as an escape in double quotes, or take it out", *at) from None
    except (ValueError, OverflowError):  # an escape such as "\UFFFFFFFF", beyond Unicode
        raise error("the text must be YAML: an escape in it is out of range", "check the escapes") from None
    if isinstance(node, yaml.MappingNode):
        return node
    if node is None:
        raise error("the text must be a mapping of keys to values, but it is empty", "write key: value")
    at = (node.start_mark.line, node.start_mark.column)
    if isinstance(node, _Refused):
        raise error(node.message, node.hint, *at)
    given = "a list" if isinstance(node, yaml.SequenceNode) else "a single value"
    raise error(f"the text must be a mapping of keys to values, not {given}", "write key: value", *at)


def loads(cls: type[T], text: str, *, file: str = "<text>") -> T:
    """Return the ``cls`` (a dataclass) that the YAML ``text`` describes.

    Raises
    ------
    InputError
        With every problem of the text in its order: duplicate, unknown or missing keys, aliases and tags, wrong types
        and wrong values; or with the first mistake of syntax.
    """
    reader = _Reader(file)
    value = reader.value(_compose(text, file), ())
    problems = reader.problems
    try:
        # JSON mode: lists become tuples and names become enums, but nothing else is converted.
        result = TypeAdapter(cls).validate_json(json.dumps(value), strict=True)
    except ValidationError as error:
        problems = [*problems, *_problems(error, cls, value, reader)]
    if problems:
        raise InputError.of(sorted(problems, key=_order))
    return result


def load(cls: type[T], path: Path) -> T:
    """Return the ``cls`` (a dataclass) that the YAML file at ``path`` describes.

    Raises
    ------
    InputError
        As ``read_text`` and ``loads`` do.
    """
    return loads(cls, read_text(path), file=str(path))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value) if field.init}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def dump(value: Any) -> str:
    """Return the YAML text of a dataclass.

    ``loads`` reads back an equal one: ``loads(type(value), dump(value)) == value``.
    """
    return yaml.dump(_plain(value), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
