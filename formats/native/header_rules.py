"""Named rules that read a tool's name from the header of a call between tokens.

A definition chooses one by its name. `read` gets the text before ARGUMENTS_BEGIN; `read_preamble`
gets the text between ARGUMENTS_BEGIN and the JSON, if `read` says that the name follows.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from formats.native.grammar import Name, Unnamed
from formats.toolbox import Toolbox

_COUNTED = re.compile(r"(.+):\d+", re.DOTALL)
_USABLE = re.compile(r"[A-Za-z0-9_.:-]+")
_PUNCTUATION = re.compile(r"(?:(?<!\s)\s++)?([.:])\s*+")
_OTHERS_ID = re.compile(r"(?:call|toolu)_(?=.*\d).+")
_SQUASHED = re.compile(r"functions[._]?(.+?)_?\d+")
_FENCED = re.compile(r"\s*([^\s`]+)\s*(?:```[A-Za-z]*\s*)?(?:```\s*)?")


def _no_preamble(preamble: str) -> Name:
    return Unnamed.BAD


class HeaderRule(NamedTuple):
    read: Callable[[str, Toolbox], Name]
    read_preamble: Callable[[str], Name] = _no_preamble


def read_name(header: str, toolbox: Toolbox) -> Name:
    """`get_tide`"""
    return toolbox.resolve(header) if header and len(header.split()) == 1 else Unnamed.BAD


def read_counted_name(header: str, toolbox: Toolbox) -> Name:
    """`functions.get_tide:0`, where the number counts the calls; models vary it in many ways."""
    # Detokenisers add spaces around punctuation, and models add newlines.
    header = _PUNCTUATION.sub(r"\1", header)
    if not header or header.isdigit():  # K2.5 leaves only the counter
        return Unnamed.COUNTER
    if not _USABLE.fullmatch(header):
        return Unnamed.BAD
    counted = _COUNTED.fullmatch(header)
    name = (counted[1] if counted else header).removeprefix("functions.")
    for candidate in (name, name.rpartition(".")[2]):
        if candidate in toolbox:
            return candidate
    if counted:
        return name or Unnamed.BAD
    # Clients that forbid dots and colons in ids turn `functions.f:3` into `functions_f_3`.
    squashed = _SQUASHED.fullmatch(header)
    if squashed and squashed[1] in toolbox:
        return squashed[1]
    return Unnamed.COUNTER if _OTHERS_ID.fullmatch(header) else Unnamed.BAD


def read_type_or_name(header: str, toolbox: Toolbox) -> Name:
    """`get_tide`, or `function`, with the name after the token."""
    if header == "function" and header not in toolbox:
        return Unnamed.AFTER_SEPARATOR
    return header if _USABLE.fullmatch(header) else Unnamed.BAD


def read_name_in_preamble(preamble: str) -> Name:
    if not preamble.strip():
        return "function"  # a tool of this name
    fenced = _FENCED.fullmatch(preamble)
    return fenced[1] if fenced else Unnamed.BAD


HEADER_RULES: Mapping[str, HeaderRule] = {
    "name": HeaderRule(read_name),
    "counted_name": HeaderRule(read_counted_name),
    "type_or_name": HeaderRule(read_type_or_name, read_name_in_preamble),
}
