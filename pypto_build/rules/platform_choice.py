"""Decides what ``PLATFORM=a2a3`` and ``a5`` mean on this machine: hardware, or a simulation on its CPU.

A machine with neither a toolkit nor a device has no hardware to run on, so the run uses its CPU. The first line and the
verdict say so. With ``HARDWARE=1``, ``DEVICE=`` or a sign of hardware, a missing toolkit is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from pypto_build import terminal
from pypto_build.facts.options import OPTIONS
from pypto_build.facts.platforms import PLATFORMS
from pypto_build.facts.run_options import TORCH
from pypto_build.facts.verbs import VERBS, Needs
from pypto_build.rules.options import OptionError, Options
from pypto_build.toolchain.devices import sign_of_hardware

# Targets that run nothing: PLATFORM= says what they read or write for.
_READ_ONLY = frozenset({"compile", "pto_diff", "fetch", "gc", "help", "scene_test", "install"}) | {
    verb.name for verb in VERBS.values() if verb.needs in (Needs.FILES, Needs.ARTIFACT)
}
# Targets that run kernels here on every platform, or translate them.
_RUNS_KERNELS = (Needs.BINARIES, Needs.CHECKED, Needs.TRACED, Needs.DEBUGGED)
_ON_THE_CPU = frozenset({"torch"}) | {verb.name for verb in VERBS.values() if verb.needs in _RUNS_KERNELS}


def choose_platform(
    options: Options, arguments: Mapping[str, str], targets: Collection[str], nothing_is_run: bool
) -> Options:
    """Return the options with the chosen platform, and print it if it differs from the requested one.

    Raises:
        OptionError: hardware is insisted on, on a platform that has none.
    """
    platform, running = options["PLATFORM"], set(targets) - _READ_ONLY
    if PLATFORMS[platform].simulated:
        if options["HARDWARE"]:
            raise OptionError(
                f"HARDWARE=1: PLATFORM={platform} is a simulated platform; use PLATFORM=a2a3 or a5, "
                "or leave out PLATFORM="
            )
        return options
    reason = _why_here(options, arguments, running, nothing_is_run) if running else ""
    if not reason:
        return options
    terminal.say(f"[RUN] PLATFORM={platform}: {reason}; on the CPU, as {platform}sim")
    default = {name: OPTIONS[name].default for name in ("HARDWARE", "DEVICE")}
    return replace(options, values={**options.values, **default, "PLATFORM": f"{platform}sim"}, requested=platform)


def _why_here(options: Options, arguments: Mapping[str, str], running: Collection[str], nothing_is_run: bool) -> str:
    """Return why the command runs on this machine's CPU; empty if it runs on hardware."""
    if set(running) <= _ON_THE_CPU:
        return "its kernels run here"
    if options["RUNTIME"] == TORCH:
        return "PyTorch runs here"
    insisted = options["HARDWARE"] or arguments.get("DEVICE")
    if not insisted and not sign_of_hardware():
        return "no toolkit and no device here"
    return "with -n nothing is run" if nothing_is_run else ""
