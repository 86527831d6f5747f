import hashlib
from pathlib import Path

import pytest

from tools.pip import lock

A, B, C = (f"sha256:{character * 64}" for character in "abc")
RESOLVED = f"""\
ml-dtypes==0.6.0 ; sys_platform == 'linux' \\
    --hash={B} \\
    --hash={A}
    # via -r requirements.in
torch==2.13.0 ; sys_platform == 'linux' \\
    --hash={A}
    # via
    #   -r requirements.in
    #   sglang-kernel
"""


def pins(text: str) -> dict[tuple[str, str], list[str]]:
    return lock.parse(text)


def test_markers_go_and_the_reasons_stay() -> None:
    text, names = lock.render(RESOLVED, [])

    assert names == ["ml-dtypes", "torch"]
    assert "ml-dtypes==0.6.0 \\\n" in text
    assert "sys_platform" not in text
    assert "    #   sglang-kernel\n" in text


def test_extras_stay_since_a_wheels_needs_follow_from_them() -> None:
    resolved = (
        f"cuda-toolkit[cublas, cudart]==13.0.3 ; sys_platform == 'linux' \\\n    --hash={A}\n"
    )

    text, names = lock.render(resolved, [])

    assert names == ["cuda-toolkit"]
    assert "cuda-toolkit[cublas,cudart]==13.0.3 \\\n" in text
    assert pins(text)["cuda-toolkit", "13.0.3"] == [A]


def test_a_line_that_is_no_pin_is_refused_rather_than_lost() -> None:
    with pytest.raises(lock.LockError, match="a line that is no pin"):
        lock.render("torch @ file:///torch.whl\n", [])


def test_hashes_are_sorted_so_that_an_index_cannot_reorder_the_lock() -> None:
    text, _ = lock.render(RESOLVED, [])

    assert pins(text)["ml-dtypes", "0.6.0"] == [A, B]


def test_a_build_on_disk_of_the_locked_version_is_allowed() -> None:
    text, _ = lock.render(RESOLVED, [("torch", "2.13.0", C), ("torch", "2.12.0", B)])

    assert pins(text)["torch", "2.13.0"] == [A, C]


def test_a_hash_seen_only_by_another_machine_survives_a_relock_of_the_same_version() -> None:
    previous = f"torch==2.13.0 \\\n    --hash={C}\nml-dtypes==0.5.0 \\\n    --hash={C}\n"

    text, _ = lock.render(RESOLVED, [], previous)

    assert pins(text)["torch", "2.13.0"] == [A, C]
    assert pins(text)["ml-dtypes", "0.6.0"] == [A, B]


def test_two_versions_of_one_package_are_refused_by_name() -> None:
    forked = RESOLVED + f"torch==2.12.0 ; python_full_version < '3.12' \\\n    --hash={B}\n"

    with pytest.raises(lock.LockError, match=r"torch: resolved to more than one version"):
        lock.render(forked, [])


def test_a_wheel_on_disk_is_read_by_name_version_and_content(tmp_path: Path) -> None:
    wheel = tmp_path / "ml_dtypes-0.6.0+cpu-cp311-cp311-linux_x86_64.whl"
    wheel.write_bytes(b"wheel")

    found = list(lock.wheels_on_disk([tmp_path]))

    assert found == [("ml-dtypes", "0.6.0", "sha256:" + hashlib.sha256(b"wheel").hexdigest())]


@pytest.mark.parametrize(
    ("upgrade", "folders", "complaint"),
    [
        (["torhc"], [], "'torhc' is not in the lock; did you mean torch?"),
        (["zzz"], [], "'zzz' is not in the lock; add it to requirements.in."),
        (["*"], [Path("/nonexistent")], "no folder /nonexistent"),
        (["*"], [Path(__file__)], "--find-links takes folders of wheels"),
    ],
)
def test_a_wrong_argument_is_refused(
    upgrade: list[str], folders: list[Path], complaint: str
) -> None:
    with pytest.raises(lock.LockError) as refused:
        lock.check(upgrade, folders, RESOLVED)

    assert complaint in str(refused.value)


def test_what_is_locked_can_be_upgraded() -> None:
    lock.check(["Torch", "ml_dtypes", "*"], [], RESOLVED)


def test_what_requirements_in_asks_for_gets_a_label() -> None:
    asked = "# a comment\nml-dtypes\ntorch==2.13.0\n\ncuda-python>=13\n"

    assert lock.direct(asked) == ["cuda_python", "ml_dtypes", "torch"]


def test_each_place_sets_each_label() -> None:
    lines = lock.sources_bazelrc(["torch"]).splitlines()

    assert "build:directories --//tools/pip:torch=@pip_torch//:directory" in lines
    assert "build:files --//tools/pip:torch=@pip_torch//:pkg" in lines
    assert "build:image --//tools/pip:torch=//tools/pip:held_by_image" in lines


def test_the_written_files_are_those_of_requirements_in() -> None:
    root = Path(__file__).resolve().parents[2]
    names = lock.direct((root / "requirements.in").read_text())

    assert (root / "tools/pip/packages.bzl").read_text() == lock.packages_bzl(names)
    assert (root / "tools/pip/sources.bazelrc").read_text() == lock.sources_bazelrc(names)
