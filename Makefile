# Two commands do everything on a machine that has Python 3.11 and make:
#   make study   set up, run the headline study with Ray Tune, show its result and its figure
#   make test    set up, lint, check types, run the tests
# and three more, for minutes:
#   make slow    whole studies, kills and servers: what CI runs beyond make test
#   make faults  curves in MLflow while servers, drivers and deliverers die
#   make long    clusters, a thousand trials, ends at any moment, models trained and exported
# and for the documentation:
#   make docs      the site, into build/site
#   make docs-test its snippets, notebooks and pages are tried; minutes
# and for who changes or releases it:
#   make pages   write the tables and help in docs again, which are generated
#   make names   record public names and signatures after a change that was meant
#   make gpu     conformance and language models on CUDA; skips, with the reason, without it
#   make wheel   a wheel of what is committed, in dist
#   make release is the version ready? its notes and a wheel; with TAG=yes also the tests, then the tag
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TWO := -n 2 --dist loadgroup --no-loadscope-reorder

# Tests start dozens of processes that import the package, each a fifth slower without bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: study test slow faults long lint types unit docs docs-test gallery pages names gpu wheel release clean

# The study strongly-convex at a fifth of its size: under two minutes on two cores.
study: $(READY)
	$(BIN)/zotune run strongly-convex --set problem.dim=200 --set budget=4000 \
		--set 'space.q=[1,10,50,200]' --set difference=central

test: lint types unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# Two workers, each with a Ray of its own; what shares a server or a browser goes to one of them, see
# conftest.py, which also puts what takes long first. This stays well under ten minutes on two cores:
# a test of many seconds whose claim has a quicker one beside it is marked slow.
unit: $(READY)
	$(BIN)/python -m pytest $(TWO) --durations=10

# Whole studies, kills and servers, each of which takes long: CI runs them, too.
slow: $(READY)
	$(BIN)/python -m pytest $(TWO) --durations=10 -m slow

# Curves in MLflow while servers, drivers and deliverers die: minutes, and so apart.
faults: $(READY)
	$(BIN)/python -m pytest -m faults

# Clusters, a thousand trials, ends at any moment, models trained and exported: minutes, and so apart.
long: $(READY)
	$(BIN)/python -m pytest -m long

# Strict: a broken link or a page outside of the navigation is an error. No other host is asked.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-test: $(VENV)/.docs
	$(BIN)/python -m pytest -m docs tests/docs tests/test_gallery.py
	$(BIN)/python -m pytest docs --ignore=docs/gallery

# Runs every example of the gallery, which draws its picture again, and writes the notebooks.
gallery: $(VENV)/.docs
	cd docs/gallery && for script in *.py; do ../../$(BIN)/python $$script || exit 1; done
	$(BIN)/python tools/gallery.py build/notebooks

$(VENV)/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	touch $@

pages: $(READY)
	$(BIN)/python tools/generated.py

names: $(READY)
	$(BIN)/python -m tests.public_names

gpu: $(READY)
	$(BIN)/python -m pytest --device cuda tests/conformance tests/language tests/weights

# Of what is committed, in dist.
wheel: $(READY)
	$(BIN)/python tools/release.py --wheel

# A dry run unless TAG=yes; INDEX=yes if it will be on a package index, from which the documents then
# install. Nothing is pushed or uploaded.
release: $(READY) $(if $(filter yes,$(TAG)),test slow long)
	$(BIN)/python tools/release.py $(if $(filter yes,$(TAG)),--tag) $(if $(filter yes,$(INDEX)),--index)

# On a machine without a GPU, a CPU build of torch spares gigabytes: install it into .venv first, or
# point pip at one (PIP_FIND_LINKS, PIP_EXTRA_INDEX_URL); the constraints name its version.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "zotune needs Python 3.11 or newer, found " + sys.version.split()[0] + "; set PYTHON=…")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[test]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
