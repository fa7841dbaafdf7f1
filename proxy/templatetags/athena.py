"""Filters of our templates. None of them makes HTML: templates escape what they return."""

from django import template

from proxy.models import ConfigurationVersion
from proxy.security import visible_text as seeing

register = template.Library()


@register.simple_tag
def configuration_version() -> int | None:
    """The number of the version that is saved; None before the first start."""
    return ConfigurationVersion.objects.values_list("number", flat=True).first()


@register.filter
def visible(value: object) -> str:
    """A short text of somebody else's, with what cannot be seen named."""
    return seeing.visible(str(value))


@register.filter
def milliseconds(value: float | None) -> str:
    """A duration as people read it."""
    if value is None:
        return "–"
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.0f} ms"


@register.filter
def number(value: object) -> str:
    """A count with its thousands apart; a dash for one that is not known."""
    return f"{value:,}" if isinstance(value, int) else "–"
