"""Keeps the newest snapshot in memory: a thread compares one version number every second.

An edit is live in every process within two seconds, and no request waits for the database. While
the database is unavailable, the last snapshot stays in use. A process that starts then, such as a
worker that replaces a crashed one, takes it from disk (`saved_rows`), unless it is too old to
trust. Otherwise it answers 503 until it has read the configuration.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from time import monotonic

from django.db import DatabaseError

from proxy.configuration import saved_rows
from proxy.configuration.snapshot import (
    NotBootstrapped,
    Snapshot,
    read_rows,
    read_version,
    snapshot_of,
)
from proxy.database.clock import clock
from proxy.database.connections import renew_connection
from proxy.database.outage import safe_reason
from proxy.errors import ErrorCode, GatewayError
from proxy.models import ClientKey, GatewaySettings
from proxy.telemetry.log_format import redact_in_log

_INTERVAL = 1.0
"""Seconds between two checks of the version."""
_STALE = 4.0
"""Seconds without an answer after which the database counts as unreachable."""
_OUTDATED = 600.0
"""Seconds after which a snapshot is too old to trust: a key may have been revoked since."""
_CONFIRM_INTERVAL = 5.0
"""Seconds between two notes on disk that the database still has the saved version."""
_START_TIMEOUT = 10.0
"""Seconds for which a start waits for the database."""
logger = logging.getLogger("athena.configuration")


class Configuration:
    def __init__(self) -> None:
        self.on_change: Callable[[Snapshot], None] = lambda snapshot: None
        """Called in the event loop with every new snapshot that `watch` loads."""
        self._refreshed_at = -_OUTDATED
        self._confirmed_at = 0.0
        self._is_unavailable = False
        self._snapshot: Snapshot | None = None
        self._used_keys: dict[int, datetime] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="configuration")

    @property
    def is_fresh(self) -> bool:
        """Return whether the database answered within the last seconds."""
        return not self._is_unavailable and monotonic() - self._refreshed_at < _STALE

    @property
    def is_outdated(self) -> bool:
        """Return whether the database has been unavailable for minutes."""
        return monotonic() - self._refreshed_at >= _OUTDATED

    @property
    def drain_time(self) -> float:
        if self._snapshot is None:
            return float(GatewaySettings._meta.get_field("drain_time").default)
        return self._snapshot.drain_time

    @property
    def version(self) -> int:
        """The version of the snapshot; 0 before the first one."""
        return 0 if self._snapshot is None else self._snapshot.version

    @property
    def current(self) -> Snapshot:
        """The snapshot for a new request; raises GatewayError before the first one."""
        if self._snapshot is None:
            raise GatewayError(
                ErrorCode.NOT_READY, "the gateway has not read its configuration yet"
            )
        return self._snapshot

    def record_key_use(self, key_id: int) -> None:
        """Remember that a key was used, until `write_key_uses`."""
        self._used_keys[key_id] = clock.now()

    async def start(self) -> None:
        """Read the configuration, unless the database does not answer in time."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.refresh(), _START_TIMEOUT)
        if self._snapshot is None:
            await asyncio.to_thread(self._restore)

    async def watch(self) -> None:
        """Keep the snapshot up to date until cancelled."""
        while True:
            before = self._snapshot
            await self.refresh()
            if self._snapshot is not None and self._snapshot is not before:
                self.on_change(self._snapshot)
            await asyncio.sleep(_INTERVAL)

    async def refresh(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._refresh)

    def _refresh(self) -> None:
        renew_connection()
        try:
            if self._snapshot is None or self._snapshot.version != read_version():
                rows = read_rows()
                self._use(snapshot_of(rows))
                logger.info("configuration version %s is live", rows.version)
                saved_rows.save(rows)
                self._confirmed_at = monotonic()
            elif monotonic() - self._confirmed_at >= _CONFIRM_INTERVAL:
                if not saved_rows.confirm(self._snapshot.version):
                    saved_rows.save(read_rows())
                self._confirmed_at = monotonic()
        except (DatabaseError, NotBootstrapped) as error:
            if not self._is_unavailable:
                logger.warning(
                    "the database is unavailable; the last configuration stays in use: %s",
                    safe_reason(error),
                )
            self._is_unavailable = True
        except Exception:
            # An unreadable configuration must not stop the watch: the last snapshot stays in use.
            if not self._is_unavailable:
                logger.exception("the configuration cannot be read")
            self._is_unavailable = True
        else:
            if self._is_unavailable:
                logger.info("the database is back")
            self._refreshed_at, self._is_unavailable = monotonic(), False

    def _restore(self) -> None:
        """Take the last configuration from disk."""
        saved = saved_rows.read()
        if saved is None or saved[1] >= _OUTDATED or self._snapshot is not None:
            return
        rows, age = saved
        self._use(snapshot_of(rows))
        self._refreshed_at = monotonic() - age
        logger.warning(
            "configuration version %s, of %d s ago, is live from disk: the database is unavailable",
            rows.version,
            age,
        )

    def _use(self, snapshot: Snapshot) -> None:
        redact_in_log(snapshot.secrets())
        self._snapshot = snapshot

    def write_key_uses(self) -> None:
        """Write when keys were last used. Runs outside the watching thread: it may take long."""
        used, self._used_keys = self._used_keys, {}
        try:
            # Copied, because a running request may still write to the old dict.
            for key_id, moment in list(used.items()):
                ClientKey.objects.filter(pk=key_id).update(last_used_at=moment)
        except DatabaseError as error:  # the database is readable but locked or full
            logger.debug("the last use of keys cannot be written: %s", safe_reason(error))
            self._used_keys = used | self._used_keys


configuration = Configuration()
