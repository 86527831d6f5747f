"""Every kind of change, by name."""

from __future__ import annotations

from tools.plumb.truth.edits import build_files, files, packages, registry, starlark, steering

# Each registers its kinds when it is loaded.
SOURCES = (build_files, files, packages, starlark, steering)
KINDS, DEMANDED, BEYOND_THE_GRAPH = registry.KINDS, registry.DEMANDED, registry.BEYOND_THE_GRAPH
