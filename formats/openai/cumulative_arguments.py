"""Detects upstreams that repeat a call's arguments so far in every fragment.

    {"a        {"a": 1      {"a": 1}         cumulative: only the end of each fragment is new
    {"a        ": 1         }                incremental: every fragment is new

An object's text hardly ever continues with its own beginning, so the second fragment decides. A
length and a checksum of the arguments are kept instead of the arguments themselves.
"""

from zlib import crc32

from formats.arguments import Arguments, Status


class CumulativeArguments:
    def __init__(self) -> None:
        self._first = ""
        self._chars = 0
        self._checksum = 0
        self._is_cumulative: bool | None = None  # None until the second fragment

    @property
    def is_incremental(self) -> bool:
        return self._is_cumulative is False

    def new_part(self, fragment: str, *, complete: bool) -> tuple[str, bool]:
        """Return the new part of a fragment, and whether the fragment repeats earlier ones."""
        repeats = False
        if self._chars and fragment:
            if self._is_cumulative is None:
                self._is_cumulative = self._first.startswith("{") and self._is_so_far(fragment)
            if self._is_cumulative and fragment.startswith(self._first):
                repeats = True
            elif complete and self.is_repeat(fragment):
                return "", True
        new = fragment[self._chars :] if repeats else fragment
        self._first = self._first or fragment
        self.append(new)
        return new, repeats

    def append(self, text: str) -> None:
        """Count text that is known to be new."""
        self._chars += len(text)
        self._checksum = crc32(text.encode(errors="surrogatepass"), self._checksum)

    def is_repeat(self, fragment: str) -> bool:
        """True if a fragment equals all arguments received so far."""
        return (
            len(fragment) == self._chars
            and crc32(fragment.encode(errors="surrogatepass")) == self._checksum
        )

    def _is_so_far(self, fragment: str) -> bool:
        """True if a fragment that starts like the first one can be the arguments so far.

        After `{"a":` it may also be a nested object; then it has one closing brace too many.
        """
        if not fragment.startswith(self._first):
            return False
        scan = Arguments()
        _, end = scan.read(fragment)
        return scan.status is not Status.INVALID and not fragment[end:].strip()
