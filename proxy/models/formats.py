"""How a model's text is read."""

from typing import Any

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from formats import FORMATS
from proxy.models.bounds import in_bounds
from proxy.models.history import recorded
from proxy.validators import validate_markers, validate_pattern

_BUFFER: list[Any] = [MinValueValidator(1024), MaxValueValidator(64 * 1024 * 1024)]


def format_choices() -> list[tuple[str, str]]:
    return [(name, name) for name in sorted(FORMATS)]


class FormatOverride(models.Model):
    pattern = models.CharField(
        max_length=200,
        unique=True,
        validators=[validate_pattern],
        help_text="Model names, ours or the upstream's; * matches anything, case does not count.",
    )
    format = models.CharField(max_length=20, choices=format_choices)
    priority = models.IntegerField(default=100, help_text="The lowest that matches wins.")
    note = models.CharField(max_length=200, blank=True, help_text="Why it is there.")
    active = models.BooleanField(default=True)

    history = recorded()

    class Meta:
        ordering = ("priority", "pattern")

    def __str__(self) -> str:
        return f"{self.pattern} → {self.format}"


class FormatSettings(models.Model):
    format = models.CharField(max_length=20, choices=format_choices, unique=True)
    buffer_limit = models.PositiveIntegerField(
        default=1024 * 1024,
        validators=_BUFFER,
        help_text="Characters that may be held back because they cannot be decided yet.",
    )
    strict = models.BooleanField(
        default=False,
        help_text="Refuse a section that the model left open, even if its calls are complete.",
    )
    markers = models.JSONField(
        default=dict,
        blank=True,
        help_text='More spellings of its tokens: {"SECTION_BEGIN": ["<|calls|>"]}',
    )
    context_warning = models.PositiveIntegerField(
        "context warning size",
        null=True,
        blank=True,
        validators=[MinValueValidator(1024)],
        help_text="Bytes of a request beyond which a notice is recorded.",
    )

    history = recorded()

    class Meta:
        ordering = ("format",)
        verbose_name_plural = "format settings"
        constraints = [in_bounds("format", "buffer_limit", 1024, 64 * 1024 * 1024)]

    def __str__(self) -> str:
        return self.format

    def clean(self) -> None:
        if self.format in FORMATS and self.markers != {}:
            validate_markers(self.format, self.markers)
