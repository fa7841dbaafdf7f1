"""What to do for a model."""

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models

from proxy.models.bounds import in_bounds
from proxy.models.history import recorded
from proxy.models.numbers import NumberField
from proxy.models.upstreams import Upstream
from proxy.validators import validate_pattern


class Reasoning(models.TextChoices):
    """How the assistant's earlier reasoning goes back to the upstream."""

    AUTO = "auto", "as the service and the format need it"
    LEAVE_OUT = "none", "leave it out"
    CONTENT = "reasoning_content", "as reasoning_content (Moonshot, DeepSeek, vLLM)"
    OPENROUTER = "reasoning", "as reasoning and reasoning_details (OpenRouter)"


class ModelRoute(models.Model):
    pattern = models.CharField(
        max_length=200,
        unique=True,
        validators=[validate_pattern],
        help_text="The model names it is for; * matches anything, case does not count.",
    )
    upstream = models.ForeignKey(Upstream, models.PROTECT, related_name="routes")
    upstream_model = models.CharField(
        max_length=200, blank=True, help_text="The upstream's name for the model; empty keeps ours."
    )
    listed_as = models.CharField(
        max_length=200,
        blank=True,
        help_text="The name in /v1/models; empty: the pattern itself, if it has no wildcard.",
    )
    priority = models.IntegerField(default=100, help_text="The lowest that matches wins.")
    max_tokens = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1)],
        help_text="The most output tokens that the model allows; more is lowered to it.",
    )
    context_window = models.PositiveIntegerField(
        null=True,
        blank=True,
        validators=[MinValueValidator(1024)],
        help_text="Tokens of input and output together, for upstreams that do not say.",
    )
    reasoning = models.CharField(max_length=20, choices=Reasoning, default=Reasoning.AUTO)
    parallel_calls = models.BooleanField(
        default=True, help_text="Whether the model may make several calls in one answer."
    )
    sample_calls = NumberField(
        "share of transcripts",
        null=True,
        blank=True,
        validators=[MinValueValidator(0), MaxValueValidator(1)],
        help_text="Of its successful exchanges with tool calls, 0–1; empty: the gateway's share.",
    )
    fallback = models.ForeignKey(
        "self",
        models.PROTECT,
        null=True,
        blank=True,
        related_name="fallback_for",
        help_text="Tried when this one fails before the first byte: no connection, 429 or 5xx.",
    )
    active = models.BooleanField(default=True)
    from_environment = models.BooleanField(
        default=False,
        editable=False,
        help_text="Set from the environment at every start, until an operator edits it.",
    )

    history = recorded()

    class Meta:
        ordering = ("priority", "pattern")
        constraints = [in_bounds("route", "sample_calls", 0, 1)]

    def __str__(self) -> str:
        return self.pattern

    def clean(self) -> None:
        seen, route = {self.pk}, self.fallback
        while route is not None:
            if route.pk in seen:
                raise ValidationError({"fallback": f"{self.fallback} leads back to this route."})
            seen.add(route.pk)
            route = route.fallback
