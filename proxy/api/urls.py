"""The addresses of the management API."""

from django.urls import path
from rest_framework.routers import SimpleRouter

from proxy.api.docs import Schema, docs
from proxy.api.views import Exchanges, Groups, Transcripts

router = SimpleRouter()
router.register("exchanges", Exchanges, basename="exchange")
router.register("groups", Groups, basename="group")
router.register("transcripts", Transcripts, basename="transcript")

urlpatterns = [
    *router.urls,
    path("schema/", Schema.as_view(), name="schema"),
    path("docs/", docs, name="docs"),
]
