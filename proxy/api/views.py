"""The endpoints: exchanges, their transcripts and replays, and groups of failures."""

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

from proxy.api.access import Guarded, user_of
from proxy.api.errors import NotPossible
from proxy.api.pages import LastSeenFirst, NewestFirst
from proxy.api.parsing import is_text
from proxy.api.serializers import (
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
from proxy.audit.transcripts.codec import Unreadable
from proxy.database.clock import clock
from proxy.models import Exchange, FailureGroup, GroupState, Transcript
from proxy.support.exchange_list import FILTERS, BadFilter, filtered
from proxy.support.replay import NotReplayable, replay

list_of = list  # classes below have a method of this name
_PAGING = ("cursor", "page_size")
_HELP = {
    "outcome": "One of the outcomes, or `failed` for any that somebody should look at.",
    "key": "The number of a client key.",
    "code": "An error code.",
    "leaked": "The format of markup that leaked into text, or `any`.",
    "group": "The number of a group of failures.",
    "rescued": "`any`: with a call that was rescued from text.",
    "served_by": "Who answered behind the upstream, as it says; `none` where it does not.",
    "since": "A time, or `1h`, `24h`, `7d`, `30d`, `90d`.",
    "until": "A time.",
}


class ReplayRate(UserRateThrottle):
    """A replay costs CPU, other requests hardly any."""

    scope = "replay"


class Endpoint(viewsets.GenericViewSet[Any], Guarded):
    filters: tuple[str, ...] = ()

    def query(self) -> dict[str, str]:
        """The filters of the request; raises ValidationError for one that is not known."""
        found = {name: str(value) for name, value in self.request.query_params.items()}
        unknown = found.keys() - {*self.filters, *_PAGING}
        if unknown:
            raise ValidationError({sorted(unknown)[0]: ["There is no such filter."]})
        for name, value in found.items():
            if not is_text(value):
                raise ValidationError({name: ["It has a character that is no text."]})
        return found

    def taken(self, serializer: type[BaseSerializer[Any]]) -> dict[str, Any]:
        """What was sent, checked; raises ValidationError."""
        given = serializer(data=self.request.data)
        given.is_valid(raise_exception=True)
        checked: dict[str, Any] = given.validated_data
        return checked

    def may(self, permission: str) -> bool:
        return bool(self.request.user.has_perm(f"proxy.{permission}"))

    def paged(self, rows: "QuerySet[Any]", serializer: type[BaseSerializer[Any]]) -> Response:
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
    needs = {
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
            rows = filtered(self.query(), clock.now())
        except BadFilter as error:
            raise ValidationError(str(error)) from error
        return self.paged(rows, ExchangeOut)

    @extend_schema(summary="The replays of an exchange", responses=ReplayOut(many=True))
    @action(detail=True, methods=["get"], serializer_class=ReplayOut)
    def replays(self, request: Request, request_id: str) -> Response:
        rows = self.get_object().replays.select_related("author").defer("events", "sent")
        return self.paged(rows, ReplayOut)

    @extend_schema(
        summary="Read a stored answer again",
        description="With today's code and configuration, or as asked. No network is used, and "
        "the original stays as it is.",
        request=ReplayIn,
        responses={201: ReplayContentOut, 409: Problem},
    )
    @replays.mapping.post
    def make_replay(self, request: Request, request_id: str) -> Response:
        exchange, options = self.get_object(), self.taken(ReplayIn)
        try:
            made = replay(
                exchange,
                format_name=options.get("format"),
                held_chars=options.get("buffer_limit"),
                strict=options.get("strict"),
                author=user_of(request),
            )
        except NotReplayable as error:
            raise NotPossible(f"It cannot be replayed: {error}.") from error
        made.save()
        serializer = ReplayContentOut if self.may("view_transcript") else ReplayOut
        return Response(serializer(made).data, status=201)

    def get_throttles(self) -> "list_of[BaseThrottle]":
        rates = super().get_throttles()
        return [*rates, ReplayRate()] if self.action == "make_replay" else list_of(rates)


@extend_schema_view(
    retrieve=extend_schema(
        summary="What an exchange said", responses={200: TranscriptOut, 409: Problem}
    )
)
class Transcripts(mixins.RetrieveModelMixin, Endpoint):
    needs = {"retrieve": ("view_exchange", "view_transcript")}
    queryset = Transcript.objects.select_related("exchange", "standing")
    serializer_class = TranscriptOut
    lookup_field = "exchange__request_id"
    lookup_url_kwarg = "request_id"
    lookup_value_regex = Exchanges.lookup_value_regex

    def get_object(self) -> Any:
        row = super().get_object()
        try:
            row.content  # noqa: B018  whether it can be opened
        except Unreadable as error:
            raise NotPossible(f"It cannot be read: {error}.") from error
        return row


@extend_schema_view(retrieve=extend_schema(summary="One group", responses=GroupDetailOut))
class Groups(mixins.RetrieveModelMixin, Endpoint):
    needs = {
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
        summary="Groups of failures, those that failed last first",
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
                raise ValidationError({"state": [f"One of {', '.join(GroupState.values)}."]})
            rows = rows.filter(state=state)
        if query.get("format"):
            rows = rows.filter(format=query["format"])
        if query.get("code"):
            rows = rows.filter(error_code=query["code"])
        return self.paged(rows, GroupOut)

    @extend_schema(
        summary="Change who looks after a group", request=GroupIn, responses=GroupDetailOut
    )
    def partial_update(self, request: Request, pk: str) -> Response:
        group, changed = self.get_object(), self.taken(GroupIn)
        for name, value in changed.items():
            setattr(group, name, value)
        if changed:
            group.save(update_fields=list(changed))
        return Response(GroupDetailOut(group).data)

    @extend_schema(
        operation_id="groups_comments_list",
        summary="What was said about a group",
        responses=CommentOut(many=True),
    )
    @action(detail=True, methods=["get"], serializer_class=CommentOut, pagination_class=NewestFirst)
    def comments(self, request: Request, pk: str) -> Response:
        group = get_object_or_404(FailureGroup, pk=pk)
        return self.paged(group.comments.select_related("author"), CommentOut)

    @extend_schema(
        summary="Say something about a group", request=CommentIn, responses={201: CommentOut}
    )
    @comments.mapping.post
    def add_comment(self, request: Request, pk: str) -> Response:
        group, given = get_object_or_404(FailureGroup, pk=pk), self.taken(CommentIn)
        made = group.comments.create(author=user_of(request), text=given["text"])
        return Response(CommentOut(made).data, status=201)
