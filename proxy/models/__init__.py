"""The database tables.

    upstreams, routes, formats, keys   the configuration: addresses, keys and timeouts of upstreams;
                                       routes; format overrides, settings and definitions; client
                                       keys
    gateway                            limits and other settings of the gateway; the version counter
    history, tokens, chores            records of changes; API tokens; locks of periodic work
    processes                          running processes, and how long one counts after its last
                                       report
    audit, transcripts, traffic        exchanges, which outcomes are failures, and failure groups;
                                       the content of exchanges; sums
    bounded_numbers                    fields with a minimum and a maximum
    encrypted_headers                  a field of headers with secrets

May import `proxy.security`, `proxy.database`, `proxy.validators` and `formats`.
"""

from proxy.models.audit import (
    FAILURES,
    Comment,
    Exchange,
    FailureGroup,
    FailureHour,
    GroupState,
    Outcome,
    Phase,
)
from proxy.models.chores import Chore
from proxy.models.formats import FormatDefinition, FormatOverride, FormatSettings
from proxy.models.gateway import ConfigurationVersion, GatewaySettings
from proxy.models.keys import ClientKey, KeyState
from proxy.models.processes import GatewayProcess
from proxy.models.routes import ModelRoute, Reasoning
from proxy.models.tokens import ApiToken
from proxy.models.traffic import Facet, Measure, Span, TrafficSum, TrafficTime
from proxy.models.transcripts import Replay, Standing, Transcript
from proxy.models.upstreams import Service, Upstream

CONFIGURATION = (
    Upstream,
    ModelRoute,
    FormatDefinition,
    FormatOverride,
    FormatSettings,
    ClientKey,
    GatewaySettings,
)
"""The tables that make up the configuration. A change of any row makes a new version."""

__all__ = [
    "CONFIGURATION",
    "FAILURES",
    "ApiToken",
    "Chore",
    "ClientKey",
    "Comment",
    "ConfigurationVersion",
    "Exchange",
    "Facet",
    "FailureGroup",
    "FailureHour",
    "FormatDefinition",
    "FormatOverride",
    "FormatSettings",
    "GatewayProcess",
    "GatewaySettings",
    "GroupState",
    "KeyState",
    "Measure",
    "ModelRoute",
    "Outcome",
    "Phase",
    "Reasoning",
    "Replay",
    "Service",
    "Span",
    "Standing",
    "TrafficSum",
    "TrafficTime",
    "Transcript",
    "Upstream",
]
