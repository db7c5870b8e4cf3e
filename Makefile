# Needs only Python >= 3.11 and make. Every target makes .venv and installs what it needs; each set of
# packages has its own stamp, so that testing does not wait for the documentation tools.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check install --quiet

.PHONY: demo test test-slow test-plain test-oldest test-newest package sbom docs gallery bench lint format clean

demo: $(VENV)/.run
	$(VENV)/bin/temperance demo

# One worker a core; whoever is done first takes over from the other, so that both end together.
test: $(VENV)/.dev
	$(PY) -m pytest --numprocesses auto --dist worksteal

test-slow: $(VENV)/.dev
	$(PY) -m pytest --numprocesses auto --dist worksteal -m slow

# The same tests without a compiled kernel: every answer follows from the models' own functions, only slower.
test-plain: $(VENV)/.dev
	TEMPERANCE_ENGINE=plain $(PY) -m pytest --numprocesses auto --dist worksteal

# Environments of their own, made anew each time: `make test-oldest TESTS=tests/families` runs a part.
TESTS ?= tests
OWN = --numprocesses auto --dist worksteal $(TESTS)

# Old packages call what the newest versions of their own dependencies (Click, pyparsing) call deprecated.
test-oldest:
	$(PYTHON) -m venv --clear build/oldest
	build/oldest/bin/python tests/lowest.py > build/lowest.txt
	build/oldest/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[dev]' --constraint build/lowest.txt
	build/oldest/bin/python -m pytest -W ignore::DeprecationWarning $(OWN)

# The newest Python that is installed and runs, if it is newer than 3.11 (pyenv has shims for versions that are not
# active, so its folder is searched too); pip chooses the newest packages. `make test-newest NEWEST=python3.13` names one.
NEWEST := $(firstword $(foreach minor,14 13 12,$(shell for found in python3.$(minor) $(HOME)/.pyenv/versions/3.$(minor).*/bin/python; do $$found -c 'import sys; print(sys.executable)' 2>/dev/null && break; done)))
test-newest:
	$(if $(NEWEST),@echo testing on $(NEWEST),@echo no Python newer than 3.11 is installed: testing the newest packages on $(PYTHON))
	$(or $(NEWEST),$(PYTHON)) -m venv --clear build/newest
	build/newest/bin/python -m pip --disable-pip-version-check install --quiet --editable '.[dev]'
	build/newest/bin/python -m pytest $(OWN)

# The wheel is built from the source distribution, and the demo runs from it with nothing of the checkout at hand.
package:
	rm -rf dist
	$(PYTHON) -m venv --clear build/builder
	build/builder/bin/python -m pip --disable-pip-version-check install --quiet hatchling
	build/builder/bin/python -m hatchling build --target sdist
	build/builder/bin/python -m pip --disable-pip-version-check wheel --quiet --no-deps --wheel-dir dist dist/*.tar.gz
	$(PYTHON) -m venv --clear build/installed
	build/installed/bin/python -m pip --disable-pip-version-check install --quiet dist/*.whl
	cd build && installed/bin/temperance --version && installed/bin/temperance demo --quick --out demo

# A bill of materials of what requirements.lock lists, from an environment that holds just that.
sbom:
	$(PYTHON) -m venv --clear build/locked
	build/locked/bin/python -m pip --disable-pip-version-check install --quiet '.[parquet,excel,texts,dask]' --constraint requirements.lock
	build/locked/bin/python tests/lock.py --sbom > build/sbom.json
	@echo build/sbom.json

# Every example of the documentation and every figure of the papers runs as it stands, and every link leads somewhere.
# The variable silences the theme's notice about its successor; --quiet would also silence --strict.
docs: $(VENV)/.dev $(VENV)/.docs
	$(PY) -m pytest --numprocesses auto -m docs
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

# Every figure of the papers in full, with times; a second call goes on where the first stopped.
gallery: $(VENV)/.run
	$(VENV)/bin/temperance reproduce --all

bench: $(VENV)/.bench
	$(PY) -m benchmarks

lint: $(VENV)/.dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(VENV)/.dev
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

clean:
	rm -rf $(VENV) .cache .hypothesis site build dist

# The stamp comes last, so that an interrupted or failed step is done again.
$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit("Temperance needs Python 3.11 or newer, but $(PYTHON) is " + sys.version.split()[0] + "; try make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.run: pyproject.toml $(VENV)/.made
	$(PIP) --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.made
	$(PIP) --editable '.[dev]'
	@touch $@

$(VENV)/.docs: pyproject.toml $(VENV)/.made
	$(PIP) --editable '.[docs]'
	@touch $@

$(VENV)/.bench: pyproject.toml $(VENV)/.made
	$(PIP) --editable '.[bench]'
	@touch $@
