"""`scons pack`: artifact, data, options and surroundings of a run in one archive, which `pypto-build replay` takes.

python -m pypto_build.diagnose.pack ARTIFACT_DIR --platform P --build-dir OUT [--output x.tar.zst] [options of the run]
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from pypto_build import __version__
from pypto_build.artifact import Artifact, ArtifactError, load_artifact, snapshot
from pypto_build.artifact.layout import SUB_WORKERS
from pypto_build.artifact.snapshot import REFERENCE, Snapshot
from pypto_build.diagnose.console import command, table, tool_parser
from pypto_build.diagnose.pack.contents import external_files, kind_of, told_as, tree_of
from pypto_build.diagnose.pack.form import EXTERNAL, SUFFIX, Pack
from pypto_build.diagnose.pack.writer import digested, write_pack
from pypto_build.diagnose.recorded.evidence import Evidence
from pypto_build.diagnose.repeat import add_passed_on, given_options
from pypto_build.diagnose.report.surroundings import environment

#: Options that name files of this machine.
_LOCAL = {"DATA", "DEVICE"}
_MAYBE_LOCAL = {"SIMPLER", "PTO_ISA"}
_BUILD_FLAGS = {"ARCH": "--arch", "KERNEL_FLAGS": "--kernel-flags"}


def parser() -> argparse.ArgumentParser:
    """The command line."""
    options = tool_parser("pack", __doc__)
    add = options.add_argument
    add("artifact", type=Path, metavar="ARTIFACT_DIR")
    add("--build-dir", type=Path, required=True, metavar="OUT", help="where it was replayed")
    add("--platform", default="a2a3sim", help="what it was replayed on")
    add("--embedded", help="the runtime's module; not packed, since it is compiled where the archive is replayed")
    add("--output", type=Path, help=f"the archive (default: OUT/<artifact>{SUFFIX})")
    add("--golden", type=Path, metavar="DIR", help="goldens from there, not from the data's out/")
    for name, flag in _BUILD_FLAGS.items():
        add(flag, metavar="VALUE", help=f"what it was built with as {name}=")
    add_passed_on(options)
    return options


def _data(given: argparse.Namespace, artifact: Artifact) -> Snapshot | None:
    """The data of DATA= and the goldens of a test, None for the artifact's own."""
    if given.golden is not None:
        return snapshot(artifact, given.data, given.golden)
    if given.data is None or str(given.data) == REFERENCE:
        return None
    return snapshot(artifact, given.data)


def _options(given: argparse.Namespace) -> dict[str, str]:
    options = dict(one.split("=", 1) for one in given_options(given.words).assignments)
    options |= {name: getattr(given, flag[2:].replace("-", "_")) for name, flag in _BUILD_FLAGS.items()}
    local = _LOCAL | {name for name in _MAYBE_LOCAL if Path(options.get(name, "")).exists()}
    kept = {name: value for name, value in options.items() if value and name not in local}
    return kept | ({"DATA": REFERENCE} if str(given.data) == REFERENCE else {})


def pack_run(
    given: argparse.Namespace,
    artifact: Artifact,
    parts: Mapping[str, Artifact] | None = None,
    more: Mapping[Path, str] = MappingProxyType({}),
) -> int:
    """Write the archive of a run of `artifact`, whose manifests are its own, or those of its `parts`. `more` are
    files that its host callables need besides, by path, with their places in the archive."""
    evidence = Evidence(given.artifact, given.build_dir, given.platform)
    if evidence.verdict is None:
        raise ArtifactError(given.build_dir / "verdict.json", "is missing", "replay the artifact first: scons replay")
    data = _data(given, artifact)
    linked = [part.root for part in (parts or {}).values() if not part.root.is_relative_to(artifact.root)]
    tree = tree_of(artifact, data, linked) | {place: path for path, place in more.items()}
    callables = artifact.root / SUB_WORKERS
    moved = {told: place for path, place in more.items() for told in told_as(path, callables)}
    for place, part in {EXTERNAL: artifact}.items() if parts is None else parts.items():
        others, paths = external_files(part, place)
        tree |= others
        moved |= paths
    rows = environment(evidence, given.data if data and given.data else None)
    pack = Pack(
        artifact=artifact.name,
        platform=given.platform,
        options=_options(given),
        files=digested(tree),
        status=evidence.verdict.status,
        own_data=data is None,
        external=moved,
        environment=tuple((name, value) for name, value in rows if not name.startswith("sha256")),
        version=__version__,
    )
    path = given.output or given.build_dir / f"{artifact.name}{SUFFIX}"
    size = write_pack(path, pack, tree)
    print("\n".join(_sizes(pack)))
    print(f"[pack] {path}  ({_amount(size)} for {_amount(pack.size)}; verdict {pack.status})")
    print(f"[pack] elsewhere: pypto-build replay {shlex.quote(path.name)}")
    return 0


def _sizes(pack: Pack) -> list[str]:
    """Files and bytes by kind, and what is stored once for several."""
    kinds: dict[str, list[int]] = {}
    for file in pack.files:
        kinds.setdefault(kind_of(file.path), []).append(file.size)
    rows = [[kind, str(len(sizes)), _amount(sum(sizes))] for kind, sizes in sorted(kinds.items())]
    saved = pack.size - sum(pack.objects.values())
    more = [f"{_amount(saved)} of it are equal files, stored once"] if saved else []
    return [*table(rows, ["", "files", "size"]), *more]


def _amount(size: int) -> str:
    for bits, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if size >> bits:
            return f"{size / (1 << bits):.1f} {unit}"
    return f"{size} B"


@command("pack", parser)
def main(given: argparse.Namespace) -> int:
    """Write the archive; 0, or 2 where there is nothing to pack."""
    return pack_run(given, load_artifact(given.artifact))


if __name__ == "__main__":
    sys.exit(main())
