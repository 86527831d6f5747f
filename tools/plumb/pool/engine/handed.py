"""What `plumb pool up` hands to the supervisor, which is a process of its own."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.plumb.pool.config import PoolConfig, Server, Slot
from tools.plumb.pool.engine.parts import Programs
from tools.plumb.pool.home import Home

# In the supervisor's environment: the process with which the pool ends.
CLIENT = "PLUMBLINE_POOL_CLIENT"


def written(config: PoolConfig, programs: Programs) -> bytes:
    """What `plumb pool up` hands to the supervisor."""
    return json.dumps(
        {
            "server": asdict(config.server),
            "slots": [asdict(slot) for slot in config.slots],
            "buildbox": str(programs.buildbox),
            "postgres": str(programs.postgres),
            "python": str(programs.python),
            "packages": programs.packages,
            "pythons": programs.pythons,
        },
        indent=1,
    ).encode()


def read(home: Home) -> tuple[PoolConfig, Programs]:
    """What `written` gave."""
    plan: dict[str, Any] = json.loads(home.plan.read_text(encoding="utf-8"))
    config = PoolConfig(Server(**plan["server"]), tuple(Slot(**fields) for fields in plan["slots"]))
    programs = Programs(
        Path(plan["buildbox"]),
        Path(plan["postgres"]),
        Path(plan["python"]),
        tuple(plan["packages"]),
        tuple(plan["pythons"]),
    )
    return config, programs
