"""Estimates the tokens of an image from the pixel size in its base64 header.

Only the few bytes with the size are decoded, however large the image is. Nothing here raises: an
unreadable image, or one given by URL, counts as a large image.
"""

from binascii import a2b_base64

from formats.conversation import Image

# Anthropic scales an image to at most 1568 pixels a side, and counts a token per 750 pixels.
_MAX_SIDE = 1568
_PIXELS_PER_TOKEN = 750
_MAX_TOKENS = 1600
_MAX_SEGMENTS = 64  # before the size in a JPEG; cameras write about ten


def image_tokens(image: Image) -> int:
    width, height = _size(image.data) if image.data else (0, 0)
    if not width or not height:
        return _MAX_TOKENS
    scale = min(1.0, _MAX_SIDE / max(width, height))
    return min(int(width * height * scale * scale / _PIXELS_PER_TOKEN) + 1, _MAX_TOKENS)


def _size(data: str) -> tuple[int, int]:
    """Return width and height of a PNG, GIF, WebP or JPEG; zeros for anything else."""
    head = decode_slice(data, 0, 30)
    if head.startswith(b"\x89PNG"):
        return int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    if head.startswith(b"GIF8"):
        return int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little")
    if head.startswith(b"\xff\xd8"):
        return _jpeg_size(data)
    match head[12:16]:
        case b"VP8X":
            return (
                int.from_bytes(head[24:27], "little") + 1,
                int.from_bytes(head[27:30], "little") + 1,
            )
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
        case b"VP8 ":
            return (
                int.from_bytes(head[26:28], "little") & 0x3FFF,
                int.from_bytes(head[28:30], "little") & 0x3FFF,
            )
    return 0, 0


def _jpeg_size(data: str) -> tuple[int, int]:
    """Walk through the segments: a thumbnail and a colour profile may precede the size."""
    offset = 2
    for _ in range(_MAX_SEGMENTS):
        segment = decode_slice(data, offset, 9)
        if len(segment) < 9 or segment[0] != 0xFF:
            break
        # Frame headers are C0 to CF, except tables (C4, CC) and a reserved one (C8).
        if segment[1] & 0xF0 == 0xC0 and segment[1] not in b"\xc4\xc8\xcc":
            return int.from_bytes(segment[7:9], "big"), int.from_bytes(segment[5:7], "big")
        offset += 2 + int.from_bytes(segment[2:4], "big")
    return 0, 0


def decode_slice(data: str, offset: int, count: int) -> bytes:
    """Decode `count` bytes of base64 from `offset` on; fewer at its end, none if it is invalid."""
    start = offset // 3 * 4
    quads = data[start : start + (count // 3 + 2) * 4]
    try:
        return a2b_base64(quads)[offset % 3 :][:count]
    except ValueError:
        return b""
