"""The server's command: starts the workers, serves, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from layers.models.config.counts import check_settings
from layers.models.errors import ModelConfigError
from layers.serving.options import DEFAULT_LOADER, OptionError, Options, parse
from layers.serving.tokenizing.chat_template import ChatTemplate, ChatTemplateError
from layers.serving.tokenizing.files import TokenizerError, read_tokenizer
from layers.serving.workers.endpoints import Endpoints
from layers.serving.workers.process import Worker, hold_signals
from layers.serving.workers.supervisor import end_all, start_all

USER_ERROR = 2
# A socket's path has 107 bytes at most: the longest name in the folder, and some to spare.
_MOST_PATH = 107 - len("/detokenizer-9999")


def main(arguments: Sequence[str]) -> int:
    """Runs the server to its end.

    Returns:
        0 if it was told to end, 1 if a worker died, 2 for what the user can mend.
    """
    # Till the server can answer them: workers that nobody waits for would be left else.
    hold_signals()
    # Its threads would be in the way of forking, and workers are what shares out the work here.
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    try:
        options = parse(arguments)
        # What keeps a loader busy for ever is said before there is one; it says all else itself.
        if options.loader == DEFAULT_LOADER:
            check_settings(options.model)
        files = read_tokenizer(options.model)
        # Workers make their own; one that cannot be made is said here, where the user is told.
        ChatTemplate(files.chat_template, files.special_tokens)
    except (ChatTemplateError, ModelConfigError, OptionError, TokenizerError) as error:
        return _complain(error)
    folder = _scratch()
    try:
        endpoints = Endpoints(folder)
        workers = start_all(options, endpoints, files)
        return _serve(options, endpoints, workers)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _serve(options: Options, endpoints: Endpoints, workers: list[Worker]) -> int:
    # Only now: the workers were forked without all this.
    import asyncio

    from layers.serving.api.server import HttpServer, StartError

    async def run() -> int:
        server = HttpServer(options, endpoints, workers)
        is_broken = True
        try:
            await server.run()
            is_broken = server.exit_code != 0
        finally:
            end_all(workers, at_once=is_broken)
            server.close()
        return server.exit_code

    try:
        return asyncio.run(run())
    except (StartError, OptionError) as error:
        return _complain(error)
    finally:
        end_all(workers, at_once=True)


def _complain(error: Exception) -> int:
    print(f"layers.serving: {error}", file=sys.stderr, flush=True)
    return USER_ERROR


def _scratch() -> Path:
    folder = tempfile.mkdtemp(prefix="serving-")
    if len(folder.encode()) > _MOST_PATH:
        Path(folder).rmdir()
        folder = tempfile.mkdtemp(prefix="serving-", dir="/tmp")
    return Path(folder)
