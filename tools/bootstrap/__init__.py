"""Builds a private Bazel from Debian's packages, for machines that cannot reach Bazel's site."""
