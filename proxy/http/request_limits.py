"""What one request may be, how long it may take, and how many there may be at once.

Filled from the gateway settings, and part of a snapshot; docs/limits.md lists these and all others.
Without Django: the server reads it before there is any.
"""

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Bounds:
    """The defaults are in force before there is a configuration, when only probes are answered."""

    max_body_bytes: int = 1024 * 1024
    max_headers: int = 100
    max_header_bytes: int = 64 * 1024
    max_json_depth: int = 128
    max_json_nodes: int = 200_000
    #: For a request to come: its head, and any part of its body.
    request_timeout: float = 30
    #: For a client to take something of what was written.
    stall_timeout: float = 60
    #: Of one node, all its processes together.
    max_streams: int = 500

    @classmethod
    def of(cls, settings: object) -> "Bounds":
        """From whatever has fields of these names."""
        return cls(**{field.name: getattr(settings, field.name) for field in fields(cls)})
