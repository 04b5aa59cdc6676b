# Every target sets up what it needs; `make` alone lists them.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
CONSTRAINTS := $(foreach name,operator workloads development,-c constraints/$(name).txt)
PACKAGES := operator/imagenet_operator workloads/imagenet_workloads
PYTEST_OPTIONS ?= -n 2 --dist worksteal

export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help install demo test lint format generate verify bench clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Make .venv with both packages and the development tools

$(INSTALLED): operator/pyproject.toml workloads/pyproject.toml $(wildcard constraints/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet $(CONSTRAINTS) -r constraints/development.in \
		-e ./operator -e './workloads[mxnet,planes,plot]'
	touch $@

demo: $(INSTALLED) ## Train handwritten digits from a raw archive, with 2 workers on this machine
	$(BIN)/python examples/demo.py

test: $(INSTALLED) ## Run every test that needs no cluster
	$(BIN)/pytest $(PYTEST_OPTIONS) tests

lint: $(INSTALLED) ## Check style (ruff) and types (mypy, strict)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(PACKAGES) tests examples benchmarks

format: $(INSTALLED) ## Rewrite the sources in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: $(INSTALLED) ## Write the CRD and docs/reference.md from the typed models
	$(BIN)/python -m imagenet_operator.cli.generate

verify: $(INSTALLED) ## Fail when a generated file differs from its source
	$(BIN)/python -m imagenet_operator.cli.generate --check

bench: $(INSTALLED) ## Measure preprocessing against MXNet's im2rec, side by side
	$(BIN)/python benchmarks/preparation.py

clean: ## Remove the environment, caches and everything under build/
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .hypothesis
