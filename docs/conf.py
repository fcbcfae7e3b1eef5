"""The documentation site: Markdown pages, a reference made from docstrings, and notebooks that run at every build."""

import importlib.util
import logging
from importlib.metadata import version as installed_version
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Number, Operator, Text

project = "EinRTL"
author = "The EinRTL developers"
release = installed_version("einrtl")

logging.getLogger("traitlets").setLevel(logging.WARNING)  # every notebook that runs

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
suppress_warnings = ["ref.python"]  # a type named in a docstring may be exported by its package too

myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

autodoc_typehints = "none"  # the numpy-style docstrings say it
toc_object_entries = False  # a tree of every method in every page takes minutes
autodoc_member_order = "bysource"
napoleon_google_docstring = False
napoleon_use_param = False  # types as text: a cross-reference for each word of them takes minutes
napoleon_use_rtype = False

html_theme = "furo"
html_title = f"EinRTL {release}"
html_show_sphinx = False
html_copy_source = False

HERE = Path(__file__).parent
PACKAGES = ("accel", "mapping", "rtl", "sim")


class CascadeLexer(RegexLexer):
    """Colours of the cascade notation."""

    name = "cascade"
    tokens = {
        "root": [
            (r"#.*", Comment),
            (r"\b(cascade|input|output|where|parameter|define|use|and)\b", Keyword),
            (r"\b\d+(\.\d+)?(e-?\d+)?\b", Number),
            (r"[-+*/=<>!:]+", Operator),
            (r"\w+|.|\n", Text),
        ]
    }


def reference_page(package: str, folder: Path) -> str:
    """Return the page of a package: what it is, then each of its modules with all public names."""
    lines = [package, "=" * len(package), "", f".. automodule:: {package}", ""]
    for module in sorted(each.name for each in iter_modules([str(folder)]) if not each.ispkg):
        if module != "cli" and not module.startswith("_"):
            name = f"{package}.{module}"
            lines += [name, "-" * len(name), "", f".. automodule:: {name}", "   :members:", ""]
    return "\n".join(lines)


def packages(name: str, folder: Path) -> dict[str, Path]:
    """Return a package and those in it, but for command lines and benches, which run only in a simulator."""
    found = {name: folder}
    for each in iter_modules([str(folder)]):
        if each.ispkg and each.name not in ("cli", "bench"):
            found |= packages(f"{name}.{each.name}", folder / each.name)
    return found


def write_reference(*_: Any) -> None:
    """Write one page for each package, and their table of contents, where they are not up to date."""
    target = HERE / "reference" / "api"
    target.mkdir(parents=True, exist_ok=True)
    pages: dict[str, str] = {}
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        assert spec is not None and spec.origin is not None
        for package, folder in packages(name, Path(spec.origin).parent).items():
            pages[package] = reference_page(package, folder)
    for stale in target.glob("*.rst"):
        if stale.stem not in pages:
            stale.unlink()
    for package, text in pages.items():
        path = target / f"{package}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def setup(app: Any) -> None:
    """Register the notation's colours, and write the reference before pages are read."""
    app.add_lexer("cascade", CascadeLexer)
    app.connect("builder-inited", write_reference)
