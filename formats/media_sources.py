"""Parses the `source` of images and documents: Anthropic's form, which other clients also send."""

import msgspec
from msgspec import Raw, Struct

from formats.conversation import Document, Image
from formats.json_codec import ABSENT, value_or_none
from formats.request_errors import parse_json


class Source(Struct):
    type: str
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    content: Raw = ABSENT


class _Text(Struct):
    text: str


_string = msgspec.json.Decoder(str)
_texts = msgspec.json.Decoder(list[_Text])


def image_from_source(source: Source) -> Image | None:
    """Return the image; None if it is a file stored at Anthropic."""
    if source.url is not None:
        return Image(url=source.url)
    if source.data is not None:
        return Image(media_type=source.media_type or "image/png", data=source.data)
    return None


def document_from_source(source: Source, title: str | None, path: str) -> Document | None:
    """Return the document; None if it is a file stored at Anthropic. Raises ClientError."""
    if source.type == "text":
        return Document(text=source.data or "", title=title)
    if source.type == "content":
        content = value_or_none(source.content) or b"null"
        if content.startswith(b"["):
            texts = parse_json(_texts, content, path=f"{path}.source.content")
            return Document(text="\n".join(text.text for text in texts), title=title)
        return Document(text=parse_json(_string, content, path=path), title=title)
    if source.url is not None:
        return Document(url=source.url, title=title)
    if source.data is not None:
        media_type = source.media_type or "application/pdf"
        return Document(media_type=media_type, data=source.data, title=title)
    return None
