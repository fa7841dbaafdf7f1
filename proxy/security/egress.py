"""Egress policy: the addresses that the gateway may connect to (protection against SSRF).

Link-local addresses, cloud metadata services, unspecified, multicast and reserved addresses are
always forbidden, also when embedded in an IPv6 address. Private and loopback addresses must be
listed in `ATHENA_ALLOW_PRIVATE_UPSTREAMS`, by network or host name. A host name is resolved once,
all its addresses are checked, and the checked addresses are the ones connected to, so DNS
rebinding has no effect.
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

# Metadata services that are not at 169.254.169.254, which is link-local.
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
_THIS_NETWORK = ip_network("0.0.0.0/8")  # Linux connects 0.0.0.0 to the machine itself
_RESERVED = ip_network("240.0.0.0/4")
# IPv6 networks with an IPv4 address in the last 32 bits: compatible, mapped, translated, NAT64.
_EMBEDDING = tuple(
    map(
        IPv6Network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48")
    )
)
_UNICAST, _NAT64 = IPv6Network("2000::/3"), IPv6Network("64:ff9b::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)  # bits 64 to 95
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)(?:\.(?:0x[0-9a-f]*|[0-9]+)){0,3}")
_HOST_NAME = re.compile(r"(?=.{1,253}$)[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_-]+)*")


class ForbiddenAddress(OSError):
    """The policy forbids the address. The message names its kind and never the address itself."""


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Private networks and host names that may be connected to."""

    networks: tuple[_Network, ...] = ()
    names: frozenset[str] = frozenset()
    own: tuple[str, int] | None = None
    """Host and port of this gateway, always allowed: the built-in demo is an upstream."""

    @classmethod
    def parse(cls, text: str, *, own: tuple[str, int] | None = None) -> "EgressPolicy":
        """Parse `all`, `none`, or a comma-separated list of networks, addresses and host names.

        Raises ValueError.
        """
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
                    raise ValueError(f"{item!r} is not a network, address or host name") from None
                names.add(item)
        return cls(tuple(networks), frozenset(names), own)

    def check(self, address: Address, host: str, port: int) -> None:
        """Raise ForbiddenAddress if the resolved address of a host is not allowed."""
        is_listed = host in self.names or (host, port) == self.own
        for one in _with_embedded(address):
            if kind := _always_forbidden(one):
                raise ForbiddenAddress(f"its address is {kind}, which is never allowed")
            if is_listed or _is_public(one) or any(one in network for network in self.networks):
                continue
            kind = "a loopback address" if one.is_loopback else "a private address"
            raise ForbiddenAddress(
                f"its address is {kind}, which ATHENA_ALLOW_PRIVATE_UPSTREAMS does not list"
            )

    def check_literal(self, host: str, port: int) -> Address | None:
        """Check a host without resolving it; raises ForbiddenAddress.

        Returns its address, or None if it is a name.
        """
        host = _normalize(host)
        if host in _METADATA_NAMES:
            raise ForbiddenAddress("its address is a metadata service, which is never allowed")
        address = _literal(host)
        if address is not None:
            self.check(address, host, port)
        return address

    def resolve(self, host: str, port: int) -> list[str]:
        """Return the checked addresses of a host; raises ForbiddenAddress, or another OSError."""
        if (address := self.check_literal(host, port)) is not None:
            return [str(address)]
        return self._checked(
            socket.getaddrinfo(_normalize(host), port, type=socket.SOCK_STREAM), host, port
        )

    async def resolve_async(self, host: str, port: int) -> list[str]:
        """Resolve without blocking the event loop."""
        if (address := self.check_literal(host, port)) is not None:
            return [str(address)]
        loop = asyncio.get_running_loop()
        entries = await loop.getaddrinfo(_normalize(host), port, type=socket.SOCK_STREAM)
        return self._checked(entries, host, port)

    def _checked(self, entries: Iterable[tuple[Any, ...]], host: str, port: int) -> list[str]:
        addresses = dict.fromkeys(str(entry[4][0]) for entry in entries)
        for text in addresses:
            self.check(ip_address(text), _normalize(host), port)
        return list(addresses)


@lru_cache(1024)
def _with_embedded(address: Address) -> tuple[Address, ...]:
    """Return the address and every IPv4 address that it may stand for."""
    if isinstance(address, IPv4Address):
        return (address,)
    last = IPv4Address(int(address) & 0xFFFFFFFF)
    if address.ipv4_mapped:  # the IPv4 address is the only one connected to
        return (last,)
    addresses: list[Address] = [address]
    if any(address in network for network in _EMBEDDING) and int(address) > 1:
        addresses.append(last)
    if (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        addresses.append(last)
    if address.sixtofour:
        addresses.append(address.sixtofour)
    if address.teredo:
        addresses += address.teredo
    return tuple(addresses)


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
    # No other part of IPv6 is assigned on the internet.
    return address.is_global and (address in _UNICAST or address in _NAT64)


def _normalize(host: str) -> str:
    """Browsers and resolvers accept several spellings of one host."""
    return normalize("NFKC", host).strip("[]").rstrip(".").lower()


def _literal(host: str) -> Address | None:
    """Parse an address like a resolver, which also accepts 0x7f.1 and 2130706433."""
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
