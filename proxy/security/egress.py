"""Where the gateway may connect to: whoever steers it must not look around in its network.

Link-local addresses (where clouds tell secrets to their machines), metadata services wherever they
are, unspecified, multicast and reserved addresses are refused always, also inside an IPv6 address
that carries one of IPv4. Private and loopback addresses are for those networks and names that
`ATHENA_ALLOW_PRIVATE_UPSTREAMS` lists. A name is resolved once: every address that it has is
checked, and what was checked is what is connected to, so that a name that changes between the two
gains nothing.
"""

import asyncio
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)
from typing import Any, TypeAlias
from unicodedata import normalize

Address: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network

# What clouds tell their machines is at 169.254.169.254 nearly everywhere; these are elsewhere.
_METADATA = frozenset(
    ip_address(text)
    for text in (
        "100.100.100.200",  # Alibaba
        "168.63.129.16",  # Azure: a public address, answered by the host
        "192.0.0.192",  # Oracle
        "fd00:ec2::254",  # Amazon
        "fd20:ce::254",  # Google
    )
)
_METADATA_NAMES = frozenset(
    {
        "instance-data",
        "instance-data.ec2.internal",
        "metadata",
        "metadata.azure.internal",
        "metadata.goog",
        "metadata.google.internal",
        "metadata.packet.net",
        "metadata.platformequinix.com",
        "metadata.tencentyun.com",
    }
)
_THIS_NETWORK = ip_network("0.0.0.0/8")  # Linux connects 0.0.0.0 to itself
_RESERVED = ip_network("240.0.0.0/4")
# IPv6 addresses with one of IPv4 in their last 32 bits: compatible, mapped, translated, NAT64.
_CARRIERS = tuple(
    map(
        IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
    )
)
_UNICAST, _NAT64 = IPv6Network("2000::/3"), IPv6Network("64:ff9b::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)  # in the third quarter
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}")
_HOST_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_-]+)*")


class Forbidden(OSError):
    """The gateway may not connect there. Says of which kind the address is, and not which it is."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """Which private addresses may be connected to."""

    networks: tuple[_Network, ...] = ()
    names: frozenset[str] = frozenset()
    own: tuple[str, int] | None = None
    """Where the gateway itself listens: its built-in demo is an upstream, too."""

    @classmethod
    def parse(cls, text: str, *, own: tuple[str, int] | None = None) -> "Allowance":
        """`all`, `none`, or networks, addresses and names between commas; raises ValueError."""
        items = [item.strip().lower() for item in text.split(",") if item.strip()]
        if items == ["all"]:
            return cls(networks=(IPv4Network("0.0.0.0/0"), IPv6Network("::/0")), own=own)
        if items == ["none"]:
            return cls(own=own)
        networks, names = [], set()
        for item in items:
            try:
                networks.append(ip_network(item.strip("[]")))
            except ValueError:
                if _NUMERIC.fullmatch(item) or not _HOST_NAME.fullmatch(item):
                    raise ValueError(f"{item!r} is no network, address or host name") from None
                names.add(item)
        return cls(tuple(networks), frozenset(names), own)

    def check(self, address: Address, host: str, port: int) -> None:
        """Raise Forbidden if an address, found for a host, may not be connected to."""
        is_listed = host in self.names or (host, port) == self.own
        for one in _carried(address):
            if kind := _always_forbidden(one):
                raise Forbidden(f"its address is {kind}, which is never allowed")
            if is_listed or _is_public(one) or any(one in network for network in self.networks):
                continue
            kind = "a loopback address" if one.is_loopback else "a private address"
            raise Forbidden(
                f"its address is {kind}, which ATHENA_ALLOW_PRIVATE_UPSTREAMS does not list"
            )

    def check_literal(self, host: str, port: int) -> Address | None:
        """The address that a host is, unless it is a name; raises Forbidden."""
        host = _plain(host)
        if host in _METADATA_NAMES:
            raise Forbidden("its address is a metadata service, which is never allowed")
        address = _literal(host)
        if address is not None:
            self.check(address, host, port)
        return address

    def resolve(self, host: str, port: int) -> list[str]:
        """Every address of a host, checked; raises Forbidden, and OSError if there is none."""
        if (address := self.check_literal(host, port)) is not None:
            return [str(address)]
        return self._checked(
            socket.getaddrinfo(_plain(host), port, type=socket.SOCK_STREAM), host, port
        )

    async def resolve_async(self, host: str, port: int) -> list[str]:
        """The same, without blocking the event loop."""
        if (address := self.check_literal(host, port)) is not None:
            return [str(address)]
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(_plain(host), port, type=socket.SOCK_STREAM)
        return self._checked(found, host, port)

    def _checked(self, found: Iterable[tuple[Any, ...]], host: str, port: int) -> list[str]:
        addresses = dict.fromkeys(str(entry[4][0]) for entry in found)
        for text in addresses:
            self.check(ip_address(text), _plain(host), port)
        return list(addresses)


@lru_cache(1024)
def _carried(address: Address) -> tuple[Address, ...]:
    """The address, and each of IPv4 that it may stand for."""
    if isinstance(address, IPv4Address):
        return (address,)
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped:  # not an address of its own: what it carries is all there is
        return (last,)
    found: list[Address] = [address]
    if any(address in network for network in _CARRIERS) and int(address) > 1:
        found.append(last)
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        found.append(last)
    if address.sixtofour:
        found.append(address.sixtofour)
    if address.teredo:
        found += address.teredo
    return tuple(found)


def _always_forbidden(address: Address) -> str | None:
    if address in _METADATA:
        return "a metadata service"
    if address.is_link_local:
        return "link-local"
    if address.is_multicast:
        return "multicast"
    if address.is_unspecified or address in _THIS_NETWORK:
        return "unspecified"
    if address in _RESERVED:
        return "reserved"
    return None


def _is_public(address: Address) -> bool:
    if isinstance(address, IPv4Address):
        return address.is_global
    # Of the rest of IPv6, nothing is anybody's on the internet.
    return address.is_global and (address in _UNICAST or address in _NAT64)


def _plain(host: str) -> str:
    """A host as it is compared: browsers and resolvers take more spellings than one."""
    return normalize("NFKC", host).strip("[]").rstrip(".").lower()


def _literal(host: str) -> Address | None:
    """What a host is without being resolved: resolvers read 0x7f.1 and 2130706433, too."""
    try:
        return ip_address(host.partition("%")[0])
    except ValueError:
        pass
    if not _NUMERIC.fullmatch(host):
        return None
    try:
        return IPv4Address(socket.inet_aton(host))
    except OSError:
        return None
