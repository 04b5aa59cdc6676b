# Every target sets up what it needs; `make` alone lists them.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
CONSTRAINTS := $(foreach name,operator workloads development,-c constraints/$(name).txt)
PACKAGES := operator/imagenet_operator workloads/imagenet_workloads
# One more than two cores would need: some tests wait.
PYTEST_OPTIONS ?= -n 3 --dist worksteal
STRATEGY_ENVIRONMENTS := .venv-horovod/.installed .venv-tensorflow/.installed
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' operator/pyproject.toml)

# Where images go: IMAGE_PREFIX=ghcr.io/example/ names them for a registry. On a machine whose
# containers reach no package index by themselves: DOCKER_BUILD_OPTIONS='--network host'.
DOCKER ?= docker
DOCKER_BUILD_OPTIONS ?=
IMAGE_PREFIX ?=
IMAGE_TAG ?= $(VERSION)
IMAGES := operator workloads-mxnet workloads-mxnet-cu112 workloads-tensorflow
HOROVOD_BUILD := images/build_horovod.py images/horovod-idle-cycle.patch
# Horovod's wheels that images/build_horovod.py has kept on this machine: the build of an image takes
# the one that it would make itself.
HOROVOD_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/imagenetjob/horovod
KEPT_WHEELS := $(patsubst $(HOROVOD_CACHE)/%,images/kept/%,$(wildcard $(HOROVOD_CACHE)/*/*.whl))

# What is not on the PATH is built from Go modules, at the version in tests/kind/airgap.
TOOLS := build/tools/bin
HELM := $(or $(shell command -v helm),$(TOOLS)/helm)

CHART := charts/imagenet-operator
SNAPSHOT := tests/charts/snapshot.yaml
# Without the definition of ImageNetJob, which is a generated file of its own.
RENDER = $(HELM) template imagenet-operator $(CHART) --namespace imagenet-operator \
	--kube-version 1.34.4 --set crds.install=false

export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help install install-horovod install-tensorflow demo test lint format generate verify images
.PHONY: test-strategies test-kind bench bench-operator bench-training bench-training-kind
.PHONY: fidelity clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Make .venv with both packages and the development tools

$(INSTALLED): operator/pyproject.toml workloads/pyproject.toml $(wildcard constraints/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet $(CONSTRAINTS) -r constraints/development.in \
		-e ./operator -e './workloads[mxnet,planes,plot]'
	touch $@

install-horovod: .venv-horovod/.installed ## Make .venv-horovod with Horovod for MXNet (builds it)

.venv-horovod/.installed: workloads/pyproject.toml $(HOROVOD_BUILD) \
		$(foreach name,workloads.txt development.txt horovod.in horovod.txt,constraints/$(name))
	$(PYTHON) -m venv .venv-horovod
	.venv-horovod/bin/pip install --quiet -c constraints/workloads.txt \
		-c constraints/development.txt -c constraints/horovod.txt -r constraints/horovod.in \
		-e './workloads[mxnet,planes]'
	.venv-horovod/bin/python images/build_horovod.py mxnet --into build/horovod/mxnet
	.venv-horovod/bin/pip install --quiet --no-deps --force-reinstall build/horovod/mxnet/*.whl
	touch $@

install-tensorflow: .venv-tensorflow/.installed ## Make .venv-tensorflow, with Horovod (builds it)

.venv-tensorflow/.installed: workloads/pyproject.toml $(HOROVOD_BUILD) $(foreach name, \
		workloads.txt development.txt horovod.in horovod.txt tensorflow.txt,constraints/$(name))
	$(PYTHON) -m venv .venv-tensorflow
	.venv-tensorflow/bin/pip install --quiet -c constraints/workloads.txt \
		-c constraints/development.txt -c constraints/horovod.txt -c constraints/tensorflow.txt \
		-r constraints/horovod.in -e './workloads[tensorflow,planes]'
	.venv-tensorflow/bin/python images/build_horovod.py tensorflow --into build/horovod/tensorflow
	.venv-tensorflow/bin/pip install --quiet --no-deps --force-reinstall \
		build/horovod/tensorflow/*.whl
	touch $@

demo: $(INSTALLED) ## Train handwritten digits from a raw archive, with 2 workers on this machine
	$(BIN)/python examples/demo.py

test: $(INSTALLED) $(HELM) ## Run every test that needs no cluster
	$(BIN)/pytest $(PYTEST_OPTIONS) tests

lint: $(INSTALLED) ## Check style (ruff) and types (mypy, strict)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy $(PACKAGES) tests examples benchmarks images

format: $(INSTALLED) ## Rewrite the sources in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: $(INSTALLED) $(HELM) ## Write the CRD, docs/reference.md and the chart's snapshot
	$(BIN)/python -m imagenet_operator.cli.generate
	$(RENDER) > $(SNAPSHOT)

verify: $(INSTALLED) $(HELM) ## Fail when a generated file differs from its source; lint the chart
	$(BIN)/python -m imagenet_operator.cli.generate --check
	$(HELM) lint --strict --quiet $(CHART)
	$(RENDER) | diff -u $(SNAPSHOT) - || { echo "$(SNAPSHOT): run make generate"; exit 1; }

images: $(IMAGES:%=image-%) ## Build the container images (image-NAME: one of them)

$(KEPT_WHEELS): images/kept/%: $(HOROVOD_CACHE)/%
	@mkdir -p $(@D) && cp $< $@

image-%: images/%/Dockerfile $(KEPT_WHEELS)
	$(DOCKER) build $(DOCKER_BUILD_OPTIONS) --file $< --tag $(IMAGE_PREFIX)imagenet-$*:$(IMAGE_TAG) \
		--build-arg VERSION=$(VERSION) \
		--build-arg REVISION=$(shell git rev-parse HEAD 2>/dev/null || echo unknown) .

$(TOOLS)/helm: tests/kind/airgap/versions.toml
	@command -v go >/dev/null || { echo "helm is needed: install it, or Go to build it with"; exit 1; }
	$(PYTHON) tests/kind/airgap/build.py --into $(TOOLS) helm
	@touch $@

test-strategies: $(INSTALLED) $(STRATEGY_ENVIRONMENTS) ## Run the tests of all strategies together
	.venv-horovod/bin/pytest $(PYTEST_OPTIONS) tests/with_horovod
	.venv-tensorflow/bin/pytest $(PYTEST_OPTIONS) tests/with_tensorflow
	$(BIN)/pytest $(PYTEST_OPTIONS) tests/strategies

test-kind: $(INSTALLED) $(HELM) ## Run the stories on a kind cluster, made for them (needs Docker and Go)
	$(BIN)/python tests/kind/run.py test

bench: $(INSTALLED) ## Measure preprocessing against MXNet's im2rec, side by side
	$(BIN)/python -m benchmarks.preparation

bench-operator: $(INSTALLED) ## Measure the operator on a kind cluster with KWOK's nodes
	PYTHONPATH=tests $(BIN)/python -m benchmarks.operator_speed

bench-training: $(INSTALLED) .venv-horovod/.installed ## Measure jobs against the program by hand
	$(BIN)/python -m benchmarks.scaling

bench-training-kind: $(INSTALLED) $(HELM) ## Measure a job against a plain pod on a kind cluster
	PYTHONPATH=tests $(BIN)/python -m benchmarks.scaling --kind

fidelity: $(INSTALLED) $(STRATEGY_ENVIRONMENTS) ## Train with every strategy and several seeds (long)
	$(BIN)/python benchmarks/fidelity.py

clean: ## Remove the environment, caches and everything under build/
	rm -rf $(VENV) $(VENV)-* build images/kept/*/ .mypy_cache .pytest_cache .ruff_cache .hypothesis
