"""Roles: user groups, created by a migration, and their permissions.

Staff without a role can log in but see nothing. Only support sees the content of exchanges; an
operator who needs it gets both roles.
"""

from collections.abc import Mapping

SUPPORT, OPERATORS, DEVELOPERS = "support", "operators", "developers"

_CONFIGURATION = ("upstream", "modelroute", "formatoverride", "formatdefinition", "clientkey")

ROLES: Mapping[str, tuple[str, ...]] = {
    SUPPORT: (
        "view_exchange",
        "view_transcript",
        "view_failuregroup",
        "change_failuregroup",
        "view_comment",
        "add_comment",
        "view_replay",
        "add_replay",
        "view_formatdefinition",
    ),
    OPERATORS: (
        *(
            f"{verb}_{name}"
            for name in _CONFIGURATION
            for verb in ("add", "change", "delete", "view")
        ),
        "change_formatsettings",
        "view_formatsettings",
        "change_gatewaysettings",
        "view_gatewaysettings",
        "view_exchange",
        "view_failuregroup",
        "view_comment",
    ),
    # Usage of their own keys only: the pages filter by owner.
    DEVELOPERS: ("view_own_usage",),
}
