# make demo   sets up a virtual environment if needed, then learns three kitchens and shows them
# make test   sets up a virtual environment if needed, then lints, checks types and runs all tests
# make check  the same with quick tests only, in about three minutes: those without the mark slow,
#             which has most of what trains, plays rollouts or starts other programs
# make setup  only the virtual environment, with the command .venv/bin/brigade
# make lint   only ruff and mypy
# make docs   builds the documentation site into site/: open site/index.html

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: setup demo test check lint docs clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Brigade needs Python 3.11 or newer, this is " + sys.version.split()[0] + ": make PYTHON=python3.12 " + "$(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
		-e '.[dev]'
	@touch $@

# About three minutes on two cores. A new folder every time: runs are never overwritten.
DEMO = runs/demo-$(shell date +%Y%m%d-%H%M%S)
demo: setup
	@out=$(DEMO) && \
	$(BIN)/brigade run meal/level-1 --preset laptop --method ft --tasks 3 --seeds 2 --seed 1 \
		--steps-per-task 3e5 --ppo.shaping-steps 3e5 --out $$out && \
	echo "gif: $$($(BIN)/brigade watch $$out --task 3)"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site: site/index.html"

# Two workers: most of the time is XLA compiling, which uses one core.
test: lint
	$(BIN)/python -m pytest -n 2 --dist loadscope

check: lint
	$(BIN)/python -m pytest -n 2 --dist loadscope -m 'not slow'

clean:
	rm -rf $(VENV) .cache build site *.egg-info
