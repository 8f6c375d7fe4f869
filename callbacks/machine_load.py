"""MLflow's system metrics of a launch: CPU, memory, disk, network and GPUs of the driver's machine.

They belong to the machine and not to one trial, so they are kept with the launch's summary run.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from zotune.errors import ConfigError

if TYPE_CHECKING:
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

WANTED = "MLFLOW_ENABLE_SYSTEM_METRICS_LOGGING"
"""MLflow's own switch."""
SECONDS = 5.0
"""Default interval of samples; ``MLFLOW_SYSTEM_METRICS_SAMPLING_INTERVAL`` overrides it."""


def wants_metrics(asked: bool | None) -> bool:
    """Whether to log system metrics: as requested, else by MLflow's environment variable."""
    known = find_spec("psutil") is not None
    if asked and not known:
        raise ConfigError(
            "MLflow's system metrics need psutil, which is not installed; "
            "pip install 'zotune[system-metrics]', or leave them out"
        )
    switched_on = os.environ.get(WANTED, "").lower() in ("1", "true")
    return known and (switched_on if asked is None else asked)


def watch_machine(run_id: str, uri: str) -> SystemMetricsMonitor:
    """Log the machine's metrics to a run, from a thread, until the monitor is told to finish."""
    from mlflow.system_metrics.system_metrics_monitor import SystemMetricsMonitor

    monitor = SystemMetricsMonitor(  # type: ignore[no-untyped-call]
        run_id, sampling_interval=SECONDS, resume_logging=True, tracking_uri=uri
    )
    monitor.start()  # type: ignore[no-untyped-call]
    return monitor


def end_watch(monitor: Any) -> None:
    """Stop logging; ensures that even a short launch has one sample."""
    monitor.finish()
    monitor.collect_metrics()
    monitor.publish_metrics(monitor.aggregate_metrics())
    monitor.mlflow_logger.flush()
