# make run   the main job: from an attention cascade to verified Verilog, on real scores
# make test  linter, type checker and all tests
# make docs  the documentation site, into build/site
# All install what they need into .venv first; they need Python 3.11 or newer, make and a C++ compiler.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: run test lint tests docs clean

run: $(STAMP)
	$(BIN)/einrtl run examples/minilm.yaml -o build/minilm

test: lint tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

tests: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile

docs: $(STAMP)
	$(BIN)/python -m sphinx -q -W --keep-going docs build/site

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("error: Python must be 3.11 or newer, not " + sys.version.split()[0] + "; run: make PYTHON=python3.12" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "error: Python must have its venv module; run: apt install python3-venv" >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $(STAMP)

clean:
	rm -rf build .venv
