# Two commands from a fresh machine with Python 3.11: `make demo` and `make test`.

PYTHON ?= python3
BIN := .venv/bin
# Modules are compiled when they are first imported: compiling all of torch takes a third of the installation. What was
# compiled must then be kept, or each process would compile it again, for four seconds.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile
export PYTHONDONTWRITEBYTECODE :=

# No other package may bring a newer torch (constraints.txt says why).
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
# With more threads than free cores, spinning OpenMP threads slow some operations down many times.
export OMP_WAIT_POLICY := PASSIVE
# Tests read and write text in any locale.
export PYTHONUTF8 := 1

# `.ci/run` runs the thorough tests too.
TESTS ?= not slow and not thorough

.PHONY: demo test test-exact attack check dist smoke docs docs-check bench bench-particles bench-saving bench-step bench-views bench-exact clean

demo: .venv/.installed
	$(BIN)/refprior demo

test: check
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m "$(TESTS)"

# The exact half as `pip install refprior` gives it, in an environment without torch: a minute.
test-exact:
	$(PYTHON) -m venv build/exact
	build/exact/bin/pip install --quiet --disable-pip-version-check . hypothesis pytest
	build/exact/bin/python -I tests/release/smoke.py
	OMP_NUM_THREADS=1 build/exact/bin/pytest -q tests/exact/test_priors.py tests/exact/test_posterior.py tests/exact/test_solution.py tests/exact/channels

# 2200 random models against the certificates of exact priors; about five minutes of one core.
attack: .venv/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.exact.attack

check: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m website.docstrings

# Wheel and sdist, as a release has them.
dist: .venv/.installed-dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist

# Tests of the wheel in an empty environment: alone, and with all extras.
smoke: dist
	$(PYTHON) -m venv --clear dist/.venv
	dist/.venv/bin/pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)"
	dist/.venv/bin/python -I tests/release/smoke.py
	dist/.venv/bin/pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[all]"
	dist/.venv/bin/python -I tests/release/smoke.py

# Strict: a broken link, a missing page or a script of the gallery that fails ends the build.
docs: .venv/.installed-dev
	rm -rf build/site docs/reference/api
	OMP_NUM_THREADS=1 $(BIN)/sphinx-build -W --keep-going -q -b html -d build/doctrees docs build/site

# Every page in a real browser, wide and narrow, light and dark; needs chromium and chromedriver.
docs-check: docs
	$(BIN)/python -m website.browse build/site

# All benchmarks on a quiet machine, and their page.
bench: .venv/.installed-bench
	$(BIN)/python -m benchmarks

bench-particles: .venv/.installed-dev
	$(BIN)/python benchmarks/particles.py

bench-saving: .venv/.installed-dev
	$(BIN)/python benchmarks/saving.py

bench-step: .venv/.installed-dev
	OMP_NUM_THREADS=2 $(BIN)/python benchmarks/step.py

bench-views: .venv/.installed-dev
	$(BIN)/python benchmarks/views.py

bench-exact: .venv/.installed-bench
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/exact.py

.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "refprior needs Python 3.11 or newer; try make PYTHON=python3.11")'
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) -e '.[deep]'
	touch $@

.venv/.installed-dev: .venv/.installed
	$(INSTALL) -e '.[dev,docs,all]'
	touch $@

.venv/.installed-bench: .venv/.installed-dev
	$(INSTALL) -e '.[bench]'
	touch $@

clean:
	rm -rf .venv build dist docs/auto_learn docs/auto_gallery docs/reference/api .mypy_cache .pytest_cache .ruff_cache .hypothesis
