"""Management API settings: Django REST framework and the OpenAPI schema."""

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "proxy.api.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["proxy.api.authentication.DenyAll"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["proxy.api.json_parser.StorableJsonParser"],
    "DEFAULT_THROTTLE_CLASSES": [
        "rest_framework.throttling.AnonRateThrottle",
        "rest_framework.throttling.UserRateThrottle",
    ],
    # Counted per process.
    "DEFAULT_THROTTLE_RATES": {"anon": "60/min", "user": "600/min", "replay": "60/min"},
    "NUM_PROXIES": 0,  # the server has already resolved the client's address
    "URL_FORMAT_OVERRIDE": None,  # `?format=` is a filter of the API
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "proxy.api.errors.error_response",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "Athena management API",
    "DESCRIPTION": "Exchanges, transcripts, replays and failure groups; and the gateway's "
    "configuration: upstreams, routes, formats and client keys.",
    "VERSION": "0.1.0",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api",
    "ENUM_NAME_OVERRIDES": {
        "Phase": "proxy.models.Phase",
        "GroupState": "proxy.models.GroupState",
        "SettableState": "proxy.api.audit_serializers.SETTABLE",
        "Service": "proxy.models.Service",
        "Reasoning": "proxy.models.Reasoning",
        "Dialect": "proxy.models.upstreams.dialect_choices",
        "KeyState": "proxy.models.KeyState",
        "ChangeKind": "proxy.api.configuration_serializers.CHANGE_KINDS",
        "FormatReason": "proxy.api.configuration_serializers.FORMAT_REASONS",
    },
    "ENABLE_DJANGO_DEPLOY_CHECK": False,
}
