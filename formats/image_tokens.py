"""What an image costs in tokens, by the pixel size that its base64 header tells.

Only the few bytes that say it are decoded, whatever the image weighs. Nothing here fails: what
cannot be read, or is only linked, counts as a large image.
"""

from binascii import a2b_base64

from formats.conversation import Image

# Anthropic scales an image to 1568 pixels, and counts a token for 750 of them.
_SIDE = 1568
_PIXELS = 750
_MOST = 1600
_SEGMENTS = 64  # of a JPEG before its size; cameras write about ten


def image_tokens(image: Image) -> int:
    """About how many tokens an image is."""
    width, height = _size(image.data) if image.data else (0, 0)
    if not width or not height:
        return _MOST
    scale = min(1.0, _SIDE / max(width, height))
    return min(int(width * height * scale * scale / _PIXELS) + 1, _MOST)


def _size(data: str) -> tuple[int, int]:
    """Width and height of a PNG, GIF, WebP or JPEG; zeros for anything else."""
    head = decoded(data, 0, 30)
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
    """Goes from segment to segment, as a thumbnail and a colour profile may stand first."""
    offset = 2
    for _ in range(_SEGMENTS):
        segment = decoded(data, offset, 9)
        if len(segment) < 9 or segment[0] != 0xFF:
            break
        # Frame headers are C0 to CF, but for tables (C4, CC) and a reserved one (C8).
        if segment[1] & 0xF0 == 0xC0 and segment[1] not in b"\xc4\xc8\xcc":
            return int.from_bytes(segment[7:9], "big"), int.from_bytes(segment[5:7], "big")
        offset += 2 + int.from_bytes(segment[2:4], "big")
    return 0, 0


def decoded(data: str, offset: int, count: int) -> bytes:
    """Some bytes of base64, without decoding the rest; fewer where it ends or is none."""
    start = offset // 3 * 4
    quads = data[start : start + (count // 3 + 2) * 4]
    try:
        return a2b_base64(quads)[offset % 3 :][:count]
    except ValueError:
        return b""
