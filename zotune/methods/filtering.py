"""Implicit filtering: quasi-Newton steps on differences above the noise."""

from __future__ import annotations

from zotune.methods import register
from zotune.methods.parts.comparing import answered, reserved
from zotune.methods.parts.filtering import filtering as descend
from zotune.methods.parts.noise import look_at_noise
from zotune.methods.parts.oracle import Oracle
from zotune.methods.parts.units import in_units
from zotune.methods.start import Stage, Start


@register("filtering", formula="x ← x − α H g, g over distances h = c √(noise/curvature)")
def filtering(start: Start) -> Stage[str]:
    """Quasi-Newton steps with differences as wide as the noise asks for; for mild noise."""
    return (yield from in_units(_filtered, start))


def _filtered(start: Start) -> Stage[str]:
    o, x, rng = Oracle(start), start.x, start.rng()
    o.answer = x, start.value
    noise = yield from look_at_noise(o, x, start.reach, rng)
    o.is_noisy, o.noise = True, max(noise.deviation, o.rounding(start.value))
    end, *_ = yield from descend(o, x, noise.center, start.reach, stop=reserved(o))
    return (yield from answered(o, start, [x, end]))
