"""Tells an upstream that repeats a call's arguments so far from one that sends only what is new.

The text of an object hardly ever follows its own beginning, so the second fragment decides, and
nothing but a checksum needs to be kept.
"""

from zlib import crc32

from formats.arguments import Arguments, Status


class Repeats:
    def __init__(self) -> None:
        self._first = ""
        self._chars = 0
        self._sum = 0
        self._is_cumulative: bool | None = None

    def addition(self, fragment: str, *, complete: bool) -> tuple[str, bool]:
        """The new part of a fragment, and whether the fragment repeated an old one."""
        repeats = False
        if self._chars and fragment:
            if self._is_cumulative is None:
                self._is_cumulative = self._first.startswith("{") and self._is_whole(fragment)
            if self._is_cumulative and fragment.startswith(self._first):
                repeats = True
            elif complete and self.repeats(fragment):
                return "", True
        new = fragment[self._chars :] if repeats else fragment
        self._first = self._first or fragment
        self.note(new)
        return new, repeats

    @property
    def sends_what_is_new(self) -> bool:
        return self._is_cumulative is False

    def note(self, text: str) -> None:
        self._chars += len(text)
        self._sum = crc32(text.encode(errors="surrogatepass"), self._sum)

    def _is_whole(self, fragment: str) -> bool:
        """Whether a fragment that begins like the first can be the arguments so far.

        Behind `{"a":` it may also be a nested object; then it has a brace too many.
        """
        if not fragment.startswith(self._first):
            return False
        scan = Arguments()
        _, end = scan.read(fragment)
        return scan.status is not Status.INVALID and not fragment[end:].strip()

    def repeats(self, fragment: str) -> bool:
        return (
            len(fragment) == self._chars
            and crc32(fragment.encode(errors="surrogatepass")) == self._sum
        )
