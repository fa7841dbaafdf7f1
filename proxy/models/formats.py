"""How a model's tool calls are decoded: overrides, settings of formats, and operators' own formats.

A format's name is not a foreign key, because built-in formats have no row. `proxy.configuration.
editing` keeps a definition from being deleted or disabled while an override needs it.
"""

from django.core.exceptions import ValidationError
from django.core.validators import MinValueValidator
from django.db import models

from formats import FORMATS, SplitThinking
from proxy.models.bounded_numbers import KIB, MIB, Bounds
from proxy.models.history import recorded
from proxy.validators import (
    validate_definition,
    validate_format_name,
    validate_markers,
    validate_pattern,
)

FORMAT_BOUNDS = Bounds("format", buffer_limit=(KIB, 64 * MIB))


SPLIT_THINKING = [
    (SplitThinking.NEVER.value, "never: it is text"),
    (SplitThinking.MARKED.value, "between <think> and </think>"),
    (SplitThinking.OPENED.value, "from the beginning of the answer to </think>"),
]


class FormatDefinition(models.Model):
    """A native format that an operator has defined."""

    name = models.CharField(
        max_length=20,
        unique=True,
        validators=[validate_format_name],
        help_text="Lower-case letters, digits, - and _. It cannot be changed later.",
    )
    definition = models.JSONField(
        validators=[validate_definition],
        help_text="Grammars, markers, detection patterns and a sample.",
    )
    note = models.CharField(max_length=200, blank=True, help_text="The reason for this format.")
    active = models.BooleanField(default=True)

    history = recorded()

    class Meta:
        ordering = ("name",)

    def __str__(self) -> str:
        return self.name

    def clean(self) -> None:
        stored = FormatDefinition.objects.filter(pk=self.pk).first()
        if stored is not None and stored.name != self.name:
            raise ValidationError(
                {
                    "name": f"The format {stored.name} cannot be renamed: stored exchanges refer "
                    "to it. Add another format instead."
                }
            )


def format_names() -> list[str]:
    """The names of the built-in formats, and of the active ones of operators."""
    own = FormatDefinition.objects.filter(active=True).values_list("name", flat=True)
    return sorted({*FORMATS, *own})


def format_choices() -> list[tuple[str, str]]:
    return [(name, name) for name in format_names()]


class FormatOverride(models.Model):
    pattern = models.CharField(
        max_length=200,
        unique=True,
        validators=[validate_pattern],
        help_text="Model names of the client or the upstream. * matches anything; case is ignored.",
    )
    format = models.CharField(max_length=20, help_text="A built-in format, or one of your own.")
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

    def clean(self) -> None:
        if self.format and self.format not in FORMATS:
            check_own_format(self.format, is_needed=self.active)


class FormatSettings(models.Model):
    format = models.CharField(max_length=20, unique=True)
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
        if self.format not in FORMATS:
            check_own_format(self.format)
            if self.markers != {}:
                raise ValidationError(
                    {
                        "markers": f"{self.format} is defined here: add the spelling to its "
                        "definition."
                    }
                )
        elif self.markers != {}:
            validate_markers(self.format, self.markers)


def check_own_format(name: str, *, is_needed: bool = False) -> None:
    """Raise ValidationError unless an operator has defined the format.

    It must be active, too, if something would be decoded with it.
    """
    row = FormatDefinition.objects.filter(name=name).first()
    if row is None:
        raise ValidationError({"format": f"The format {name[:80]!r} does not exist."})
    if is_needed and not row.active:
        raise ValidationError({"format": f"The format {name} is not active. Enable it first."})
