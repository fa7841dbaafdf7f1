"""Format overrides and the settings of each format: how a model's tool calls are decoded."""

from django.core.validators import MinValueValidator
from django.db import models

from formats import FORMATS, SplitThinking
from proxy.models.bounded_numbers import KIB, MIB, Bounds
from proxy.models.history import recorded
from proxy.validators import validate_markers, validate_pattern

FORMAT_BOUNDS = Bounds("format", buffer_limit=(KIB, 64 * MIB))


SPLIT_THINKING = [
    (SplitThinking.NEVER.value, "never: it is text"),
    (SplitThinking.MARKED.value, "between <think> and </think>"),
    (SplitThinking.OPENED.value, "from the beginning of the answer to </think>"),
]


def format_choices() -> list[tuple[str, str]]:
    return [(name, name) for name in sorted(FORMATS)]


class FormatOverride(models.Model):
    pattern = models.CharField(
        max_length=200,
        unique=True,
        validators=[validate_pattern],
        help_text="Model names of the client or the upstream. * matches anything; case is ignored.",
    )
    format = models.CharField(max_length=20, choices=format_choices)
    priority = models.IntegerField(
        default=100, help_text="The matching row with the lowest number wins."
    )
    note = models.CharField(max_length=200, blank=True, help_text="The reason for this override.")
    active = models.BooleanField(default=True)

    history = recorded()

    class Meta:
        ordering = ("priority", "pattern")

    def __str__(self) -> str:
        return f"{self.pattern} → {self.format}"


class FormatSettings(models.Model):
    format = models.CharField(max_length=20, choices=format_choices, unique=True)
    buffer_limit = models.PositiveIntegerField(
        default=MIB,
        validators=FORMAT_BOUNDS.validators("buffer_limit"),
        help_text="Characters that may be held back until it is clear if they are a tool call.",
    )
    strict = models.BooleanField(
        default=False,
        help_text="Treat an unclosed section of tool calls as an error, even if the calls are "
        "complete.",
    )
    markers = models.JSONField(
        default=dict,
        blank=True,
        help_text='Additional spellings of its tokens: {"SECTION_BEGIN": ["<|calls|>"]}',
    )
    split_thinking = models.CharField(  # noqa: DJ001 - null is the format's own choice
        "split off thinking",
        max_length=10,
        choices=SPLIT_THINKING,
        null=True,
        blank=True,
        help_text="What to move from the text to the reasoning. Empty: only what the format's own "
        "markers enclose, which is always moved.",
    )
    context_warning = models.PositiveIntegerField(
        "context warning size",
        null=True,
        blank=True,
        validators=[MinValueValidator(1024)],
        help_text="Requests with more bytes than this get a notice in the audit.",
    )

    history = recorded()

    class Meta:
        ordering = ("format",)
        verbose_name_plural = "format settings"
        constraints = FORMAT_BOUNDS.constraints()

    def __str__(self) -> str:
        return self.format

    def clean(self) -> None:
        if self.format in FORMATS and self.markers != {}:
            validate_markers(self.format, self.markers)
