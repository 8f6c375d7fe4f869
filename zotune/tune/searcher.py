"""``ZotuneSearch``: zotune's search over the parameters of any trainable, as a Tune searcher."""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ray.tune.search import Searcher
from ray.tune.search.variant_generator import parse_spec_vars
from safetensors import safe_open

from zotune.core.tensors import write_tensors
from zotune.errors import CheckpointError, ConfigError
from zotune.runs.minimizer import Minimizer
from zotune.runs.parameters import Parameter
from zotune.runs.run import Run
from zotune.tune.domains import SPACE, nested, parameters_of, start_at

logger = logging.getLogger("zotune")

REJECTED = math.inf


class ZotuneSearch(Searcher):
    """Search over continuous parameters of any trainable by zotune's own methods.

    Its trials are the points of ``Minimizer(start, budget=…, bounds=…, **settings)``, bit for bit,
    where a coordinate is the parameter itself or, of a ``loguniform``, its logarithm. Points of a
    batch run in parallel; a trial that fails rejects its point. A trial that a scheduler stops
    before others have ended also rejects its point, as values at different fidelities cannot be
    compared: ASHA saves little here. Rounded parameters (``randint``, ``quniform``, …) are searched
    as continuous ones and rounded in the trial, so that small differences vanish along them.

    Args:
        space: the parameters, a (nested) dict of Tune's domains; default: the Tuner's param_space.
        metric: the key of the result to search by; default: that of ``tune.TuneConfig``.
        mode: "min" or "max"; default: that of ``tune.TuneConfig``.
        budget: the number of trials; default: ``num_samples`` of ``tune.TuneConfig``.
        start: the parameters of the first trial, a dict like the space; default: the middle of each
            domain.
        settings: as for ``Minimizer``; without any, the method is chosen automatically.

    >>> import zotune
    >>> from ray import tune
    >>> search = zotune.ZotuneSearch({"x": tune.uniform(-2, 4)}, metric="y", mode="min", budget=20)
    >>> for name in map(str, range(20)):
    ...     x = search.suggest(name)["x"]
    ...     search.on_trial_complete(name, {"y": (x - 3) ** 2})
    >>> abs(search.best_config["x"] - 3) < 1e-3, search.suggest("one more")
    (True, 'FINISHED')
    """

    def __init__(
        self,
        space: Mapping[str, Any] | None = None,
        *,
        metric: str | None = None,
        mode: str | None = None,
        budget: int | None = None,
        start: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        _require_one_metric(metric, mode)
        if "bounds" in settings:
            raise ConfigError("ZotuneSearch takes no bounds: they are those of the space's domains")
        super().__init__(metric=metric, mode=mode)
        self._budget, self._start, self._settings = budget, start, settings
        self._parameters: dict[tuple[str, ...], Parameter] = {}
        self._minimizer: Minimizer | None = None
        self._running: dict[str, int] = {}
        """The point of each trial that has no value yet, by the trial's id."""
        self._ended: set[str] = set()
        """Running trials that have said of themselves that they are done."""
        self._longest = 0
        """The most training iterations that a trial has had."""
        self._criteria: dict[str, float] = {}
        self._warned: set[str] = set()
        self._constants: dict[tuple[str, ...], Any] = {}
        """Values of the searcher's own space that are not searched."""
        self._no_start = ""
        """Why the search cannot begin."""
        self._in_tuner = self._limited = False
        self._has_own_space = space is not None
        if space is not None:
            if budget is None:
                raise ConfigError("ZotuneSearch with a space of its own needs a budget, of trials")
            self._constants = dict(parse_spec_vars(dict(space))[0])
            self._begin(space, budget)

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: dict[str, Any], **spec: Any
    ) -> bool:
        """Take metric, mode, space and number of samples from the Tuner."""
        _require_one_metric(metric, mode)
        self._metric, self._mode = metric or self._metric, mode or self._mode
        stop = spec.get("stop")
        self._criteria = dict(stop) if isinstance(stop, Mapping) else {}
        self._in_tuner = True
        if self._has_own_space:
            return False
        samples = self._budget if self._budget is not None else spec.get("num_samples", 1)
        if samples < 1:
            raise ConfigError(
                f"ZotuneSearch needs a number of trials, got num_samples={samples}; give "
                "num_samples to tune.TuneConfig, or budget to ZotuneSearch"
            )
        self._begin(config, samples)
        return True

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        """Note that Tune limits the concurrent trials; it then keeps that many pending."""
        self._limited = True
        return False

    def _begin(self, space: Mapping[str, Any], budget: int) -> None:
        """Begin the search, unless a restored one goes on."""
        before, self._parameters = self._parameters, parameters_of(space)
        if before and before != self._parameters:
            raise ConfigError(
                f"the restored search is over {', '.join(p.name for p in before.values())} with "
                "other bounds, steps or names; give the same space, or a new ZotuneSearch"
            )
        rounded = [each.name for each in self._parameters.values() if each.step is not None]
        if rounded:
            self._warn(
                "rounded",
                f"{', '.join(rounded)}: rounded to its steps in each trial; the search is over "
                "continuous values, and differences smaller than a step are not seen",
            )
        parameters = list(self._parameters.values())
        start = start_at(parameters, self._start)
        if self._minimizer is not None:
            return
        bounds = [c.low for c in parameters], [c.high for c in parameters]
        self._minimizer = Minimizer(start, budget=budget, bounds=bounds, **self._settings)

    def suggest(self, trial_id: str) -> Any:
        """The parameters of the next trial; None while a batch is out, FINISHED at the end."""
        minimizer = self._begun
        if self._no_start:
            raise ConfigError(self._no_start)
        if minimizer.done:
            return Searcher.FINISHED
        batch, taken = minimizer.ask(), set(self._running.values())
        free = [(i, x) for i, x in zip(batch.ids, batch, strict=True) if i not in taken]
        if len(batch) > 1 and self._starts_one_at_a_time:
            self._warn(
                "parallel",
                f"Tune starts one trial after the other, though {len(batch)} points can be "
                "evaluated in parallel; give max_concurrent_trials to tune.TuneConfig",
            )
        if not free:
            return None
        self._running[trial_id], x = free[0]
        return self._config(x)

    def on_trial_result(self, trial_id: str, result: dict[str, Any]) -> None:
        """Note which trials end by themselves, and how long trials are."""
        if result.get("done"):
            self._ended.add(trial_id)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        """Tell the value of a trial; a failed or stopped one rejects its point."""
        point = self._running.pop(trial_id, None)
        if point is None:  # of a later time than the state that was restored
            point = self._point_of(result or {})
        ended, whole = trial_id in self._ended, self._is_whole(trial_id, result or {})
        self._ended.discard(trial_id)
        if point is None:
            return
        failed = error or not result
        if not failed and not (ended or whole):
            self._warn(
                "stopped",
                f"trial {trial_id} was stopped before others had ended, and its point is rejected: "
                "values after fewer iterations cannot be compared; run without such a scheduler",
            )
        usable = not failed and (ended or whole)
        value = self._value(result or {}) if usable else REJECTED
        if point == 0 and not math.isfinite(value):
            self._no_start = (
                f"the first trial, {trial_id}, must have a finite {self._metric}, got "
                f"{'a failure' if failed else value}; repair it, or give start to ZotuneSearch"
            )
            return
        self._begun.tell([value], [point])

    def add_evaluated_point(
        self,
        parameters: dict[str, Any],
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Raise an error: the search cannot take values that it has not asked for."""
        raise ConfigError(
            "ZotuneSearch takes no points that it has not suggested; give the best of them as start"
        )

    def save(self, checkpoint_path: str) -> None:
        """Write the state to a file, atomically: the values told, and the points that are out."""
        if self._minimizer is None:
            return
        header, tensors = self._minimizer._values_told()
        notes = {
            "running": self._running,
            "longest": self._longest,
            "criteria": self._criteria,
            "parameters": [[path, asdict(c)] for path, c in self._parameters.items()],
            "metric": self._metric,
            "mode": self._mode,
        }
        about = {"zotune.minimizer": json.dumps(header), "zotune.search": json.dumps(notes)}
        write_tensors(Path(checkpoint_path), tensors, about)

    def restore(self, checkpoint_path: str) -> None:
        """Continue from a file written by ``save``."""
        minimizer = Minimizer.load(checkpoint_path)
        with safe_open(checkpoint_path, framework="pt") as file:
            told = (file.metadata() or {}).get("zotune.search")
        if told is None:
            raise CheckpointError(
                f"{checkpoint_path} is a Minimizer's; restore needs a file that a ZotuneSearch "
                "has saved"
            )
        notes = json.loads(told)
        self._minimizer, self._running = minimizer, notes["running"]
        self._longest, self._criteria = notes["longest"], notes["criteria"]
        self._metric = self._metric or notes["metric"]
        self._mode = self._mode or notes["mode"]
        self._parameters = {tuple(path): Parameter(**c) for path, c in notes["parameters"]}

    def restore_from_dir(self, checkpoint_dir: str) -> None:
        """Continue from an experiment's folder; points of trials that it does not list are free."""
        super().restore_from_dir(checkpoint_dir)
        unfinished = _unfinished_trials(Path(checkpoint_dir))
        if unfinished is not None:
            self._running = {t: i for t, i in self._running.items() if t in unfinished}

    @property
    def run(self) -> Run:
        """The run so far; its points are in the search's own coordinates, see ``best_config``."""
        return self._begun.result

    @property
    def best_config(self) -> dict[str, Any]:
        """The parameters at the best point; if the values are noisy, not those of the lowest."""
        return self._config(self.run.best_x.tolist())

    @property
    def _begun(self) -> Minimizer:
        if self._minimizer is None or not self._parameters:
            raise ConfigError(SPACE)
        if not self._metric or not self._mode:
            raise ConfigError(
                f"ZotuneSearch needs metric and mode, got metric={self._metric!r} and "
                f"mode={self._mode!r}; give them to tune.TuneConfig, or to ZotuneSearch"
            )
        return self._minimizer

    @property
    def _starts_one_at_a_time(self) -> bool:
        """Whether Tune keeps a single pending trial."""
        return self._in_tuner and not (self._limited or "TUNE_MAX_PENDING_TRIALS_PG" in os.environ)

    def _config(self, x: Any) -> dict[str, Any]:
        """The parameters of a point."""
        told = zip(self._parameters.items(), x, strict=True)
        return nested(self._constants | {path: c.value(float(z)) for (path, c), z in told})

    def _value(self, result: Mapping[str, Any]) -> float:
        """The value to minimise; NaN if the result has none."""
        try:
            value = float(result[str(self._metric)])
        except (KeyError, TypeError, ValueError):
            return math.nan
        return -value if self._mode == "max" else value

    def _is_whole(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        """Whether a trial has met Tune's criteria, or is as long as any other so far."""
        length = int(result.get("training_iteration", 0))
        self._longest = max(self._longest, length)
        met = [result[key] >= most for key, most in self._criteria.items() if key in result]
        return any(met) or length >= self._longest

    def _point_of(self, result: Mapping[str, Any]) -> int | None:
        """A point without a trial that has the parameters of a result."""
        minimizer = self._begun
        if minimizer.done:
            return None
        batch, taken = minimizer.ask(), set(self._running.values())
        for i, x in zip(batch.ids, batch, strict=True):
            told = {
                f"config/{c.name}": c.value(float(z))
                for c, z in zip(self._parameters.values(), x, strict=True)
            }
            if i not in taken and all(result.get(key) == told[key] for key in told):
                return i
        return None

    def _warn(self, kind: str, message: str) -> None:
        """Log a warning of each kind once."""
        if kind not in self._warned:
            self._warned.add(kind)
            logger.warning(message)


def _require_one_metric(metric: Any, mode: Any) -> None:
    if isinstance(metric, list | tuple) or mode not in (None, "min", "max"):
        raise ConfigError(
            f"ZotuneSearch needs one metric and mode 'min' or 'max', got metric={metric!r} and "
            f"mode={mode!r}; combine several metrics into one"
        )


def _unfinished_trials(folder: Path) -> set[str] | None:
    """Ids of the trials that Tune will continue, from its newest snapshot; None without one."""
    newest = max(folder.glob("experiment_state-*.json"), default=None)
    if newest is None:
        return None
    trials = [json.loads(told) for told, _ in json.loads(newest.read_text())["trial_data"]]
    return {t["trial_id"] for t in trials if t["status"] not in ("TERMINATED", "ERROR")}
