"""The newest snapshot, kept so by a thread that looks at one row a second.

An edit is therefore live in every process within two seconds, and no request waits for the
database. When the database is away, the last snapshot stays.
"""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from time import monotonic

from django.db import DatabaseError, close_old_connections

from formats import FailureKind
from proxy.errors import ErrorCode, GatewayError
from proxy.logs import hide
from proxy.models import ClientKey
from proxy.snapshot import Snapshot, load, read_version

_INTERVAL = 1.0
_STALE = 4.0
logger = logging.getLogger("athena.configuration")


class Configuration:
    def __init__(self) -> None:
        self._refreshed_at = -_STALE
        self._snapshot: Snapshot | None = None
        self._used_keys: dict[int, datetime] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="configuration")

    @property
    def is_fresh(self) -> bool:
        """Whether the database answered a moment ago."""
        return monotonic() - self._refreshed_at < _STALE

    @property
    def version(self) -> int:
        """The number of the snapshot's version, 0 before there is one."""
        return 0 if self._snapshot is None else self._snapshot.version

    @property
    def current(self) -> Snapshot:
        """The snapshot for a request that begins; raises GatewayError before there is one."""
        if self._snapshot is None:
            raise GatewayError(
                "the gateway has not read its configuration yet",
                kind=FailureKind.OVERLOADED,
                status=503,
                code=ErrorCode.NOT_READY,
                retry_after=1,
            )
        return self._snapshot

    def note_use(self, key_id: int) -> None:
        """Remember that a key was used; it is written with the next look at the database."""
        self._used_keys[key_id] = datetime.now(UTC)

    async def watch(self) -> None:
        """Keep the snapshot new until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(_INTERVAL)

    async def refresh(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._refresh)

    def _refresh(self) -> None:
        close_old_connections()
        try:
            if self._snapshot is None or self._snapshot.version != read_version():
                self._snapshot = load()
                hide(self._snapshot.secrets())
                logger.info("configuration version %s is live", self._snapshot.version)
            self._write_uses()
        except DatabaseError as error:
            if self.is_fresh or self._snapshot is None:
                logger.warning("the database is away, the last configuration stays: %s", error)
        except Exception:
            # What cannot be understood must not stop the watch: the last snapshot stays.
            if self.is_fresh or self._snapshot is None:
                logger.exception("the configuration cannot be read")
        else:
            self._refreshed_at = monotonic()

    def _write_uses(self) -> None:
        used, self._used_keys = self._used_keys, {}
        # A copy: a request that looked up the old one may still write to it.
        for key_id, moment in list(used.items()):
            ClientKey.objects.filter(pk=key_id).update(last_used_at=moment)


configuration = Configuration()
