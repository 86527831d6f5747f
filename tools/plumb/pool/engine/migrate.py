"""Makes the database that stdin names, and BuildGrid's tables in it; run by its text, not imported.

The name is no argument, as every user of the machine can read those. It imports nothing of plumb.
"""

from __future__ import annotations

import sys
import time


def main(address: str) -> None:
    """Waits for the server at `address`, an SQLAlchemy URL, as long as it is not stopped."""
    import psycopg2
    from buildgrid.server.app import cli
    from sqlalchemy.engine import make_url

    url = make_url(address)
    while True:
        try:
            connection = psycopg2.connect(
                host=url.host,
                port=url.port,
                user=url.username,
                password=url.password,
                dbname="postgres",
            )
            break
        except psycopg2.OperationalError:
            time.sleep(0.1)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_database WHERE datname = %s", (url.database,))
        if cursor.fetchone() is None:
            cursor.execute(f'CREATE DATABASE "{url.database}"')
    connection.close()
    cli.main(["migrate", "apply", address], standalone_mode=False)


if __name__ == "__main__":
    main(sys.stdin.read().strip())
