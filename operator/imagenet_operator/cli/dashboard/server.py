"""Answers requests for pages: who may ask, what they get, and whether it has changed.

`Guard` stands before everything else: the name in Host, the method, the token. A page has an ETag,
so that asking for it again costs nothing while nothing has changed. The time of its reading is in a
header, since that always changes.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache
from importlib import resources
from string import Template
from typing import Any, Final
from urllib.parse import quote, urlencode

from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from imagenet_operator.cli.dashboard import pages
from imagenet_operator.cli.dashboard.pages import Page
from imagenet_operator.cli.dashboard.readings import Reading, Readings
from imagenet_operator.page import html, render
from imagenet_spec.names import VERSION

HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")
"""The names of this machine's loopback. Another one in Host is that of a site whose name leads
here (DNS rebinding). Ports differ where the connection is forwarded."""

READ_AT: Final = "Read-At"
"""The header with the time of a page's reading."""

_OF_THE_REPORT: Final = {
    "uPlot.min.css": f"{render.CHARTS}/uPlot.min.css",
    "uPlot.iife.min.js": f"{render.CHARTS}/uPlot.iife.min.js",
    "page.css": "page.css",
    "page.js": "page.js",
}
"""Files that the page of a report has too: the name in an address and the file."""

_OWN: Final = ("dashboard.css", "live.js")

_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src data:; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}

_WRITTEN_MAXIMUM: Final = 64
"""Pages that are kept as they were written."""


class Guard:
    """Lets requests in that name this machine, only read, and have the token.

    The token comes once in the address and then in a cookie. The port tells the cookies of two
    dashboards apart.
    """

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self._app = app
        self._token = token.encode()
        self._cookie = f"imagenet-dashboard-{port}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        request = Request(scope)
        refusal = self._refusal(request)
        await (refusal or self._app)(scope, receive, send_safely)

    def _refusal(self, request: Request) -> Response | None:
        host, _, port = request.headers.get("Host", "").lower().rpartition(":")
        if (host if port.isdecimal() else request.headers.get("Host", "").lower()) not in HOSTS:
            return _refused(
                421,
                "Another name",
                "This dashboard answers at 127.0.0.1 and localhost only. Forward its port to look "
                "at it from another machine: ssh -L PORT:127.0.0.1:PORT MACHINE",
            )
        if request.method not in ("GET", "HEAD"):
            refusal = _refused(405, "Read only", "A dashboard changes nothing: it answers GET.")
            refusal.headers["Allow"] = "GET, HEAD"
            return refusal
        if request.url.path.startswith("/assets/"):
            return None
        given = request.query_params.get("token")
        if given is not None and self._is_token(given):
            rest = [item for item in request.query_params.multi_items() if item[0] != "token"]
            # Two slashes at its beginning would lead to another machine.
            location = "/" + quote(request.url.path.lstrip("/\\"))
            answer = RedirectResponse(f"{location}?{urlencode(rest)}" if rest else location, 303)
            # Strict would not come with this redirection after a click in another site, such as
            # the terminal of JupyterLab. Lax comes with the GET of a whole page alone.
            answer.set_cookie(
                self._cookie, self._token.decode(), httponly=True, samesite="lax", path="/"
            )
            return answer
        if self._is_token(request.cookies.get(self._cookie, "")):
            return None
        return _refused(
            403,
            "The token is missing",
            "Open the whole address that imagenetctl dashboard has printed, with ?token= at its "
            "end. Each start of the dashboard has a new token.",
        )

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(errors="replace"), self._token)


def _refused(status: int, heading: str, sentence: str) -> Response:
    body = _Written(pages.refused(heading, sentence), "").body("")
    return Response(body, status, media_type="text/html")


class _Written:
    def __init__(self, page: Page, place: str) -> None:
        self._parts = {
            "title": html.text(page.title),
            "current": ' aria-current="page"' if page.has_list else "",
            "live": "" if page.is_live else " hidden",
            "place": html.text(place),
            "content": page.content,
            "data": render.as_data(page.charts),
            "version": VERSION,
            "licence": render.licence(),
        }
        digest = hashlib.sha256("\0".join(self._parts.values()).encode()).hexdigest()
        self.etag = f'"{digest[:32]}"'

    def body(self, read_at: str) -> str:
        """Return the document; `read_at` is the time of the reading, as ISO 8601."""
        return Template(_asset("dashboard.html")).substitute(self._parts, read_at=read_at)


class Pages:
    """The pages, of which those that were written last are kept."""

    def __init__(self, readings: Readings) -> None:
        self._readings = readings
        self._written: OrderedDict[str, tuple[tuple[int, ...], _Written]] = OrderedDict()

    async def list_jobs(self, request: Request) -> Response:
        reading = await self._readings.listed()
        chosen = set(request.query_params.getlist("job"))
        options = self._readings.options
        return self._answer(request, (reading,), lambda: pages.listed(reading, options, chosen))

    async def show_job(self, request: Request) -> Response:
        name = request.path_params["name"]
        reading = await self._readings.job(name)
        if reading is None:
            place = self._readings.place
            body = _Written(pages.missing(name, place), place).body("")
            return Response(body, 404, media_type="text/html")
        return self._answer(request, (reading,), lambda: pages.of_job(reading, name))

    async def compare_jobs(self, request: Request) -> Response:
        names = list(dict.fromkeys(request.query_params.getlist("job")))
        read = names if 2 <= len(names) <= pages.COMPARED_MAXIMUM else []
        readings = await asyncio.gather(*map(self._readings.job, read))
        return self._answer(request, readings, lambda: pages.compared(names, readings))

    def _answer(
        self, request: Request, readings: Sequence[Reading[Any] | None], write: Callable[[], Page]
    ) -> Response:
        """Answer with a page; it is written if a reading differs from when it was written last."""
        numbers = tuple(-1 if one is None else one.number for one in readings)
        key = f"{request.url.path}?{request.url.query}"
        kept = self._written.get(key)
        if kept is None or kept[0] != numbers:
            kept = self._written[key] = numbers, _Written(write(), self._readings.place)
        self._written.move_to_end(key)
        if len(self._written) > _WRITTEN_MAXIMUM:
            self._written.popitem(last=False)
        read = [one.at for one in readings if one is not None and one.at is not None]
        read_at = min(read).isoformat() if read else ""
        headers = {"ETag": kept[1].etag, READ_AT: read_at}
        if request.headers.get("If-None-Match") == kept[1].etag:
            return Response(status_code=304, headers=headers)
        return Response(kept[1].body(read_at), headers=headers, media_type="text/html")


def application(readings: Readings, token: str, port: int) -> ASGIApp:
    """Return the application of a dashboard, for viewers with the token."""
    found = Pages(readings)
    routes = [
        Route("/", found.list_jobs),
        Route("/jobs/{name}", found.show_job),
        Route("/compare", found.compare_jobs),
        Route("/assets/{name}", _send_asset),
    ]
    return Guard(Starlette(routes=routes, exception_handlers={404: _not_found}), token, port)


async def _not_found(request: Request, error: Exception) -> Response:
    del request, error
    return _refused(404, "No such page", "The list of all jobs is at the address /.")


async def _send_asset(request: Request) -> Response:
    name = request.path_params["name"]
    if (file := _OF_THE_REPORT.get(name)) is not None:
        content = render.asset(file)
    elif name in _OWN:
        content = _asset(name)
    else:
        raise HTTPException(404)
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    return Response(content, media_type=kind)


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
