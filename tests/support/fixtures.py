"""Fixtures of all tests: above all a gateway and a scripted upstream, shared within a worker."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.core.cache import cache
from django.test import override_settings
from servestatic.middleware import ServeStaticMiddleware

from proxy.roles import OPERATORS
from tests.support.certificates import Authority
from tests.support.faulty_upstreams import Faulty, faulty
from tests.support.gateway import Gateway
from tests.support.scripted_upstream import ScriptedUpstream
from tests.support.stored_exchanges import configure

_FAST_HASHER = "django.contrib.auth.hashers.MD5PasswordHasher"
_numbers = count()


@pytest.fixture(scope="session", autouse=True)
def search_static_files_once() -> Iterator[None]:
    """Search for static files once: every Django test client creates the middleware again."""
    search = ServeStaticMiddleware.add_files_from_finders
    known: dict[str, dict[str, Any]] = {}

    def add(self: ServeStaticMiddleware) -> None:
        if self.static_prefix not in known:
            search(self)
            known[self.static_prefix] = dict(self.files)
        self.files.update(known[self.static_prefix])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServeStaticMiddleware, "add_files_from_finders", add)
        yield


@pytest.fixture(scope="session", autouse=True)
def fast_password_hash() -> Iterator[None]:
    """Hash passwords cheaply: the product's hash takes 0.15 s of CPU time."""
    with override_settings(PASSWORD_HASHERS=[_FAST_HASHER, *settings.PASSWORD_HASHERS]):
        yield


@pytest.fixture(scope="session")
def upstream() -> ScriptedUpstream:
    return ScriptedUpstream()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """The authority that signs the certificates of upstreams with TLS."""
    return Authority(Path(tmp_path_factory.mktemp("authority")))


@pytest.fixture(scope="session")
def gateway(
    upstream: ScriptedUpstream, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Gateway]:
    """A gateway that sends pings soon, and keeps the transcript of every failure.

    By default it would keep few, because the failures of all tests are of a few kinds.
    """
    gateway = Gateway(
        Path(tmp_path_factory.mktemp("gateway")),
        OPENROUTER_API_KEY="sk-or-canary-of-the-upstream",
        OPENROUTER_BASE_URL=upstream.url,
        SSL_CERT_FILE=str(authority.path),
    ).start()
    gateway.edit(
        "GatewaySettings.objects.get().delete()\n"
        "GatewaySettings(pk=1, default_route=ModelRoute.objects.get(pattern='default'),"
        " ping_after=0.5, open_after=1.5, drain_time=2, failures_per_hour=100_000).save()"
    )
    yield gateway
    gateway.stop()


@pytest.fixture(scope="session")
def both_dialects(gateway: Gateway, upstream: ScriptedUpstream) -> None:
    """Add upstreams of both dialects; the prefix of a model's name selects one."""
    gateway.edit(
        "a = Upstream.objects.create(name='claude', service='anthropic', dialect='anthropic',"
        f" base_url={upstream.url!r}); a.store_key('sk-ant-canary-of-the-upstream'); a.save()\n"
        "c = Upstream.objects.create(name='compatible', dialect='anthropic',"
        f" base_url={upstream.url!r})\n"
        f"o = Upstream.objects.create(name='plain', dialect='openai', base_url={upstream.url!r})\n"
        "o.store_key('sk-oai-canary-of-the-upstream'); o.save()\n"
        "ModelRoute.objects.create(pattern='anthropic-standard*', upstream=a, priority=1)\n"
        "ModelRoute.objects.create(pattern='anthropic-auto*', upstream=a, priority=1)\n"
        "ModelRoute.objects.create(pattern='anthropic-*', upstream=c, priority=2)\n"
        "ModelRoute.objects.create(pattern='openai-*', upstream=o)\n"
        "FormatOverride.objects.create(pattern='anthropic-standard*', format='standard')\n"
        "FormatOverride.objects.create(pattern='openai-standard*', format='standard')"
    )


@pytest.fixture(scope="session")
def athena_faulty(
    gateway: Gateway, upstream: ScriptedUpstream, authority: Authority
) -> Iterator[Faulty]:
    with faulty(gateway, upstream, authority) as upstreams:
        yield upstreams


@pytest.fixture(scope="session")
def httpx_faulty(
    upstream: ScriptedUpstream, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Faulty]:
    gateway = Gateway(
        Path(tmp_path_factory.mktemp("httpx")),
        ATHENA_TRANSPORT="httpx",
        OPENROUTER_API_KEY="sk-or-canary-of-the-upstream",
        OPENROUTER_BASE_URL=upstream.url,
        SSL_CERT_FILE=str(authority.path),
    ).start()
    with faulty(gateway, upstream, authority) as upstreams:
        yield upstreams
    gateway.stop()


@pytest.fixture(params=["athena", "httpx"])
def either(request: pytest.FixtureRequest) -> Faulty:
    """The faulty upstreams behind a gateway of either transport."""
    upstreams: Faulty = request.getfixturevalue(f"{request.param}_faulty")
    return upstreams


@pytest.fixture
def client(gateway: Gateway) -> Iterator[httpx.Client]:
    with gateway.client() as client:
        yield client


@pytest.fixture
def model() -> str:
    """The name of a model that only this test uses."""
    return f"test/model-{next(_numbers)}"


@pytest.fixture
def kimi() -> str:
    return f"moonshotai/kimi-k2-{next(_numbers)}"


@pytest.fixture
def configured(db: None, settings: Any, tmp_path: Path) -> Iterator[None]:
    """A database with the rows that every gateway has, and no throttled clients."""
    settings.DATA_DIR = tmp_path
    configure()
    cache.clear()
    yield
    cache.clear()


@pytest.fixture
def operator(configured: None) -> Any:
    """A client of the management API with the token of an operator."""
    from tests.support.api_clients import staff_user, token_client

    return token_client(staff_user(OPERATORS, username="olga"))
