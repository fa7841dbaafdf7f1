"""Invalid settings are rejected by name, and their values are never shown."""

import resource
import stat

import pytest
from django.core.exceptions import ImproperlyConfigured

from athena_site.environment import read_env_file, redis_url
from tests.support.gateway import Gateway
from tests.support.linear_time import is_linear

SLIPS = {
    "a space before the sign": ("ATHENA_SECRET_KEY = CANARY", "line 2 of .env (ATHENA_SECRET_KEY)"),
    "exported": ("export ATHENA_SECRET_KEY =CANARY", "line 2 of .env (ATHENA_SECRET_KEY)"),
    "a colon": ("ATHENA_SECRET_KEY: CANARY", "line 2 of .env (ATHENA_SECRET_KEY)"),
    "the value alone": ("sk-or-CANARY", "line 2 of .env"),
    "a value with a sign": ("CANARY/+==", "line 2 of .env"),
}


@pytest.mark.parametrize("case", SLIPS)
def test_an_invalid_line_of_a_settings_file_is_reported_with_its_number(tmp_path, case):
    line, place = SLIPS[case]
    (tmp_path / ".env").write_text(f"# fine\n{line}\n")
    with pytest.raises(ImproperlyConfigured) as caught:
        read_env_file(tmp_path / ".env")
    assert str(caught.value) == f"{place} is not NAME=value"
    assert "CANARY" not in str(caught.value)


def test_a_long_line_is_parsed_in_linear_time(tmp_path):
    path = tmp_path / ".env"
    for unit in (" ", "A", "export ", "A ="):

        def parse(size, unit=unit):
            path.write_text("=" + unit * (size // len(unit)) + "\n" + unit * (size // len(unit)))
            with pytest.raises(ImproperlyConfigured):
                read_env_file(path)

        assert is_linear(parse, 50_000), unit


BAD = [
    "http://:CANARY@h:6379/0",
    "redis://:CAN#ARY@h:6379/0",
    "redis://:CAN/ARY@h:6379/0",
    "redis://:CAN?ARY@h:6379/0",
    "redis://u:12#CANARY@h:6379/0",
    "redis://u:12/CANARY@h:6379/0",
    "redis://u:12?CANARY@h:6379/0",
    "redis://:CANARY@[h:6379/0",
    "redis://:CANARY@h:port/0",
    "redis://:CANARY@h:99999/0",
    "redis://:CANARY@h/name",
    "redis://:CANARY@",
    "redis://",
    "redis://:CANARY @h",
]


@pytest.mark.parametrize("url", BAD)
def test_an_invalid_redis_url_is_rejected_and_not_shown(url):
    with pytest.raises(ImproperlyConfigured, match=r"^REDIS_URL ") as caught:
        redis_url(url)
    assert "CAN" not in str(caught.value)
    assert "ARY" not in str(caught.value)
    assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "url",
    [
        "",
        "redis://h",
        "redis://h:6379",
        "redis://h:6379/",
        "redis://u:p%23w@h:6379/11",
        "rediss://:p@[::1]:6379/0?ssl_cert_reqs=none&socket_timeout=1",
    ],
)
def test_a_valid_redis_url_is_accepted(url):
    assert redis_url(url) == url


def test_a_start_with_an_invalid_redis_url_prints_one_line_without_the_url(tmp_path):
    gateway = Gateway(tmp_path, REDIS_URL="redis://:CAN#ARY@h:6379/0")
    process = gateway.manage("check")
    assert process.returncode != 0
    output = process.stdout + process.stderr
    assert "REDIS_URL must look like" in output
    assert "CAN" not in output
    assert "ARY" not in output


def test_a_full_disk_at_the_first_start_does_not_spoil_later_ones(tmp_path):
    gateway = Gateway(tmp_path)

    def no_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    process = gateway.manage("check", preexec_fn=no_room)
    assert process.returncode != 0
    assert not list(tmp_path.glob("*secret_key*"))
    (tmp_path / "secret_key").touch()  # as an older version created it
    assert gateway.manage("check").returncode == 0
    path = tmp_path / "secret_key"
    assert len(path.read_text()) >= 50
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_text()
    assert gateway.manage("check").returncode == 0
    assert path.read_text() == before
