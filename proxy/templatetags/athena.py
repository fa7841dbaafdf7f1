"""Template filters. None returns HTML; templates escape their results."""

from django import template

from proxy.models import ConfigurationVersion
from proxy.security import visible_text

register = template.Library()


@register.simple_tag
def configuration_version() -> int | None:
    """Return the current configuration version; None before the first start."""
    return ConfigurationVersion.objects.values_list("number", flat=True).first()


@register.filter
def visible(value: object) -> str:
    """Replace invisible characters in untrusted text with their names."""
    return visible_text.visible(str(value))


@register.filter
def milliseconds(value: float | None) -> str:
    """Format a duration in ms or s; a dash if unknown."""
    if value is None:
        return "–"
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.0f} ms"


@register.filter
def number(value: object) -> str:
    """Format a count with thousands separators; a dash if unknown."""
    return f"{value:,}" if isinstance(value, int) else "–"
