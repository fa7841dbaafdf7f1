"""A number that an operator may set."""

from typing import Any

from django.core.exceptions import ValidationError
from django.db import models


def _validate_number(value: float) -> None:
    if value != value:
        raise ValidationError("Enter a number.", code="invalid")


class NumberField(models.FloatField):  # type: ignore[type-arg]
    """Django's own without NaN, which no bound refuses: it is neither too small nor too large."""

    default_validators = [_validate_number]

    def deconstruct(self) -> tuple[str, str, list[Any], dict[str, Any]]:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.FloatField", list(args), kwargs  # the column is the same
