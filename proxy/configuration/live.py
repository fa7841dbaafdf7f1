"""The newest snapshot, kept so by a thread that looks at one row a second.

An edit is therefore live in every process within two seconds, and no request waits for the
database. When the database is away, the last snapshot stays: it is in memory alone, as a file would
have the upstreams' keys in it. A process that has never seen the database answers nobody.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from time import monotonic

from django.db import DatabaseError

from proxy.configuration.snapshot import NotBootstrapped, Snapshot, load, read_version
from proxy.database.clock import clock
from proxy.database.connections import renew_connection
from proxy.database.outage import safe_reason
from proxy.errors import ErrorCode, GatewayError
from proxy.models import ClientKey, GatewaySettings
from proxy.telemetry.log_format import hide

_INTERVAL = 1.0
_STALE = 4.0
_OUTDATED = 600.0
"""Seconds after which a snapshot is too old to promise anything: somebody may have been revoked."""
_FIRST_PATIENCE = 10.0
"""Seconds that the start waits for a database that does not answer."""
logger = logging.getLogger("athena.configuration")


class Configuration:
    def __init__(self) -> None:
        self.on_change: Callable[[Snapshot], None] = lambda snapshot: None
        """Called in the event loop with every snapshot that `watch` finds."""
        self._refreshed_at = -_OUTDATED
        self._is_away = False
        self._snapshot: Snapshot | None = None
        self._used_keys: dict[int, datetime] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="configuration")

    @property
    def is_fresh(self) -> bool:
        """Whether the database answered a moment ago."""
        return not self._is_away and monotonic() - self._refreshed_at < _STALE

    @property
    def is_outdated(self) -> bool:
        """Whether the database has been away for long."""
        return monotonic() - self._refreshed_at >= _OUTDATED

    @property
    def drain_time(self) -> float:
        if self._snapshot is None:
            return float(GatewaySettings._meta.get_field("drain_time").default)
        return self._snapshot.drain_time

    @property
    def version(self) -> int:
        """The number of the snapshot's version, 0 before there is one."""
        return 0 if self._snapshot is None else self._snapshot.version

    @property
    def current(self) -> Snapshot:
        """The snapshot for a request that begins; raises GatewayError before there is one."""
        if self._snapshot is None:
            raise GatewayError(
                ErrorCode.NOT_READY, "the gateway has not read its configuration yet"
            )
        return self._snapshot

    def note_use(self, key_id: int) -> None:
        """Remember that a key was used, until `write_uses`."""
        self._used_keys[key_id] = clock.now()

    async def start(self) -> None:
        """Read the configuration, if the database answers."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.refresh(), _FIRST_PATIENCE)

    async def watch(self) -> None:
        """Keep the snapshot new until cancelled."""
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
                self._snapshot = load()
                hide(self._snapshot.secrets())
                logger.info("configuration version %s is live", self._snapshot.version)
        except (DatabaseError, NotBootstrapped) as error:
            if not self._is_away:
                logger.warning("the database is away, no new configuration: %s", safe_reason(error))
            self._is_away = True
        except Exception:
            # What cannot be understood must not stop the watch: the last snapshot stays.
            if not self._is_away:
                logger.exception("the configuration cannot be read")
            self._is_away = True
        else:
            if self._is_away:
                logger.info("the database is back")
            self._refreshed_at, self._is_away = monotonic(), False

    def write_uses(self) -> None:
        """Write which keys were used; not where the configuration is read: it may take long."""
        used, self._used_keys = self._used_keys, {}
        try:
            # A copy: a request that looked up the old one may still write to it.
            for key_id, moment in list(used.items()):
                ClientKey.objects.filter(pk=key_id).update(last_used_at=moment)
        except DatabaseError as error:  # it is read, and cannot be written: locked, or full
            logger.debug("the use of keys is not written: %s", safe_reason(error))
            self._used_keys = used | self._used_keys


configuration = Configuration()
