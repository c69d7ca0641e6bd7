# Everything is done by these targets; `make` lists them. ARGS is handed on, e.g. `make demo ARGS="--fault nan"`.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
ARGS ?=

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.10 || true)
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := schemas pipeline producers jobs infra
INSTALLED := $(VENV)/.installed
JARS := jobs/java/target/.built
OUTSIDE := services or flink or network or frameworks
DOCTESTS = $(sort $(shell grep -rl --include='*.py' '^ *>>> ' $(filter-out jobs,$(PACKAGES))))
TORCH_DOCTESTS = $(filter producers/torch/% infra/stabilisers/%,$(DOCTESTS))
RANKS := tests/producers/torch
LOOPS := tests/producers tests/test_layout.py
CAMPAIGNS := tests/infra/rescue tests/infra/acceptance tests/infra/stabilisers

.PHONY: help setup demo test unit unit-plain unit-torch integration ranks loops campaigns check fmt up down status bench scoreboard rescue acceptance stabilisers device-check clean

help: ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(INSTALLED) $(JARS) ## Make .venv and fetch the jars (what is there already stays)

# Bytecode is made as pip makes it of what it copies; of what stays where it is the first run would.
$(INSTALLED): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Holter needs Python 3.10 to 3.12 (PyFlink's limit): install python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[torch,flink,embedded,diagnose,integrations,dev]"
	@mkdir -p $(VENV)/src/holter
	@for package in $(PACKAGES); do ln -sfn "$(CURDIR)/$$package" $(VENV)/src/holter/$$package; done
	@$(BIN)/python -m compileall -q $(PACKAGES)
	@touch $@

$(JARS): jobs/java/pom.xml $(wildcard jobs/java/src/main/java/io/holter/*.java) | $(INSTALLED)
	@$(BIN)/python -m holter.infra.jars
	@touch $@

demo: setup ## A live run hurt, noticed and healed through Kafka, Flink and ClickHouse (ARGS="--fault lr-burst|bad-data|nan --json")
	@$(BIN)/python -m holter.infra.demo $(ARGS)

# The longest first, so that the two that run at a time end together.
test: setup unit ## Lint, types and all tests: unit, several processes, jobs on a local Flink, real broker and store, live rescues
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=line integration loops ranks campaigns check

# The tests start hundreds of processes, which without bytecode would each compile what they import.
unexport PYTHONDONTWRITEBYTECODE

# Small tensors, and several tests at once: threads would only wait for each other.
unit-plain unit-torch integration ranks loops campaigns: export OMP_NUM_THREADS := 1

# JVMs that live for a minute or two: what a better compiler would spend on them never comes back.
integration: export JDK_JAVA_OPTIONS := -XX:TieredStopAtLevel=1

unit: setup ## Only the tests that need no service and no framework but torch
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target unit-plain unit-torch

# Two processes for two cores: only one of them spends seconds on importing torch. What ARGS choose may be in the other.
unit-plain unit-torch: NONE_IS_FINE = $(if $(ARGS),|| test $$? = 5)

unit-plain: setup
	@$(BIN)/python -m pytest --doctest-modules $(filter-out producers/integrations/% producers/examples/% $(TORCH_DOCTESTS),$(DOCTESTS)) tests -m "not ($(OUTSIDE) or torch)" $(ARGS) $(NONE_IS_FINE)

unit-torch: setup
	@$(BIN)/python -m pytest --doctest-modules $(TORCH_DOCTESTS) tests -m "torch and not ($(OUTSIDE))" $(ARGS) $(NONE_IS_FINE)

integration: setup ## Only the tests that need a broker, a cluster, the store or another process of the pipeline
	@$(BIN)/python -m pytest tests $(addprefix --ignore=,$(LOOPS) $(CAMPAIGNS) $(RANKS)) -m "$(OUTSIDE)" $(ARGS)

ranks: setup ## Only the tests that train with torch in several processes: ranks that agree, shards, a lost stage
	@$(BIN)/python -m pytest $(RANKS) -m "$(OUTSIDE)" $(ARGS)

loops: setup ## Only the tests that train with other frameworks, and the examples
	@$(BIN)/python -m pytest $(LOOPS) $(addprefix --ignore=,$(RANKS)) -m "$(OUTSIDE)" $(ARGS)

campaigns: setup ## Only the rescue matrix, the acceptance figures and the stabilisers, in small
	@$(BIN)/python -m pytest $(CAMPAIGNS) -m "$(OUTSIDE)" $(ARGS)

check: setup ## Lint, format and types, changing nothing
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy $(addprefix -p holter.,$(PACKAGES))

fmt: setup ## Format and fix what can be fixed
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

up: setup ## Start the local stack and show it
	@$(BIN)/holter up $(ARGS)

down: ## Stop the local stack
	@if [ -x $(BIN)/holter ]; then $(BIN)/holter down $(ARGS); fi

status: setup ## Show the local stack
	@$(BIN)/holter status $(ARGS)

bench: setup ## Measure speed as ratios against something in the same run (ARGS=--json)
	@$(BIN)/python -m holter.infra.bench $(ARGS)

scoreboard: setup ## Holter beside other people's rules (ARGS="--traces DIR --leave-out family --json")
	@$(BIN)/python -m tests.scoreboard $(ARGS)

rescue: setup ## Live runs hurt in ten ways, treated by every policy (ARGS="--faults lr-burst --seeds 1 --jobs 2 --json")
	@$(BIN)/python -m holter.infra.rescue $(ARGS)

acceptance: setup ## The design report's six figures, measured (ARGS="--seeds 1 --no-stack --json")
	@$(BIN)/python -m holter.infra.acceptance $(ARGS)

stabilisers: setup ## Every clipper, optimizer and rollback in one toy beside the published claims (25 minutes; ARGS="--quick --json")
	@$(BIN)/python -m holter.infra.stabilisers $(ARGS)

device-check: setup ## The checks that need CUDA (skipped where there is none)
	@$(BIN)/python -m pytest tests -m cuda -rs $(ARGS)

clean: down ## Stop the stack and remove what was built, not .venv
	@rm -rf .holter jobs/java/target build *.egg-info .pytest_cache .mypy_cache .ruff_cache
