"""What operators steer, and what the gateway remembers."""

from proxy.models.audit import (
    FAILURES,
    Comment,
    Exchange,
    FailureGroup,
    FailureHour,
    GroupState,
    Outcome,
    Phase,
    Replay,
    Transcript,
)
from proxy.models.chores import Chore
from proxy.models.formats import FormatOverride, FormatSettings
from proxy.models.gateway import ConfigurationVersion, GatewaySettings
from proxy.models.keys import ClientKey, KeyState
from proxy.models.routes import ModelRoute, Reasoning
from proxy.models.tokens import ApiToken
from proxy.models.upstreams import Service, Upstream

CONFIGURATION = (
    Upstream,
    ModelRoute,
    FormatOverride,
    FormatSettings,
    ClientKey,
    GatewaySettings,
)
"""The tables whose rows make up a snapshot. A change to any of them is a new version."""

__all__ = [
    "CONFIGURATION",
    "FAILURES",
    "ApiToken",
    "Chore",
    "ClientKey",
    "Comment",
    "ConfigurationVersion",
    "Exchange",
    "FailureGroup",
    "FailureHour",
    "FormatOverride",
    "FormatSettings",
    "GatewaySettings",
    "GroupState",
    "KeyState",
    "ModelRoute",
    "Outcome",
    "Phase",
    "Reasoning",
    "Replay",
    "Service",
    "Transcript",
    "Upstream",
]
