"""Endpoints of exchanges, their transcripts and replays, and of failure groups."""

from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import mixins, viewsets
from rest_framework.decorators import action
from rest_framework.exceptions import ValidationError
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.throttling import BaseThrottle, UserRateThrottle

from proxy.api.audit_serializers import (
    CommentIn,
    CommentOut,
    ExchangeOut,
    GroupDetailOut,
    GroupIn,
    GroupOut,
    Problem,
    ReplayContentOut,
    ReplayIn,
    ReplayOut,
    TranscriptOut,
)
from proxy.api.errors import NotPossible
from proxy.api.json_parser import is_storable
from proxy.api.pagination import LastSeenFirst, NewestFirst
from proxy.api.permissions import ProtectedView, user_of
from proxy.audit.transcripts.codec import Unreadable
from proxy.database.clock import clock
from proxy.models import Exchange, FailureGroup, GroupState, Transcript
from proxy.support.exchange_filters import FILTERS, BadFilter, filter_exchanges
from proxy.support.replay import NotReplayable, replay

list_of = list  # a name for the type: classes below have a method `list`
_PAGING = ("cursor", "page_size")
_HELP = {
    "outcome": "One of the outcomes, or `failed` for all that need attention.",
    "key": "The id of a client key.",
    "code": "An error code.",
    "leaked": "The format whose markup leaked into the text, or `any`.",
    "family_read": "The family whose calls the format `auto` read, or `any`.",
    "group": "The id of a failure group.",
    "rescued": "`any`: exchanges with a tool call that was recovered from text.",
    "served_by": "The provider that the upstream names as its source; `none` if it names none.",
    "since": "A time such as `2026-01-31T09:34`, or `1h`, `24h`, `7d`, `30d`, `90d`.",
    "until": "A time such as `2026-01-31T09:34`.",
}


class ReplayRate(UserRateThrottle):
    """Limits replays separately, because they cost far more CPU than other requests."""

    scope = "replay"


class Endpoint(viewsets.GenericViewSet[Any], ProtectedView):
    filters: tuple[str, ...] = ()

    def query(self) -> dict[str, str]:
        """The filters of the request; raises ValidationError for an unknown one."""
        filters = {name: str(value) for name, value in self.request.query_params.items()}
        unknown = filters.keys() - {*self.filters, *_PAGING}
        if unknown:
            raise ValidationError({sorted(unknown)[0]: ["This filter does not exist."]})
        for name, value in filters.items():
            if not is_storable(value):
                message = "The value contains a NUL character or an unpaired surrogate."
                raise ValidationError({name: [message]})
        return filters

    def validated_body(self, serializer: type[BaseSerializer[Any]]) -> dict[str, Any]:
        """The values of the request's body; raises ValidationError."""
        body = serializer(data=self.request.data)
        body.is_valid(raise_exception=True)
        values: dict[str, Any] = body.validated_data
        return values

    def may(self, permission: str) -> bool:
        return bool(self.request.user.has_perm(f"proxy.{permission}"))

    def page_response(
        self, rows: "QuerySet[Any]", serializer: type[BaseSerializer[Any]]
    ) -> Response:
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(serializer(page, many=True).data)


@extend_schema_view(
    list=extend_schema(
        summary="Exchanges, the newest first",
        parameters=[OpenApiParameter(n, str, description=_HELP.get(n, "")) for n in FILTERS],
    ),
    retrieve=extend_schema(summary="One exchange"),
)
class Exchanges(mixins.RetrieveModelMixin, Endpoint):
    required_permissions = {
        "list": ("view_exchange",),
        "retrieve": ("view_exchange",),
        "replays": ("view_exchange", "view_replay"),
        "make_replay": ("view_exchange", "add_replay"),
    }
    queryset = Exchange.objects.all()
    serializer_class = ExchangeOut
    pagination_class = NewestFirst
    lookup_field = "request_id"
    lookup_value_regex = "[A-Za-z0-9_-]{1,40}"
    filters = FILTERS

    def list(self, request: Request) -> Response:
        try:
            rows = filter_exchanges(self.query(), clock.now())
        except BadFilter as error:
            raise ValidationError(str(error)) from error
        return self.page_response(rows, ExchangeOut)

    @extend_schema(summary="The replays of an exchange", responses=ReplayOut(many=True))
    @action(detail=True, methods=["get"], serializer_class=ReplayOut)
    def replays(self, request: Request, request_id: str) -> Response:
        rows = self.get_object().replays.select_related("author").defer("events", "sent")
        return self.page_response(rows, ReplayOut)

    @extend_schema(
        summary="Replay a stored answer",
        description="Decodes the stored answer with the current code and configuration, or with "
        "the given options. It uses no network and does not change the original.",
        request=ReplayIn,
        responses={201: ReplayContentOut, 409: Problem},
    )
    @replays.mapping.post
    def make_replay(self, request: Request, request_id: str) -> Response:
        exchange, options = self.get_object(), self.validated_body(ReplayIn)
        try:
            new_replay = replay(
                exchange,
                format_name=options.get("format"),
                held_chars=options.get("buffer_limit"),
                strict=options.get("strict"),
                split_thinking=options.get("split_thinking"),
                author=user_of(request),
            )
        except NotReplayable as error:
            raise NotPossible(f"This exchange cannot be replayed: {error}.") from error
        new_replay.save()
        serializer = ReplayContentOut if self.may("view_transcript") else ReplayOut
        return Response(serializer(new_replay).data, status=201)

    def get_throttles(self) -> "list_of[BaseThrottle]":
        rates = super().get_throttles()
        return [*rates, ReplayRate()] if self.action == "make_replay" else list_of(rates)


@extend_schema_view(
    retrieve=extend_schema(
        summary="The transcript of an exchange", responses={200: TranscriptOut, 409: Problem}
    )
)
class Transcripts(mixins.RetrieveModelMixin, Endpoint):
    required_permissions = {"retrieve": ("view_exchange", "view_transcript")}
    queryset = Transcript.objects.select_related("exchange", "standing")
    serializer_class = TranscriptOut
    lookup_field = "exchange__request_id"
    lookup_url_kwarg = "request_id"
    lookup_value_regex = Exchanges.lookup_value_regex

    def get_object(self) -> Any:
        row = super().get_object()
        try:
            row.content  # noqa: B018  raises if it cannot be decoded
        except Unreadable as error:
            raise NotPossible(f"This transcript cannot be read: {error}.") from error
        return row


@extend_schema_view(retrieve=extend_schema(summary="One failure group", responses=GroupDetailOut))
class Groups(mixins.RetrieveModelMixin, Endpoint):
    required_permissions = {
        "list": ("view_failuregroup",),
        "retrieve": ("view_failuregroup",),
        "partial_update": ("view_failuregroup", "change_failuregroup"),
        "comments": ("view_failuregroup", "view_comment"),
        "add_comment": ("view_failuregroup", "add_comment"),
    }
    queryset = FailureGroup.objects.select_related("assignee")
    serializer_class = GroupDetailOut
    pagination_class = LastSeenFirst
    lookup_value_regex = "[0-9]{1,18}"
    filters = ("state", "format", "code")

    @extend_schema(
        summary="Failure groups, the most recent failure first",
        responses=GroupOut(many=True),
        parameters=[
            OpenApiParameter("state", str, enum=GroupState.values),
            OpenApiParameter("format", str),
            OpenApiParameter("code", str),
        ],
    )
    def list(self, request: Request) -> Response:
        query, rows = self.query(), self.get_queryset()
        if state := query.get("state"):
            if state not in GroupState.values:
                raise ValidationError({"state": [f"Choose one of {', '.join(GroupState.values)}."]})
            rows = rows.filter(state=state)
        if query.get("format"):
            rows = rows.filter(format=query["format"])
        if query.get("code"):
            rows = rows.filter(error_code=query["code"])
        return self.page_response(rows, GroupOut)

    @extend_schema(
        summary="Change the state or the assignee of a failure group",
        request=GroupIn,
        responses=GroupDetailOut,
    )
    def partial_update(self, request: Request, pk: str) -> Response:
        group, changes = self.get_object(), self.validated_body(GroupIn)
        for name, value in changes.items():
            setattr(group, name, value)
        if changes:
            group.save(update_fields=list(changes))
        return Response(GroupDetailOut(group).data)

    @extend_schema(
        operation_id="groups_comments_list",
        summary="Comments on a failure group",
        responses=CommentOut(many=True),
    )
    @action(detail=True, methods=["get"], serializer_class=CommentOut, pagination_class=NewestFirst)
    def comments(self, request: Request, pk: str) -> Response:
        group = get_object_or_404(FailureGroup, pk=pk)
        return self.page_response(group.comments.select_related("author"), CommentOut)

    @extend_schema(
        summary="Comment on a failure group", request=CommentIn, responses={201: CommentOut}
    )
    @comments.mapping.post
    def add_comment(self, request: Request, pk: str) -> Response:
        group, given = get_object_or_404(FailureGroup, pk=pk), self.validated_body(CommentIn)
        comment = group.comments.create(author=user_of(request), text=given["text"])
        return Response(CommentOut(comment).data, status=201)
