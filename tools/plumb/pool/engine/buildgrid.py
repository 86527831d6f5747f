"""BuildGrid's configuration files: one for the process that workers ask, one for clients'."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.plumb.pool.config import Server

# Each call in progress holds a thread, executions and waiting workers too, and a call beyond the
# last thread is refused ("Concurrent RPC limit exceeded"): the cause of failed bulk transfers. A
# Bazel makes 100 calls a connection; .bazelrc's remote config allows it a few connections.
_THREADS = 2000
# A worker that says nothing for so long is given up, and its test goes to another.
SILENCE_SECONDS = 30
# Of one action, where its worker dies or the store fails; then the client hears of it.
ATTEMPTS = 3
_MEGABYTE = 1 << 20


def connection_string(server: Server, password: str) -> str:
    """The database's address; the driver is named, as BuildGrid cannot poll the default one."""
    return f"postgresql+psycopg2://buildgrid:{password}@127.0.0.1:{server.database_port}/buildgrid"


def configuration(
    name: str, server: Server, pools: Sequence[str], password: str, keys: Path
) -> str:
    """The text of buildgrid.yml of the process `name`, "scheduler" or "server".

    pools: those that have a slot: an action for any other is refused with that pool's name.
    """
    # Documents in YAML's flow style, which JSON is a part of, behind BuildGrid's own tags.
    services = ["- !execution", "    scheduler: *scheduler"]
    if name == "scheduler":
        services.append('    endpoints: ["bots"]')
    else:
        services += [
            '    endpoints: ["execution", "operations"]',
            # As often what waits looks for itself, where the database's word of an end was lost.
            "    operation-stream-keepalive-timeout: 15",
            "- !action-cache {cache: *results}",
            "- !cas {storage: *files}",
            "- !bytestream {storage: *files}",
        ]
    instance = "\n      ".join(services)
    channel = _channel(name, server, keys)
    return f"""\
server:
  - !channel
    {channel}
authorization: {_authorization(name, server, keys)}
connections:
  - !sql-connection &database
    connection-string: {json.dumps(connection_string(server, password))}
    pool-size: 20
    max-overflow: 40
    pool-pre-ping: true
storages:
  - !remote-storage &files
    url: http://127.0.0.1:{server.cas_port}
    instance-name: ""
caches:
  - !remote-action-cache &results
    url: http://127.0.0.1:{server.cas_port}
    instance-name: ""
schedulers:
  - !sql-scheduler &scheduler
    sql: *database
    storage: *files
    action-cache: *results
    property-set: !static-property-set
      property-labels: {json.dumps([_label(pool) for pool in pools])}
      wildcard-property-keys: ["Simulated"]
    bot-session-keepalive-timeout: {SILENCE_SECONDS}
    session-expiry-timer-interval: 5
    max-job-attempts: {ATTEMPTS}
    pruner-job-max-age: {{days: 7}}
    pruner-period: {{hours: 1}}
    pruner-max-delete-window: 10000
    assigners: {_assigners(name)}
instances:
  - name: ""
    services:
      {instance}
grpc-server-options:
  grpc.max_receive_message_length: {16 * _MEGABYTE}
thread-pool-size: {_THREADS}
"""


def _label(pool: str) -> dict[str, Any]:
    return {"label": pool, "properties": [["Pool", pool]]}


def _assigners(name: str) -> str:
    # One process hands out work; the other only asks for it.
    if name == "server":
        return "[!priority-age-assigner {count: 0}]"
    # By default it waits up to a second longer than the interval, each time: half a second a test.
    return "[!priority-age-assigner {count: 1, interval: 0.1, jitter-factor: 0.0}]"


def _channel(name: str, server: Server, keys: Path) -> str:
    if name == "scheduler":
        fields: dict[str, Any] = {
            "address": f"127.0.0.1:{server.worker_port}",
            "insecure-mode": True,
        }
    else:
        address = f"[{server.address}]" if ":" in server.address else server.address
        fields = {
            "address": f"{address}:{server.port}",
            "insecure-mode": server.security == "none",
        }
        if server.security != "none":
            credentials = {
                "tls-server-key": str(keys / "server.key"),
                "tls-server-cert": str(keys / "server.crt"),
            }
            if server.security == "tls":
                credentials["tls-client-certs"] = str(keys / "authority.crt")
            fields["credentials"] = credentials
    return "\n    ".join(f"{key}: {json.dumps(value)}" for key, value in fields.items())


def _authorization(name: str, server: Server, keys: Path) -> str:
    if name == "scheduler" or server.security != "jwt":
        return '{"method": "none"}'
    return json.dumps(
        {
            "method": "jwt",
            "algorithm": "rs256",
            "secret": str(keys / "tokens.pub"),
            "audience": server.audience,
        }
    )
