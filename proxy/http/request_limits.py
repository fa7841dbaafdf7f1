"""Limits on requests: size, time, and number of concurrent requests.

Filled from the gateway settings, and part of a snapshot; docs/limits.md lists these and all others.
Must not import Django: the server reads this module before Django is set up.
"""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The defaults apply until a configuration is loaded, when only probes are answered."""

    max_body_bytes: int = 1024 * 1024
    max_headers: int = 100
    max_header_bytes: int = 64 * 1024
    max_json_depth: int = 128
    max_json_nodes: int = 200_000
    #: Seconds to wait for the request's headers, and for each part of its body.
    request_timeout: float = 30
    #: Seconds in which a client must read some of what was written to it.
    stall_timeout: float = 60
    #: Of one node, over all its processes.
    max_streams: int = 500

    @classmethod
    def from_settings(cls, settings: object) -> "RequestLimits":
        """Read the fields of the same names from a settings row."""
        return cls(**{field.name: getattr(settings, field.name) for field in fields(cls)})
