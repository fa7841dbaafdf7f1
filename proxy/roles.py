"""Who may do what: groups of people, made by a migration, and the permissions of each.

Staff who are in none of them may log in and see nothing. Content of exchanges is for support alone;
an operator who needs it is put into both groups.
"""

from collections.abc import Mapping

SUPPORT, OPERATORS, DEVELOPERS = "support", "operators", "developers"

_CONFIGURATION = ("upstream", "modelroute", "formatoverride", "clientkey")

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
    # The usage of their own keys, of which `proxy.admin` shows them no others.
    DEVELOPERS: ("view_own_usage",),
}
