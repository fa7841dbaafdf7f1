"""Model routes: which upstream serves which model names."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from proxy.models.bounded_numbers import Bounds, NumberField
from proxy.models.history import recorded
from proxy.models.upstreams import Upstream
from proxy.validators import validate_pattern

_BOUNDS = Bounds("route", sample_calls=(0, 1))


class Reasoning(models.TextChoices):
    """The field in which earlier reasoning is sent back to the upstream."""

    AUTO = "auto", "as the service and the format require"
    LEAVE_OUT = "none", "do not send it"
    CONTENT = "reasoning_content", "as reasoning_content (Moonshot, DeepSeek, vLLM)"
    OPENROUTER = "reasoning", "as reasoning and reasoning_details (OpenRouter)"


class ModelRoute(models.Model):
    pattern = models.CharField(
        max_length=200,
        unique=True,
        validators=[validate_pattern],
        help_text="The model names that use this route. * matches anything; case is ignored.",
    )
    upstream = models.ForeignKey(Upstream, models.PROTECT, related_name="routes")
    upstream_model = models.CharField(
        max_length=200,
        blank=True,
        help_text="The upstream's name for the model. Empty: the client's name is sent unchanged.",
    )
    listed_as = models.CharField(
        max_length=200,
        blank=True,
        help_text="The name in /v1/models. Empty: the pattern, unless it has a wildcard.",
    )
    priority = models.IntegerField(
        default=100, help_text="The matching row with the lowest number wins."
    )
    max_tokens = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="The maximum of output tokens. Requests for more are lowered to it.",
    )
    context_window = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1024)],
        help_text="Input and output tokens together, if the upstream does not report it.",
    )
    thinking_tokens = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1), MaxValueValidator(1_000_000)],
        help_text="For a model that cannot stop thinking: tokens added to max_tokens when the "
        "client switches thinking off; that thinking is not shown. Empty: the model can stop.",
    )
    reasoning = models.CharField(max_length=20, choices=Reasoning, default=Reasoning.AUTO)
    parallel_calls = models.BooleanField(
        default=True, help_text="Whether the model may make several tool calls in one answer."
    )
    sample_calls = NumberField(
        "share of transcripts",
        null=True,
        blank=True,
        validators=_BOUNDS.validators("sample_calls"),
        help_text="Share of its successful exchanges with tool calls whose transcript is stored, "
        "0–1. Empty: the gateway's setting.",
    )
    fallback = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        blank=True,
        related_name="fallback_for",
        help_text="Tried if this route fails before the first byte: no connection, 429 or 5xx.",
    )
    active = models.BooleanField(default=True)
    from_environment = models.BooleanField(
        default=False,
        editable=False,
        help_text="Set from the environment at every start, until an operator edits the row.",
    )

    history = recorded()

    class Meta:
        ordering = ("priority", "pattern")
        constraints = _BOUNDS.constraints()

    def __str__(self) -> str:
        return self.pattern

    def clean(self) -> None:
        seen, route = {self.pk}, self.fallback
        while route is not None:
            if route.pk in seen:
                raise ValidationError(
                    {"fallback": f"{self.fallback} falls back to this route. Choose another."}
                )
            seen.add(route.pk)
            route = route.fallback
