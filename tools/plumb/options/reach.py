"""What an option of Bazel can change: nothing that a test's result depends on, rules of some
languages, or every test.

By name, from Bazel's own description of its options. One that is not named here reaches all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# How Bazel prints, waits, caches, fetches, schedules and picks targets: no action is another.
_IDLE = re.compile(
    r"test_output|test_summary|test_(?:tag|lang|size|timeout)_filters|test_verbose_timeout_warnings"
    r"|build_tag_filters|build_tests_only|build_manual_tests|test_keep_going|keep_going"
    r"|print_relative_test_log_paths|max_test_output_bytes|check_tests_up_to_date"
    r"|test_strategy|strategy|spawn_strategy|genrule_strategy|internal_spawn_scheduler|dynamic_.*"
    r"|jobs|local_.*resources|local_test_jobs|local_resources|default_test_resources"
    r"|loading_phase_threads|experimental_.*_(?:threads|executor)|worker_.*|.*sandbox.*"
    r"|color|curses|show_.*|progress_.*|ui_.*|experimental_ui_.*|announce_rc|attempt_to_print.*"
    r"|terminal_columns|verbose_failures|subcommands|explain|verbose_explanations|logging"
    r"|output_filter|auto_output_filter|profile|generate_json_trace_profile|slim_profile"
    r"|build_event_.*|bes_.*|build_metadata|execution_log_.*|experimental_execution_log_.*"
    r"|disk_cache|remote_cache|remote_timeout|remote_upload_local_results|remote_retries"
    r"|remote_max_connections|remote_accept_cached|remote_.*header|google_.*|tls_.*|grpc_.*"
    r"|remote_download_.*|remote_local_fallback|experimental_remote_cache_.*"
    r"|repository_cache|distdir|http_.*|experimental_repository_.*|downloader_config"
    r"|isatty|client_env|default_override|rc_source|invocation_id|tool_tag|watchfs"
    r"|experimental_convenience_symlinks|symlink_prefix|curses|noshow_.*|lockfile_mode"
    r"|config|enable_platform_specific_config"
)
_IDLE_STARTUP = re.compile(
    r"max_idle_secs|idle_server_tasks|batch|shutdown_on_low_sys_mem|connect_timeout_secs"
    r"|local_startup_timeout_secs|client_debug|quiet|server_jvm_out|io_nice_level|preemptible"
    r"|block_for_lock|output_base|output_user_root|install_base|trust_install_base"
    r"|server_javabase|digest_function|failure_detail_out|host_jvm_debug|unlimit_coredumps"
)
_PASSED_TO_JVM = "startup host_jvm_args"
_LANGUAGES = (
    (
        re.compile(r"(?:host_)?(?:c|cxx|conly|link|per_file_c)opt|.*fdo.*|.*lto.*|crosstool_top"),
        "cc_",
    ),
    (re.compile(r"(?:host_)?(?:javacopt|jvmopt|java_.*)|tool_java_.*"), "java_"),
    (re.compile(r"proto_.*|protocopt|.*strict_proto_deps"), "proto_"),
    (re.compile(r"(?:ios|macos|tvos|watchos|apple|objc|swift).*|xcode_.*"), "objc_"),
    (re.compile(r"(?:android|aapt|desugar|dex).*"), "android_"),
)
# Rules that run no compiler: an option for one cannot reach what they do by themselves.
_WITHOUT_COMPILER = re.compile(
    r"(?:sh|py)_(?:test|library|binary)|filegroup|alias|genrule|test_suite|config_setting"
    r"|package_group|exports_files|label_flag|label_setting|bind|constraint_\w+|platform"
)


def without_compiler(rule_class: str) -> bool:
    """True for a rule class that asks for no features of a compiler."""
    return _WITHOUT_COMPILER.fullmatch(rule_class) is not None


def of_every_test(options: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Those of `options`, name to values, that may change any test."""
    telling = {name: _telling(name, values) for name, values in options.items()}
    return {
        name: values
        for name, values in telling.items()
        if values and not is_flag(name) and not _language(name)
    }


def of_languages(options: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Those of `options` that reach rules of some languages only."""
    return {name: values for name, values in options.items() if _language(name)}


def of_rule(options: Mapping[str, tuple[str, ...]], rule_class: str) -> dict[str, tuple[str, ...]]:
    """Those of `options` that reach rules of some languages, and this class among them."""
    if without_compiler(rule_class):
        return {}
    return {
        name: values
        for name, values in options.items()
        if (language := _language(name))
        if rule_class.startswith(language) or not _is_of_another(rule_class, language)
    }


def is_flag(name: str) -> bool:
    """True for an option that sets a flag of the graph, such as //tools:accelerator."""
    return name.startswith(("//", "@"))


def _telling(name: str, values: tuple[str, ...]) -> tuple[str, ...]:
    if name == _PASSED_TO_JVM:
        return tuple(value for value in values if "-D" in value and "javax." not in value)
    if name.startswith("startup "):
        idle = _IDLE_STARTUP.fullmatch(name.removeprefix("startup "))
    else:
        idle = _IDLE.fullmatch(name)
    return () if idle else values


def _language(name: str) -> str:
    return next((prefix for pattern, prefix in _LANGUAGES if pattern.fullmatch(name)), "")


def _is_of_another(rule_class: str, language: str) -> bool:
    # A rule of no known language may use any compiler.
    known = [prefix for _, prefix in _LANGUAGES if prefix != language]
    # Java and Python programs may have a launcher in C++.
    known = [] if language == "cc_" else [*known, "py_"]
    return rule_class.startswith(tuple(known))
