"""`--help` of the gateway's own commands."""

from argparse import ArgumentParser, _SubParsersAction

import pytest
from django.core.management import get_commands, load_command_class

OWN = sorted(name for name, app in get_commands().items() if app == "proxy")


def arguments(parser: ArgumentParser):
    for action in parser._actions:
        yield action
        if isinstance(action, _SubParsersAction):
            for verb in action.choices.values():
                yield from arguments(verb)


@pytest.mark.parametrize("name", OWN)
def test_every_argument_is_explained(name):
    command = load_command_class("proxy", name)
    assert command.help
    parser = command.create_parser("manage.py", name)
    silent = [
        action.option_strings or action.dest
        for action in arguments(parser)
        if not action.help and not isinstance(action, _SubParsersAction)
    ]
    assert silent == []
