"""A running `arr-coc serve` as the microscope's model: asks go over its API and come back with their allocations.

eye = Remote("http://127.0.0.1:8000").eye("mini").set_image("street.png")
eye.ask("What does the pink sign say?", budget=192)         an `Answer`, as from an `Eye` in this process
"""

from __future__ import annotations

import base64
import json
from collections.abc import Generator
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import Request

from ...core.errors import InputError
from ...core.notebook import png
from ...core.values import Allocation, Answer, JsonObject, Pass
from ...pictures.load import Picture
from .. import web

SECONDS = 300
# More than any answer with its allocation has.
LARGEST_ANSWER = 64 * 1024 * 1024


class Remote:
    """address: as its owner gave it, http or https, with or without /v1. key: that the server asks for."""

    def __init__(self, address: str, key: str | None = None) -> None:
        try:
            parts = urlsplit(address)
            host, _ = parts.hostname, parts.port
        except ValueError:
            parts, host = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not host or parts.username or parts.query or parts.fragment:
            raise InputError(f"--server {address!r} is no address of a server; give for example http://127.0.0.1:8000")
        self.place, self.key = parts.netloc, key
        self.address = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix('/v1')}"

    def models(self) -> list[str]:
        try:
            return [str(one["id"]) for one in self._call("/v1/models")["data"]]
        except (KeyError, TypeError) as error:
            raise InputError(f"{self.place} does not list its models; is it arr-coc serve?") from error

    def eye(self, model: str) -> RemoteEye:
        return RemoteEye(self, model)

    def ask(self, model: str, picture: bytes, query: str, own: JsonObject) -> Answer:
        """One question; own: the field `arr_coc`."""
        url = "data:application/octet-stream;base64," + base64.b64encode(picture).decode()
        content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": query}]
        own = {**own, "want": ["allocation"]}
        body = {"model": model, "messages": [{"role": "user", "content": content}], "arr_coc": own}
        said = self._call("/v1/chat/completions", body)
        try:
            text, told = said["choices"][0]["message"]["content"], said["arr_coc"]
            seen = Allocation.from_json(told["allocation"])
            uncertainty = float(told["uncertainty"])
            look = Pass(seen, int(told["tokens"]), text=text, uncertainty=uncertainty)
            return Answer(text, uncertainty, (look,), dict(told["seconds"]), int(told["full"]), tuple(told["notes"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{self.place} does not tell where its tokens went; is it arr-coc serve?") from error

    def _call(self, path: str, body: JsonObject | None = None) -> JsonObject:
        headers = {"Content-Type": "application/json", "User-Agent": "arr-coc"}
        headers |= {} if self.key is None else {"Authorization": f"Bearer {self.key}"}
        data = None if body is None else json.dumps(body).encode()
        try:
            with web.open_directly(Request(self.address + path, data, headers), SECONDS) as answer:
                return json.loads(answer.read(LARGEST_ANSWER))
        except HTTPError as error:
            raise InputError(f"{self.place} says: {refusal(error)}") from error
        except (OSError, ValueError) as error:
            reason = error.reason if isinstance(error, URLError) else error
            raise InputError(f"{self.place} does not answer ({reason}); is arr-coc serve running there?") from error


class RemoteEye:
    """What the page uses of an `Eye`, on the other side of a server. Maps of relevance stay there."""

    relevance, scorer, record, grip = None, None, None, None

    def __init__(self, remote: Remote, model: str) -> None:
        self.remote, self.model = remote, model
        self._picture = b""

    def set_image(self, image: Picture | str | Path) -> RemoteEye:
        """A `Picture` in all its pixels, or the path of a file."""
        if isinstance(image, Picture):
            self._picture = png(image.pixels)
        else:
            self._picture = Path(image).read_bytes()
        return self

    def ask(
        self,
        query: str,
        budget: int | None = None,
        keep: float | None = None,
        *,
        relevance: object = None,
        scale: float | None = None,
    ) -> Answer:
        own = {"budget": budget, "keep": keep, "relevance": relevance, "scale": scale}
        return self.remote.ask(self.model, self._picture, query, own)

    def stream(
        self, query: str, budget: int | None = None, *, relevance: object = None, scale: float | None = None
    ) -> Generator[str, None, Answer]:
        """As `Eye.stream`, in one piece: where the tokens went is told with the whole answer only."""
        answer = self.ask(query, budget, relevance=relevance, scale=scale)
        yield answer.text
        return answer


def refusal(error: HTTPError) -> str:
    """The one line in which a server refuses."""
    try:
        words = json.loads(error.read(65536))["error"]["message"]
    except (OSError, ValueError, KeyError, TypeError):
        words = None
    return words if isinstance(words, str) else f"status {error.code}"
