"""Numbers with bounds. Each bound is declared once and checked by forms and by the database."""

from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import BaseConstraint, CheckConstraint, Q

KIB = 1024
MIB = 1024 * KIB


class Bounds:
    """The smallest and the largest value of a table's numbers, by field."""

    def __init__(self, table: str, **limits: tuple[float, float]) -> None:
        self._table = table
        self._limits = limits

    def __getitem__(self, field: str) -> tuple[float, float]:
        return self._limits[field]

    def validators(self, field: str) -> list[Any]:
        """Validators for the field's declaration: forms and the API report a violation."""
        low, high = self._limits[field]
        return [MinValueValidator(low), MaxValueValidator(high)]

    def constraints(self) -> list[BaseConstraint]:
        """Constraints for the table's Meta: the database rejects rows that bypass the forms."""
        return [
            CheckConstraint(
                condition=Q(**{f"{field}__gte": low, f"{field}__lte": high}),
                name=f"{self._table}_{field}_in_bounds",
            )
            for field, (low, high) in self._limits.items()
        ]


def _reject_nan(value: float) -> None:
    if value != value:
        raise ValidationError("Enter a number.", code="invalid")


class NumberField(models.FloatField):  # type: ignore[type-arg]
    """A FloatField that rejects NaN, which every comparison with a bound would let through."""

    default_validators = [_reject_nan]

    def deconstruct(self) -> tuple[str, str, list[Any], dict[str, Any]]:
        name, _, args, kwargs = super().deconstruct()
        return name, "django.db.models.FloatField", list(args), kwargs  # the column is the same
