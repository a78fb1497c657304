# Everything a checkout needs: Python 3.11+, pip, make and a C compiler. `make` lists the targets.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) -m pip install --quiet --disable-pip-version-check
# Exactly this torch, and before anything else, so that no other requirement brings in a second one.
TORCH := torch==2.13.0
SOURCES := leakscope fixtures tests
DEMO := demo-output/run.parquet

.DEFAULT_GOAL := help
.PHONY: help demo test torture fuzz fuzz-objects lint docs bench leakbench clean

help:
	@echo "make demo   record a small PyTorch training with a leak for 40 s and print the report"
	@echo "make test   lint, type check and tests"
	@echo "make torture  kills, full disks, storms of signals: each at SEEDS=50 instants; attacks on every Python (30 minutes)"
	@echo "make fuzz   feed every reader bytes, led by what they execute: FUZZ_S=60 seconds each (needs atheris)"
	@echo "make fuzz-objects  half-made and hostile objects before the agent: SEEDS=50 of each family on every Python (an hour)"
	@echo "make lint   ruff and mypy only"
	@echo "make docs   renew docs/ and the tables of README.md from the program"
	@echo "make bench  what recording costs, beside its budgets (15 minutes; BENCH='--only takes' is a part)"
	@echo "make leakbench  how often reports are right, over all of fixtures/ (LEAKBENCH=name: some of them; SECONDS=14)"
	@echo "make clean  remove $(VENV) and demo-output"

# Each stamp is a set of installed packages: nothing is installed again until pyproject.toml changes.
$(VENV)/installed-run: pyproject.toml
	@echo "== $(VENV): installing leakscope, $(TORCH), numpy (once; some minutes without pip's cache)"
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@$(PIP) $(TORCH) numpy
	@$(PIP) --editable .
	@touch $@

$(VENV)/installed-test: $(VENV)/installed-run
	@echo "== $(VENV): installing what the tests need"
	@$(PIP) --editable '.[test,plots,deep,native]'
	@touch $@

demo: $(VENV)/installed-run
	@mkdir -p $(dir $(DEMO))
	@echo "== leakscope record -o $(DEMO) -- python fixtures/train_leaky.py"
	@$(VENV)/bin/leakscope record -o $(DEMO) -- $(RUN) fixtures/train_leaky.py
	@echo "== leakscope report $(DEMO)"
	@$(VENV)/bin/leakscope report $(DEMO)

lint: $(VENV)/installed-test
	@echo "== ruff check, ruff format --check, mypy"
	@$(RUN) -m ruff check $(SOURCES)
	@$(RUN) -m ruff format --check $(SOURCES)
	@$(RUN) -m mypy

# Half of the tests wait for recordings, which take a third of a core each. More would put off each other's inventories.
AT_ONCE := -n 2 --dist loadgroup
# Of some thousand real processes one may starve beside another. What failed is run once more, alone, and must pass there.
ALONE := -n 0 --last-failed --last-failed-no-failures none
test: lint
	@echo "== pytest"
	@$(RUN) -m pytest -q $(AT_ONCE) || { echo "== pytest: what failed, once more and alone"; $(RUN) -m pytest -q $(ALONE); }

# PYTHONS: paths of interpreters, parted by colons; what a Python cannot import is not tried with it.
SEEDS ?= 50
PYTHONS ?= all
torture: $(VENV)/installed-test
	@LEAKSCOPE_TORTURE=$(SEEDS) $(RUN) -m pytest -q $(AT_ONCE) tests/torture
	@echo "== attacks, under LEAKSCOPE_PYTHONS=$(PYTHONS)"
	@LEAKSCOPE_PYTHONS=$(PYTHONS) $(RUN) -m pytest -q $(AT_ONCE) tests/harm/test_attacks.py

FUZZ_S ?= 60
READERS := oom_log kernel_record command_line stderr source amount segment block
fuzz: $(VENV)/installed-test
	@$(PIP) --editable '.[fuzz]'
	@set -e; for reader in $(READERS); do echo "== $$reader"; \
		$(RUN) -m tests.fuzz.guided $$reader -max_total_time=$(FUZZ_S) -verbosity=0; done

fuzz-objects: $(VENV)/installed-test
	@LEAKSCOPE_OBJECTS=$(SEEDS) LEAKSCOPE_PYTHONS=$(PYTHONS) $(RUN) -m pytest -q $(AT_ONCE) tests/harm/test_objects.py

docs: $(VENV)/installed-test
	@$(RUN) -m tests.test_docs
	@git status --short -- README.md docs

bench: $(VENV)/installed-test
	@$(PIP) --editable '.[bench]'
	@echo "== what recording costs"
	@$(RUN) -m tests.bench $(BENCH)

# Stopped? LEAKBENCH='--keep' goes on with what is not yet recorded, and judges the rest anew.
SECONDS ?= 14
leakbench: $(VENV)/installed-test
	@echo "== $(SECONDS) s of every program of fixtures/, two at a time"
	@$(RUN) -m tests.leakbench --seconds $(SECONDS) $(LEAKBENCH)

clean:
	rm -rf $(VENV) demo-output leakbench-output
