"""One server and one credential: calls go out, JSON or an `ApiError` comes back.

Nothing is retried here: a call whose answer was lost may have taken effect.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self, TypeAlias
from urllib.parse import urlsplit

import attrs
import httpx

from client import limits
from client.errors import UNEXPECTED, ApiError, UnreachableError

Read: TypeAlias = Callable[[Any], Any]
"""Makes a value of the JSON of an answer (None: it had none).

Raises LookupError, TypeError or ValueError for JSON that Wakeful never answers to this call.
"""

UNIX: Final = "unix:"
_NO_CONTENT: Final = 204
_PROBLEM: Final = "urn:wakeful:problem:"  # with the code, the type of every refusal of Wakeful
_FOREIGN: Final = (LookupError, TypeError, ValueError, RecursionError)
_TIMEOUT: Final = httpx.Timeout(limits.ANSWER_SECONDS_MAX, connect=limits.CONNECT_SECONDS_MAX)


@attrs.frozen(kw_only=True)
class Server:
    """Where a server is and who calls it.

    `url` is `http://host:port` or `unix:/path/of/socket`; `workspace` an id or a slug, None where
    the token belongs to one workspace only.
    """

    url: str
    token: str = attrs.field(repr=False)
    workspace: str | None = None

    @property
    def socket(self) -> str | None:
        """The path of the Unix socket, None for a TCP address."""
        return self.url.removeprefix(UNIX) if self.url.startswith(UNIX) else None

    @property
    def base(self) -> str:
        """The address that all paths hang on."""
        root = "http://localhost" if self.socket else self.url.rstrip("/")
        return f"{root}/api"

    @property
    def headers(self) -> dict[str, str]:
        """What every call carries."""
        named = {} if self.workspace is None else {"X-Workspace-ID": self.workspace}
        return {"Authorization": f"Bearer {self.token}", **named}

    @property
    def is_local(self) -> bool:
        """Tell whether it is on this machine, where no proxy has anything to do."""
        host = urlsplit(self.url).hostname
        if self.socket or host == "localhost":
            return True
        try:
            return ipaddress.ip_address(host or "").is_loopback
        except ValueError:
            return False


def as_it_is(answered: Any) -> Any:
    """Read any JSON."""
    return answered


class Connection:
    """A synchronous connection; `transport` replaces the network in tests."""

    def __init__(self, server: Server, *, transport: httpx.BaseTransport | None = None) -> None:
        self.server = server
        if transport is None and server.socket:
            transport = httpx.HTTPTransport(uds=server.socket)
        with _usable(server) as options:
            self._http = httpx.Client(transport=transport, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        file: tuple[str, bytes] | None = None,
        read: Read = as_it_is,
    ) -> Any:
        """Return what `read` makes of the JSON of an answer, which is None where it has none.

        Query fields that are None are left out. A `file`, its name and content, goes out as a form
        in place of a body. Raises `ApiError` for a refusal and for an answer that is not Wakeful's
        (`unexpected_answer`), and `UnreachableError` where no answer came.
        """
        files = None if file is None else {"file": file}
        try:
            response = self._http.request(
                method, path, json=body, params=_given(query), headers=headers, files=files
            )
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise _failure(self.server, error) from error
        return answer(response, read)


class AsyncConnection:
    """The same on Trio, where a call ends when its scope is cancelled."""

    def __init__(
        self, server: Server, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self.server = server
        if transport is None and server.socket:
            transport = httpx.AsyncHTTPTransport(uds=server.socket)
        with _usable(server) as options:
            self._http = httpx.AsyncClient(transport=transport, **options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        answer_seconds: float = limits.ANSWER_SECONDS_MAX,
        read: Read = as_it_is,
    ) -> Any:
        """As `Connection.call`; `answer_seconds` is how long the answer may take."""
        timeout = httpx.Timeout(answer_seconds, connect=limits.CONNECT_SECONDS_MAX)
        try:
            response = await self._http.request(
                method, path, json=body, headers=headers, timeout=timeout
            )
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            raise _failure(self.server, error) from error
        return answer(response, read)


def answer(response: httpx.Response, read: Read = as_it_is) -> Any:
    """Return what `read` makes of a good answer; raise `ApiError` for any other.

    What Wakeful never answers is not taken for its word, whatever its status and however well
    formed it is: a proxy may have written it.
    """
    try:
        if response.is_success:
            is_empty = response.status_code == _NO_CONTENT or not response.content
            return read(None if is_empty else response.json())
        refusal = _refusal(response)
    except _FOREIGN:
        raise _no_wakeful(response) from None
    raise refusal


def _refusal(response: httpx.Response) -> ApiError:
    """Return the refusal in a problem document of Wakeful; raises as a `Read` for any other."""
    problem = response.json()
    code = problem["code"]
    if problem["type"] != f"{_PROBLEM}{code}":
        raise ValueError
    details = problem.get("details")
    return ApiError(code, problem["detail"], status=response.status_code, details=details)


def _given(query: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {name: value for name, value in (query or {}).items() if value is not None} or None


def _failure(server: Server, error: Exception) -> UnreachableError:
    """Say that no answer came, with the reason that the system gave."""
    return UnreachableError(f"no answer from {server.url}: {error or type(error).__name__}")


@contextmanager
def _usable(server: Server) -> Iterator[dict[str, Any]]:
    """Give what every client of a server is made with; raise `ApiError` for an address of none."""
    try:
        yield {
            "base_url": server.base,
            "headers": server.headers,
            "timeout": _TIMEOUT,
            "trust_env": not server.is_local,
        }
    except (httpx.InvalidURL, ValueError) as error:
        raise ApiError("invalid_input", f"{server.url} is no address of a server") from error


def _no_wakeful(response: httpx.Response) -> ApiError:
    """Return the error for an answer that Wakeful never gives, such as that of a proxy."""
    text = " ".join(response.text.split())[: limits.ERROR_CHARS_MAX]
    return ApiError(
        UNEXPECTED,
        f"{response.request.url} answered {response.status_code}: {text or 'nothing'}",
        status=response.status_code,
    )
