"""Serializers of exchanges, transcripts, replays and failure groups."""

from base64 import b64encode
from typing import Any

from django.contrib.auth import get_user_model
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from proxy.models import Comment, Exchange, FailureGroup, GroupState, Replay, Transcript
from proxy.models.formats import FORMAT_BOUNDS, SPLIT_THINKING, format_names
from proxy.support.failure_text import explain_failure

_BUFFER_MIN, _BUFFER_MAX = (int(bound) for bound in FORMAT_BOUNDS["buffer_limit"])
# Only the gateway itself sets the state "regressed".
SETTABLE = [(s.value, s.label) for s in GroupState if s is not GroupState.REGRESSED]


class ExchangeOut(serializers.ModelSerializer[Exchange]):
    why = serializers.SerializerMethodField(
        help_text="The reason for the failure, in one sentence."
    )

    class Meta:
        model = Exchange
        exclude = ("id",)

    def get_why(self, row: Exchange) -> str:
        return explain_failure(row)


class CommentOut(serializers.ModelSerializer[Comment]):
    author = serializers.CharField(source="author.username", default=None, read_only=True)

    class Meta:
        model = Comment
        fields = ("id", "author", "created_at", "text")


class GroupOut(serializers.ModelSerializer[FailureGroup]):
    assignee = serializers.CharField(source="assignee.username", default=None, read_only=True)

    class Meta:
        model = FailureGroup
        exclude = ("fingerprint",)


class GroupDetailOut(GroupOut):
    hours = serializers.SerializerMethodField(help_text="Failures by hour, the newest first.")

    @extend_schema_field(serializers.DictField(child=serializers.IntegerField()))
    def get_hours(self, group: FailureGroup) -> dict[str, int]:
        rows = group.hours.order_by("-hour").values_list("hour", "count")[: 24 * 7]
        return {hour.isoformat(): count for hour, count in rows}


@extend_schema_field({"type": "string", "format": "byte"})
class Base64(serializers.Field[bytes, str, str, bytes]):
    def to_representation(self, value: bytes) -> str:
        return b64encode(value).decode()


@extend_schema_field({"type": "array", "items": {}})
class JsonList(serializers.JSONField):
    """A stored list of any JSON values."""


class TranscriptOut(serializers.ModelSerializer[Transcript]):
    exchange = ExchangeOut(read_only=True)
    headers = serializers.JSONField(source="content.headers", required=False)
    request = serializers.CharField(source="content.request")
    tools = JsonList(source="content.tools", read_only=True)
    reading = serializers.JSONField(source="content.reading", required=False)
    raw = Base64(
        source="content.raw", read_only=True, help_text="The bytes that the upstream sent."
    )
    arrivals = JsonList(source="content.arrivals", read_only=True)
    events = JsonList(source="content.events", read_only=True)
    sent = Base64(
        source="content.sent", read_only=True, help_text="The bytes that the client received."
    )
    left_out = serializers.JSONField(source="content.left_out", required=False)
    redactions = serializers.IntegerField(
        source="content.redactions", required=False, min_value=0, max_value=2**63 - 1
    )

    class Meta:
        model = Transcript
        fields = (
            "exchange",
            "headers",
            "request",
            "tools",
            "reading",
            "raw",
            "arrivals",
            "events",
            "sent",
            "left_out",
            "redactions",
        )


class ReplayOut(serializers.ModelSerializer[Replay]):
    """A replay without its content."""

    author = serializers.CharField(source="author.username", default=None, read_only=True)

    class Meta:
        model = Replay
        exclude = ("exchange", "events", "sent")


class ReplayContentOut(ReplayOut):
    """A replay with its content, for users who may read transcripts."""

    events = JsonList(read_only=True)
    sent = Base64(read_only=True)

    class Meta:
        model = Replay
        exclude = ("exchange",)


class GroupIn(serializers.Serializer[Any]):
    """State and assignee of a failure group. Fields that are not sent keep their values."""

    state = serializers.ChoiceField(choices=SETTABLE, required=False)
    assignee = serializers.CharField(
        required=False, allow_null=True, max_length=150, help_text="A username, or null."
    )

    def validate_assignee(self, name: str | None) -> Any:
        if name is None:
            return None
        staff = get_user_model()._default_manager.filter(is_staff=True, is_active=True)
        user = staff.filter(username=name).first()
        if user is None:
            raise serializers.ValidationError("No active staff user has this name.")
        return user


class CommentIn(serializers.Serializer[Any]):
    text = serializers.CharField(max_length=5000)


class ReplayIn(serializers.Serializer[Any]):
    """Options of a replay; the current configuration applies to those that are not sent."""

    format = serializers.CharField(
        max_length=20, required=False, help_text="A built-in format, or one of an operator."
    )
    buffer_limit = serializers.IntegerField(
        required=False, min_value=_BUFFER_MIN, max_value=_BUFFER_MAX
    )
    strict = serializers.BooleanField(required=False, allow_null=True, default=None)
    split_thinking = serializers.ChoiceField(choices=SPLIT_THINKING, required=False)

    def validate_format(self, name: str) -> str:
        if name not in format_names():
            raise serializers.ValidationError(f"There is no format {name!r}.")
        return name


class Problem(serializers.Serializer[Any]):
    detail = serializers.CharField()
