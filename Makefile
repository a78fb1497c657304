# Everything a checkout needs: Python 3.11+, pip, make and a C compiler. `make` lists the targets.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check
# Exactly this torch, and before anything else, so that no other requirement brings in a second one.
TORCH := torch==2.13.0
SOURCES := leakscope fixtures tests light leakbench
DEMO := demo-output/run.parquet

# Set in many containers. Each of a thousand programs that the tests start would compile leakscope anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo quick test test-all test-sdks test-pythons test-oldest sdist record-dist torture fuzz fuzz-objects foreign-tests lint \
	types agent-types oldest-types docs tutorials pictures notebooks site bench bench-fleet leakbench unseen power soak golden clean

help:
	@echo "make demo   record a small PyTorch training with a leak for 40 s and print the report"
	@echo "make test   lint, type check, all golden recordings, and one or two cases of everything else (6 to 10 minutes)"
	@echo "make quick  unit tests only: no job is started (1 minute)"
	@echo "make test-all  before a release: every case, every program of fixtures/ recorded, attacks, kills, notebooks (30 minutes)"
	@echo "make test-sdks  before a release: importers, trackers, buckets, MCP and services with the SDKs that they need (20 minutes)"
	@echo "make test-pythons  every command on every Python of this machine, the lowest declared one first (5 minutes)"
	@echo "make test-oldest  recording and reports with the oldest versions of all that leakscope needs"
	@echo "make record-dist  build leakscope-record (wheel, sdist) and leakscope.pyz, which record without dependencies"
	@echo "make torture  kills, full disks, storms of signals at SEEDS=50 instants; attacks on every Python; CPython's suite (1 hour)"
	@echo "make fuzz   feed every reader bytes, led by what they execute: FUZZ_S=60 seconds each (needs atheris)"
	@echo "make foreign-tests  suites of others, bare and recorded in stress mode (hours; FOREIGN='cpython --only test_gc' is a part)"
	@echo "make fuzz-objects  half-made and hostile objects before the agent: SEEDS=50 of each family on every Python (an hour)"
	@echo "make lint   ruff and mypy only"
	@echo "make docs   renew the made pages and sections of README.md and docs/"
	@echo "make site   build the documentation site into site/ (strict: a broken link or an orphan page fails)"
	@echo "make tutorials  record the programs of the tutorials anew (10 minutes; TUTORIAL=name: one of them)"
	@echo "make pictures  draw the page in the README anew (needs Chromium)"
	@echo "make notebooks  run the notebooks anew (NOTEBOOK=name: one of them)"
	@echo "make bench  what recording costs, beside its budgets (25 minutes; BENCH='--only takes' is a part)"
	@echo "make bench-fleet  what an index, a query and a report of 40,960 recordings cost (30 minutes; BENCH='--only index')"
	@echo "make leakbench  how often reports are right, over all of fixtures/ (LEAKBENCH=name: some of them; SECONDS=14)"
	@echo "make unseen  the same of fixtures/unseen, 65 s each: programs that are only run (25 minutes; LEAKBENCH=name)"
	@echo "make power  which leak is seen when, and how often a clean series is called one: docs/power.md (1 minute)"
	@echo "make soak   trainings of real size, leaking and clean, and what is said of them by time (80 minutes)"
	@echo "make golden  record programs of fixtures/ for tests/golden, and show what is told otherwise (30 minutes; GOLDEN=name)"
	@echo "make clean  remove $(VENV), $(OLDEST), site and demo-output"

# Each stamp is a set of installed packages: nothing is installed again until what they are made of changes.
$(VENV)/installed-run: pyproject.toml setup.py $(wildcard leakscope/agent/*/*.c leakscope/agent/*/*/*.h)
	@echo "== $(VENV): installing leakscope, $(TORCH), numpy (once; some minutes without pip's cache)"
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@$(PIP) $(TORCH) numpy
	@$(PIP) --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/installed-run
	@echo "== $(VENV): installing what the tests need"
	@$(PIP) --editable '.[test,plots,deep]'
	@touch $@

demo: $(VENV)/installed-run
	@mkdir -p $(dir $(DEMO))
	@echo "== leakscope record -o $(DEMO) -- python fixtures/train_leaky.py"
	@$(VENV)/bin/leakscope record -o $(DEMO) -- $(RUN) fixtures/train_leaky.py
	@echo "== leakscope report $(DEMO)"
	@$(VENV)/bin/leakscope report $(DEMO)

# The last mypy that knows Python 3.8, on which the agent runs too: its syntax, and what its standard library has.
MYPY_OF_3_8 := $(VENV)/mypy-1.14.1
$(MYPY_OF_3_8): $(VENV)/installed-test
	@$(PIP) --target $@ mypy==1.14.1
	@touch $@

types: $(VENV)/installed-test
	@$(RUN) -m mypy

agent-types: $(MYPY_OF_3_8)
	@PYTHONPATH=$(MYPY_OF_3_8) $(RUN) -m mypy --python-version 3.8 --no-site-packages --follow-imports silent \
		--cache-dir .mypy_cache/oldest -p leakscope.agent

# The whole package as the lowest Python that pyproject.toml declares, by the last mypy that knows 3.9, with the packages
# that are installed there. Their annotations of then are others: what depends on those, `types` checks.
LOWEST_PYTHON := $(shell sed -n 's/^requires-python = ">=\(.*\)"/\1/p' pyproject.toml)
MYPY_OF_3_9 := $(VENV)/mypy-1.19.1
STUBS := $(VENV)/stubs-$(LOWEST_PYTHON)
$(MYPY_OF_3_9): $(VENV)/installed-test
	@$(PIP) --target $@ mypy==1.19.1
	@touch $@

$(STUBS): $(VENV)/installed-test
	@$(RUN) -m venv --without-pip $@
	@$(PIP) --python-version $(LOWEST_PYTHON) --only-binary :all: --no-deps \
		--target $$($@/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
		numpy pandas-stubs 'click<8.2' rich textual jinja2 markupsafe types-psutil types-pytz
	@touch $@

OTHERS_ANNOTATIONS := arg-type dict-item index list-item misc no-any-return return-value type-arg union-attr var-annotated
oldest-types: $(MYPY_OF_3_9) $(STUBS)
	@PYTHONPATH=$(MYPY_OF_3_9) $(RUN) -m mypy --python-version $(LOWEST_PYTHON) --python-executable $(STUBS)/bin/python \
		--ignore-missing-imports --allow-untyped-decorators --allow-subclassing-any --no-warn-unused-ignores \
		$(addprefix --disable-error-code ,$(OTHERS_ANNOTATIONS)) --cache-dir .mypy_cache/lowest -p leakscope

lint: $(VENV)/installed-test $(MYPY_OF_3_8) $(MYPY_OF_3_9) $(STUBS)
	@echo "== ruff check, ruff format --check, mypy"
	@$(RUN) -m ruff check $(SOURCES)
	@$(RUN) -m ruff format --check $(SOURCES)
	@$(MAKE) --no-print-directory -j 2 types agent-types oldest-types

# Paths of interpreters, parted by colons: those beside pyenv's and those on PATH. What a Python cannot import is not
# tried with it.
PYTHONS ?= all
AT_ONCE := -n 2 --dist loadgroup
# tests/tiers.py says what is in each, and what happens to a test that fails among others and passes alone.
TESTS ?=
quick: $(VENV)/installed-test
	@$(RUN) -m tests.tiers quick $(TESTS)

test: lint
	@echo "== pytest"
	@$(RUN) -m tests.tiers test $(TESTS)

test-all: lint
	@LEAKSCOPE_PYTHONS=$(PYTHONS) $(RUN) -m tests.pythons
	@echo "== pytest, with all that is slow"
	@$(RUN) -m tests.tiers test-all $(TESTS)

# What skips in the other tiers, for want of an SDK.
$(VENV)/installed-sdks: $(VENV)/installed-test
	@echo "== $(VENV): installing every SDK that a test asks for (1 GB)"
	@$(PIP) --editable '.[test,sdks]'
	@touch $@

SDK_TESTS ?= tests/importing tests/pushing tests/uploading tests/mcp_server tests/metering tests/integrations tests/recipes
test-sdks: $(VENV)/installed-sdks
	@$(RUN) -m tests.tiers test-all $(SDK_TESTS)

# Every command on every Python from the lowest declared one on, each in an environment of its own (200 MB) in build/.
test-pythons: $(VENV)/installed-test
	@LEAKSCOPE_PYTHONS=$(PYTHONS) $(RUN) -m tests.pythons
	@$(RUN) -m pytest -q $(AT_ONCE) tests/pythons

# The lower bounds of pyproject.toml, each as the version to install. numpy 1.24 knows no Python above 3.11.
OLDEST := $(VENV)-oldest
OLDEST_PYTHON ?= python3.11
LOWER_BOUNDS = $(shell sed -n '/^dependencies = /p' pyproject.toml | grep -o '"[^"]*"' | sed 's/>=/==/')
OLDEST_TESTS ?= tests/storage tests/renderers tests/comparing tests/recorder tests/analyzers \
	tests/test_cli.py tests/test_report_schema.py tests/test_jupyter.py tests/watching
$(OLDEST)/installed: pyproject.toml
	@echo '== $(OLDEST): installing the oldest versions that pyproject.toml allows'
	@test -x $(OLDEST)/bin/python || $(OLDEST_PYTHON) -m venv $(OLDEST)
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check $(LOWER_BOUNDS) \
		'pytest>=8' 'pytest-xdist>=3.5' 'hypothesis>=6' 'jsonschema>=4.18' 'scipy>=1.11' 'pymannkendall>=1.4' 'duckdb>=1' 'polars>=1' 'psutil>=5.9' \
		'markdown-it-py>=2.2' 'pyte>=0.8'
	@$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

test-oldest: $(OLDEST)/installed
	@$(OLDEST)/bin/python -m pip list --disable-pip-version-check | grep -iE 'click|numpy|pandas|pyarrow|rich|textual|jinja2'
	@$(OLDEST)/bin/python -m pytest -q $(AT_ONCE) $(OLDEST_TESTS)

# What is uploaded: with all that its tests need.
sdist: $(VENV)/installed-test
	@rm -rf dist
	@$(RUN) -c "from setuptools import build_meta; print('dist/' + build_meta.build_sdist('dist'))"

# The part that records: leakscope-record, and leakscope.pyz. By an environment of its own: who only wants these may have
# leakscope in .venv, as README.md says, and keeps it as it is.
BUILDS := build/record-dist
$(BUILDS)/installed:
	@echo "== $(BUILDS): installing setuptools (once)"
	@$(PYTHON) -m venv $(BUILDS)
	@$(BUILDS)/bin/python -m pip install --quiet --disable-pip-version-check 'setuptools>=77'
	@touch $@

record-dist: $(BUILDS)/installed
	@$(BUILDS)/bin/python light/build.py dist

SEEDS ?= 50
torture: $(VENV)/installed-test
	@LEAKSCOPE_TORTURE=$(SEEDS) $(RUN) -m pytest -q $(AT_ONCE) tests/torture
	@echo "== attacks, under LEAKSCOPE_PYTHONS=$(PYTHONS)"
	@LEAKSCOPE_PYTHONS=$(PYTHONS) $(RUN) -m pytest -q $(AT_ONCE) tests/harm/test_attacks.py

FUZZ_S ?= 60
READERS := oom_log kernel_record command_line stderr source amount segment block imported gpu_snapshot
fuzz: $(VENV)/installed-test
	@$(PIP) --editable '.[fuzz]'
	@set -e; for reader in $(READERS); do echo "== $$reader"; \
		$(RUN) -m tests.fuzz.guided $$reader -max_total_time=$(FUZZ_S) -verbosity=0; done

# Stopped, it goes on where it was. FOREIGN takes names of suites and the options of python -m tests.foreign.
foreign-tests: $(VENV)/installed-test
	@$(RUN) -m tests.foreign $(FOREIGN)

fuzz-objects: $(VENV)/installed-test
	@$(PIP) --editable '.[objects]'
	@LEAKSCOPE_OBJECTS=$(SEEDS) LEAKSCOPE_PYTHONS=$(PYTHONS) $(RUN) -m pytest -q $(AT_ONCE) tests/harm/test_objects.py

docs: $(VENV)/installed-test
	@$(RUN) -m tests.kind_reports
	@$(RUN) -m tests.test_docs
	@$(RUN) -m tests.architecture
	@git status --short -- README.md docs

# After it: make docs, which shows what these runs printed. TUTORIAL: names of folders of docs/tutorials.
tutorials: $(VENV)/installed-test
	@$(RUN) -m tests.tutorials $(TUTORIAL)

# Run anew and stored without scripts. NOTEBOOK: parts of names.
notebooks: $(VENV)/installed-test
	@$(RUN) -m tests.notebooks $(NOTEBOOK)

pictures: $(VENV)/installed-test
	@$(RUN) -m tests.pictures

site: $(VENV)/installed-test
	@$(PIP) --editable '.[docs]'
	@NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build  # not --quiet: it would let broken links pass
	@echo "== site/index.html"

bench: $(VENV)/installed-test
	@$(PIP) --editable '.[bench]'
	@echo "== what recording costs"
	@$(RUN) -m tests.bench $(BENCH)

# Needs 12 GB of disk, and removes what it wrote.
bench-fleet: $(VENV)/installed-test
	@$(RUN) -m tests.bench.fleet --clean $(BENCH)

# Stopped? LEAKBENCH='--keep' goes on with what is not yet recorded, and judges the rest anew.
SECONDS ?= 14
leakbench: $(VENV)/installed-test
	@echo "== $(SECONDS) s of every program of fixtures/, two at a time"
	@$(RUN) -m leakbench --all --tools leakscope --at-once 2 --commit --seconds $(SECONDS) $(LEAKBENCH)

unseen: $(VENV)/installed-test
	@echo "== every program of fixtures/unseen, two at a time"
	@$(RUN) -m leakbench --unseen --tools leakscope --at-once 2 --commit $(LEAKBENCH)

power: $(VENV)/installed-test
	@$(RUN) -m tests.power

# SOAK: options of python -m tests.soak, as --minutes 20 --gib 4 steps.
soak: $(VENV)/installed-test
	@$(RUN) -m tests.soak $(SOAK)

# GOLDEN: parts of names of programs, and the options of python -m tests.golden.
golden: $(VENV)/installed-test
	@$(RUN) -m tests.golden $(GOLDEN)

clean:
	rm -rf $(VENV) $(OLDEST) site demo-output leakbench-output foreign-output
