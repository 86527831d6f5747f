"""Which options `bazel test` needs so that tests that are named one by one run in their pool."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tools.plumb.pools import CPU

# They hold for named targets too: those of a pool leave out tests of several GPUs.
_NO_FILTERS = ("--build_tag_filters=", "--test_tag_filters=")


def test_options(
    pool: str,
    gpus: int,
    configs: Collection[str],
    named: Sequence[str] | None = None,
    *,
    rare: bool = False,
) -> list[str]:
    """Options for tests of one pool.

    gpus: how many GPUs Bazel may hand out at a time; 0 for none. configs, named: see `configs_of`.
    rare: some of the tests do not run on each commit.
    """
    chosen = [f"--config={config}" for config in configs_of(pool, configs, named)]
    if pool == CPU:
        # What .bazelrc leaves out of each commit's run is named here.
        return [*chosen, *_NO_FILTERS] if rare else chosen
    cards = [f"--local_resources=gpu={gpus}"] if gpus else []
    return [*chosen, *_NO_FILTERS, *cards]


def configs_of(pool: str, configs: Collection[str], named: Sequence[str] | None) -> list[str]:
    """Configs that tests of `pool` run under: its own if .bazelrc has one, or those named.

    configs: those that .bazelrc defines. named: by the user; None if nothing is.
    """
    own = [] if pool == CPU or pool not in configs else [pool]
    return own if named is None else list(named)
