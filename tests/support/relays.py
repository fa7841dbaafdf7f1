"""A relay without an upstream, for tests of its races."""

from types import SimpleNamespace

from formats import ReplyOptions
from proxy.audit.exchange import Exchange
from proxy.errors import ErrorCode, GatewayError
from proxy.serving.relay import Relay

RESTART = GatewayError(ErrorCode.DRAINING, "restarting")


def make_relay(registry=None):
    snapshot = SimpleNamespace(ping_after=60)
    registry = set() if registry is None else registry
    return Relay(None, snapshot, Exchange("anthropic"), registry, options=ReplyOptions())
