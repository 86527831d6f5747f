"""Runs apt-get against one suite with configuration, lists and caches of its own.

Nothing of the system is written; of the machine's configuration only the `Acquire` options
(proxies, certificates, validity checks) are taken over.
"""

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.bootstrap.closure import Package, dpkg_status, parse_print_uris
from tools.bootstrap.errors import (
    BAZELISK_HINT,
    BootstrapError,
    DamagedPackageError,
    MirrorError,
    NoKeyringError,
    NoSpaceError,
)

KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)
_POLL_SECONDS = 0.2
_REACHING = re.compile(
    r"Acquire::(http|https|ftp|mirror|socks|Proxy|Check-Valid-Until|Check-Date|ForceIPv[46]|"
    r"Max-ValidTime|Min-ValidTime)\b",
    flags=re.IGNORECASE,
)


def find_keyring(candidates: Sequence[Path] = KEYRINGS) -> Path:
    """The machine's keys of Debian's archive.

    Raises:
        NoKeyringError: none of `candidates` is there.
    """
    for path in candidates:
        if path.is_file():
            return path
    raise NoKeyringError(
        f"No keyring to check Debian's signatures with: looked for {candidates[0]}. "
        "Install the package debian-archive-keyring."
    )


def reaching_options(dump: str) -> str:
    """The lines of `apt-config dump` that say how to reach a mirror and how old it may be.

    Whatever else the machine says stays out; above all, what would let unsigned indexes pass.
    """
    return "\n".join(line for line in dump.splitlines() if _REACHING.match(line))


def native_architecture(dump: str) -> str:
    """The machine's architecture, such as `amd64`, from `apt-config dump`."""
    match = re.search(r'^APT::Architecture "(\w+)";', dump, flags=re.MULTILINE)
    return match[1] if match else "amd64"


def explain(output: str, mirror: str) -> BootstrapError:
    """Turns what apt-get printed on failing into the error that tells what to do."""
    complaints = (line for line in output.splitlines() if line.startswith(("E:", "W:", "Err:")))
    reason = (
        "\n  ".join(list(dict.fromkeys(complaints))[:6])
        or output.strip()[-500:]
        or "apt-get said nothing"
    )
    if "No space left" in output or "enough free space" in output:
        return NoSpaceError(f"The cache's file system is full:\n  {reason}")
    if "Hash Sum mismatch" in output or "unexpected size" in output:
        return DamagedPackageError(
            f"{mirror} sent bytes that its signed index does not promise:\n  {reason}\n"
            "A mirror in the middle of an update does this: try again in some minutes."
        )
    if re.search(r"NO_PUBKEY|not signed|Missing key|signatures were invalid", output):
        return NoKeyringError(
            f"The index of {mirror} is not signed by a key of this machine's Debian keyring:\n"
            f"  {reason}\nBring the package debian-archive-keyring up to date."
        )
    if "is expired" in output or "not valid yet" in output:
        return MirrorError(
            f"The index of {mirror} is out of date, or this machine's clock is wrong:\n  {reason}\n"
            "Set the clock; if the mirror is frozen on purpose, say so to apt "
            '(Acquire::Check-Valid-Until "false"; in /etc/apt/apt.conf.d/).'
        )
    if "unmet dependencies" in output or "held broken packages" in output:
        return MirrorError(
            f"The suite's packages do not fit together at the moment:\n{output.strip()[-1500:]}\n"
            f"Debian mends that in a day or two. {BAZELISK_HINT}"
        )
    return MirrorError(
        f"{mirror} cannot be used:\n  {reason}\n"
        "Check the network and the machine's apt sources ('apt-get update'), then try again; "
        "what was fetched is kept."
    )


class PrivateApt:
    """apt-get for one mirror and suite, its state under `folder`."""

    def __init__(self, folder: Path, mirror: str, suite: str, keyring: Path) -> None:
        self.folder = folder
        self.mirror = mirror
        self.archives = folder / "archives"
        self._config = folder / "apt.conf"
        self._write_configuration(suite, keyring)

    def _write_configuration(self, suite: str, keyring: Path) -> None:
        for name in ("lists/partial", "archives/partial", "nothing/partial", "empty"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").write_text(dpkg_status(), encoding="utf-8")
        (self.folder / "suite.sources").write_text(
            f"Types: deb\nURIs: {self.mirror}\nSuites: {suite}\nComponents: main\n"
            f"Signed-By: {keyring}\n",
            encoding="utf-8",
        )
        machine = subprocess.run(
            ["apt-config", "dump"], capture_output=True, text=True, check=False
        ).stdout
        folder = self.folder
        self._config.write_text(
            f"{reaching_options(machine)}\n"
            f'APT::Architectures {{ "{native_architecture(machine)}"; }};\n'
            f'Dir::Etc::main "{folder}/empty/none";\n'
            f'Dir::Etc::parts "{folder}/empty";\n'
            f'Dir::Etc::preferences "{folder}/empty/none";\n'
            f'Dir::Etc::preferencesparts "{folder}/empty";\n'
            f'Dir::Etc::sourcelist "{folder}/suite.sources";\n'
            f'Dir::Etc::sourceparts "{folder}/empty";\n'
            f'Dir::State "{folder}";\n'
            f'Dir::State::lists "{folder}/lists";\n'
            f'Dir::State::status "{folder}/status";\n'
            f'Dir::Cache "{folder}";\n'
            f'Dir::Cache::archives "{folder}/archives";\n'
            f'Dir::Log "{folder}";\n'
            'Acquire::Languages "none";\n'
            'Acquire::ForceHash "SHA256";\n'
            'Acquire::Retries "3";\n'
            'APT::Install-Recommends "false";\n'
            'APT::Sandbox::User "";\n',
            encoding="utf-8",
        )

    def _run(self, *arguments: str, tick: Callable[[], None] = lambda: None) -> str:
        """Runs apt-get, calls `tick` while waiting, returns stdout; raises what `explain` says."""
        log = self.folder / "apt.log"
        environment = {**os.environ, "APT_CONFIG": str(self._config), "LC_ALL": "C.UTF-8"}
        with log.open("w+", encoding="utf-8", errors="replace") as stream:
            command = ["apt-get", "-q", "-y", *arguments]
            process = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
            )
            try:
                while True:
                    try:
                        process.wait(_POLL_SECONDS)
                        break
                    except subprocess.TimeoutExpired:
                        tick()
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
            stream.seek(0)
            output = stream.read()
        if process.returncode != 0:
            raise explain(output, self.mirror)
        return output

    def update(self, tick: Callable[[], None] = lambda: None) -> None:
        """Fetches the suite's index and checks its signature."""
        self._run("update", "--error-on=any", tick=tick)

    def closure(self, names: Sequence[str]) -> list[Package]:
        """Everything to fetch for `names` on a machine that has only the assumed packages."""
        # Asked with an empty archive folder, since apt does not list what it finds there.
        nothing = f"Dir::Cache::archives={self.folder}/nothing"
        return parse_print_uris(self._run("install", "--print-uris", "-o", nothing, *names))

    def download(self, names: Sequence[str], tick: Callable[[], None] = lambda: None) -> None:
        """Fetches what `closure` lists into `archives`; what is there already is not fetched."""
        self._run("install", "--download-only", *names, tick=tick)

    def fetched_bytes(self) -> int:
        """Bytes of package files so far, half-fetched ones included."""
        total = 0
        for folder in (self.archives, self.archives / "partial"):
            for entry in os.scandir(folder):
                # apt renames a file between the scan and the look: then it counts the next time.
                try:
                    total += entry.stat().st_size if entry.is_file() else 0
                except FileNotFoundError:
                    continue
        return total
