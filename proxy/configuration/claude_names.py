"""Lets one upstream answer for all of Claude's model names, in one edit."""

from proxy.configuration import editing
from proxy.models import ModelRoute, Upstream

FAMILIES = ("opus", "sonnet", "haiku")


def serve_claude_names(upstream: Upstream, model: str) -> None:
    """Set the routes of Claude's names to a model of the upstream, within `editing`.

    Properties that belong to the model served before are cleared. Raises ValidationError.
    """
    for family in FAMILIES:
        pattern = f"claude-*{family}*"
        row = ModelRoute.objects.filter(pattern=pattern).first() or ModelRoute(
            pattern=pattern, listed_as=f"claude-{family}"
        )
        if row.pk and (row.upstream_id, row.upstream_model) == (upstream.pk, model):
            continue
        same = ModelRoute.objects.filter(upstream=upstream, upstream_model=model).first()
        row.upstream, row.upstream_model, row.active = upstream, model, True
        for name in ("max_tokens", "context_window", "thinking_tokens"):
            setattr(row, name, getattr(same, name) if same else None)
        editing.save(row, reason=f"{upstream.name} answers for Claude's names")
