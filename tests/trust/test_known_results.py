"""Results that count as known: after a failure of the same, an edit and back, in another workspace."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.trust.judged import HEADER, RIGHT, SCALED, WRONG, fails, passes
from tests.trust.space import BUILD, USAGE, Space

FLAKY = """#include <sys/stat.h>
static bool bad(const char* path) {
    struct stat now;
    return stat(path, &now) == 0 && now.st_mtime == 0;
}"""
ASKING = "#include <unistd.h>\nstatic bool bad(const char* path) { return access(path, F_OK) == 0; }"


def test_a_pass_counts_no_more_once_the_same_has_failed(chain: Space, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    chain.kernel("twice", f'(bad("{file}") ? 3.0f : 2.0f) * in[i]', FLAKY)
    passes(chain)
    os.utime(file, (0, 0))
    assert passes(chain).cached
    fails(chain, "FORCE=1")
    fails(chain)
    fails(chain.fresh(chain.root.with_name("other"), chain.cache))
    file.touch()
    replayed = passes(chain)
    assert not replayed.cached, replayed.done


def test_a_pass_counts_no_more_in_other_workspaces_once_the_same_has_failed(chain: Space, tmp_path: Path) -> None:
    chain.kernel("twice", f'(bad("{tmp_path}/bad") ? 3.0f : 2.0f) * in[i]', ASKING)
    passes(chain)
    other = chain.fresh(chain.root.with_name("other"), chain.cache)
    passes(other)
    (tmp_path / "bad").touch()
    fails(chain, "FORCE=1")
    fails(other)
    fails(chain.fresh(chain.root.with_name("third"), chain.cache))


def test_edit_and_back_does_nothing(chain: Space) -> None:
    passes(chain)
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
    chain.kernel("twice", "2.0f * in[i]")
    replayed = passes(chain)
    assert (replayed.work, replayed.cached) == ([], True), replayed.done


def test_edited_header_and_back_does_nothing(chain: Space) -> None:
    chain.kernel("twice", SCALED, '#define NAME "scale.h"\n#include NAME')
    chain.write_in(HEADER, RIGHT)
    passes(chain)
    chain.write_in(HEADER, WRONG)
    fails(chain)
    chain.write_in(HEADER, RIGHT)
    replayed = passes(chain)
    assert (replayed.work, replayed.cached) == ([], True), replayed.done


def test_edited_golden_and_back_does_nothing(chain: Space) -> None:
    passes(chain)
    chain.tensor("out/y.pt", [0.0] * 16)
    fails(chain)
    chain.tensor("out/y.pt", [2.0 * i + 1.0 for i in range(16)])
    replayed = passes(chain)
    assert (replayed.work, replayed.cached) == ([], True), replayed.done


def test_edited_module_and_back_does_nothing(module: Space) -> None:
    passes(module)
    module.edit("ptoas/add.pto", "pto.tadd", "pto.tsub")
    fails(module)
    module.edit("ptoas/add.pto", "pto.tsub", "pto.tadd")
    replayed = passes(module)
    assert (replayed.work, replayed.cached) == ([], True), replayed.done
    module.edit("ptoas/add.pto", "pto.tadd", "pto.tsub")
    replayed = fails(module)
    assert [line for line in replayed.work if "compile" in line or "link" in line] == [], replayed.done


def test_second_workspace_with_the_same_content_does_nothing(chain: Space) -> None:
    passes(chain)
    second = chain.fresh(chain.root.with_name("second"), chain.cache)
    replayed = passes(second)
    assert (replayed.work, replayed.cached) == ([], True), replayed.done
    second.kernel("twice", "3.0f * in[i]")
    fails(second)
    assert passes(chain).cached


def test_the_signed_manifest_leads_to_the_artifact_wherever_that_lies(chain: Space) -> None:
    passes(chain)
    moved = chain.root.parent / "moved" / chain.name
    shutil.copytree(chain.artifact, moved)
    shutil.rmtree(chain.artifact)
    done = chain.scons("replay", f"JIT={moved}")
    assert done.status == 0 and "(cached)" in done.output, done  # only the manifest tells where the artifact lies
    signing = [line for line in done.output.splitlines() if line.startswith("[manifest]")]
    assert signing == ["[manifest] sign kernel_config.py  (where its files lie changed)"], done
    reads = f"described_root(Path({str(chain.out)!r}, 'kernel_config.py'))"
    code = f"from pathlib import Path; from pypto_build.artifact.manifest import described_root; print({reads})"
    assert chain.tested.ask(code) == str(moved)


def test_second_workspace_without_the_store_does_everything(chain: Space) -> None:
    passes(chain)
    second = chain.fresh(chain.root.with_name("second"))
    assert len(passes(second).actions("[cpp->.so] compile", "[replay] run")) == 4


def test_build_directory_removed_does_nothing(chain: Space) -> None:
    passes(chain)
    shutil.rmtree(chain.root / "build")
    replayed = passes(chain)
    assert (replayed.work, replayed.cached) == ([], True), replayed.done
    assert (chain.out / "actual" / "y.pt").exists()


def test_store_removed_is_no_loss(chain: Space) -> None:
    passes(chain)
    shutil.rmtree(chain.cache / "store", ignore_errors=True)
    passes(chain)
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)


def test_store_that_is_cleaned(chain: Space) -> None:
    passes(chain)
    done = chain.scons("gc", "STORE_SIZE=0")
    assert done.status == 0, done
    passes(chain)
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
    assert chain.scons("gc").status == 0
    fails(chain)


def test_shared_store_that_is_cleaned(chain: Space, tmp_path: Path) -> None:
    remote = tmp_path / "remote"
    remote.mkdir()
    shared = f"STORE_REMOTE={remote}"
    passes(chain, shared, "STORE_UPLOAD=wait")
    files = list(remote.glob("*/*/*"))
    unused = files[::2]
    for path in unused:
        os.utime(path, (1e9, 1e9))
    done = chain.scons("gc", shared, "DAYS=30")
    assert done.status == 0 and f"[store] {len(unused)} files, " in done.output, done
    assert all(path.exists() for path in files)
    done = chain.scons("gc", shared, "DAYS=30", "WRITE=1")
    assert done.status == 0 and f"[store] removed {len(unused)} files, " in done.output, done
    assert [path for path in files if path.exists()] == files[1::2]
    shutil.rmtree(chain.cache / "store")
    passes(chain, shared)
    assert chain.scons("gc", "STORE_REMOTE=http://127.0.0.1:1/x").status == 2


def test_exit_status_of_what_cannot_be_built(chain: Space) -> None:
    passes(chain)
    chain.kernel("twice", "nothing * in[i]")
    for _ in range(2):
        assert chain.replay().outcome.exit == BUILD
    chain.kernel("twice", "3.0f * in[i]")
    fails(chain)
    assert chain.run("replay", "RTOL=much").status == USAGE
