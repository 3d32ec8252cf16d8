# The commands of this project. `make train` and `make test` set up .venv first; everything else uses it if it is there.
PYTHON ?= python3
VENV := .venv
python = $(if $(wildcard $(VENV)/bin/python),'$(CURDIR)/$(VENV)/bin/python',$(PYTHON))
SETUP := $(VENV)/.set-up

.DEFAULT_GOAL := help
.PHONY: help setup train test check format lint types unit plain bench

help:  ## list these commands
	@sed -nE 's/^([a-z]+):[^#]*## (.*)/make \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r c t; do printf '%-12s %s\n' "$$c" "$$t"; done

setup: $(SETUP)  ## make .venv with everything that training and the tests need

$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "fool-env needs Python 3.10 or newer: make PYTHON=python3.12 ...")'
	test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet -c constraints.txt -e '.[train,studies,dev]'
	touch $@

train: setup  ## train the 6-player agent by self-play (about ten minutes) and compare it with the baseline bots
	$(VENV)/bin/python train/ppo.py --config configs/6p.yaml

test: setup  ## set up, then make check
	$(MAKE) check

check: format lint types unit plain  ## format, lint, types and tests, without set-up

format:  ## is everything formatted? (ruff format . does it)
	$(python) -m ruff format --check .

lint:  ## ruff's rules (ruff check --fix . mends some)
	$(python) -m ruff check .

# The checkout's fool_env/ lacks agents, train and configs, and mypy would be content after a few files. So it sees the
# package as installed, through links, and the number of files that it checked must be the number that there are.
types:  ## mypy --strict over the whole package
	rm -rf build/typed && mkdir -p build/typed/fool_env
	cd build/typed/fool_env && ln -s ../../../fool_env/* ../../../agents ../../../train ../../../configs .
	cd build/typed && $(python) -m mypy --config-file ../../pyproject.toml --cache-dir ../../.mypy_cache -p fool_env > report || (cat report; exit 1)
	cat build/typed/report
	grep -q " in $$(ls fool_env/*.py fool_env/*/*.py agents/*.py agents/*/*.py train/*.py configs/*.py | wc -l) source files" build/typed/report

unit:  ## the tests
	$(python) -m pytest

plain:  ## the tests of the rules once more, as plain Python without numba
	NUMBA_DISABLE_JIT=1 $(python) -m pytest tests/test_rules*.py tests/test_golden.py tests/test_reference.py

bench:  ## speed of the environment and of training, with machine and versions
	for script in benchmarks/*.py; do $(python) $$script || exit 1; done
