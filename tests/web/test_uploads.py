"""Files on their way in and out: forms that are read or refused, downloads that run nothing."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import limits
from engine.domain.commands.conversation import CreateAttachment
from engine.domain.views.conversation import FileContent
from engine.errors import WakefulError
from tests.web.conftest import Server
from tests.web.stand_in import MEMBER, WORKSPACE, Asked, StandInEngine
from tests.web.traffic import answer, request
from web import body

TYPE: Final = "multipart/form-data; boundary=b"


def part(disposition: str = 'name="file"; filename="a.txt"', content: bytes = b"x") -> bytes:
    """Return one part of a form."""
    return (
        f"--b\r\nContent-Disposition: form-data; {disposition}\r\n\r\n".encode() + content + b"\r\n"
    )


def form(*parts: bytes) -> bytes:
    """Return a whole form."""
    return b"".join(parts) + b"--b--\r\n"


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"\r\n", b"--b", b"\r\n--", b"\x00\xff\r\n\r\n--bb\r\n", b"\r\n--" * 5_000],
)
async def test_an_upload_becomes_its_command(
    client: httpx.AsyncClient, stand_in: StandInEngine, content: bytes
) -> None:
    """A form with one file reaches the engine with name, type and the very bytes."""
    files = {"file": ('Übersicht "1".txt', content, "text/plain")}
    response = await client.post("/attachments", files=files)
    assert response.status_code == 201, response.text
    assert stand_in.asked == [
        CreateAttachment(
            workspace_id=WORKSPACE,
            filename='Übersicht "1".txt',
            content=content,
            content_type="text/plain",
        )
    ]


async def test_an_upload_without_a_type_has_none(
    client: httpx.AsyncClient, stand_in: StandInEngine
) -> None:
    """What a form does not say of its file is not made up; the command's default stands."""
    response = await client.post(
        "/attachments", content=form(part()), headers={"Content-Type": TYPE}
    )
    assert response.status_code == 201, response.text
    assert stand_in.asked == [
        CreateAttachment(workspace_id=WORKSPACE, filename="a.txt", content=b"x")
    ]


REFUSED: Final[tuple[tuple[str, bytes, str, str], ...]] = (
    (TYPE, form(), "missing_field", "file"),
    (TYPE, form(part(), part()), "invalid_input", "file"),
    (TYPE, form(part('name="file"')), "missing_field", "filename"),
    (TYPE, form(part('name="file"; filename=""')), "missing_field", "filename"),
    (TYPE, form(part('name="file"; filename="a\x00"')), "invalid_encoding", "filename"),
    (TYPE, form(part('name="other"; filename="a"')), "unknown_field", "other"),
    (TYPE, form(part('name="issue_id"')), "unknown_field", "issue_id"),
    (TYPE, form(part(), part('name="url"')), "invalid_input", "file"),
    (TYPE, form(part(f'name="file"; filename="{"x" * 20_000}"')), "invalid_multipart", "file"),
    (TYPE, b"\r\n" * 10_000 + form(part()), "invalid_multipart", "file"),
    (TYPE, form(part('filename="a"')), "unknown_field", ""),
    (TYPE, b"", "invalid_multipart", "file"),
    (TYPE, b"nothing", "invalid_multipart", "file"),
    (TYPE, part(), "invalid_multipart", "file"),
    (TYPE, form(part())[:-6], "invalid_multipart", "file"),
    (TYPE, b"--b\r\n\r\nx\r\n--b--\r\n", "invalid_multipart", "file"),
    (TYPE, b"--b\r\nContent-Disposition\xff: x\r\n\r\n", "invalid_encoding", "file"),
    (TYPE, b"--c\r\n" + form(part()).replace(b"--b", b"--c"), "invalid_multipart", "file"),
    ("multipart/form-data", form(part()), "invalid_multipart", "file"),
    ('multipart/form-data; boundary=""', form(part()), "invalid_multipart", "file"),
    ("multipart/form-data; boundary*=utf-8''%C3%A4", form(part()), "invalid_multipart", "file"),
    ("application/json", form(part()), "invalid_json", ""),
)


@pytest.mark.parametrize(("media_type", "raw", "code", "field"), REFUSED)
async def test_a_bad_form_is_refused(
    client: httpx.AsyncClient,
    stand_in: StandInEngine,
    media_type: str,
    raw: bytes,
    code: str,
    field: str,
) -> None:
    """No file, several, one without a name, other parts, half a form: 400 with code and field."""
    response = await client.post("/attachments", content=raw, headers={"Content-Type": media_type})
    assert response.status_code == 400, response.text
    problem = response.json()
    assert problem["code"] == code
    assert problem.get("details", {}).get("field", "") == field
    assert stand_in.asked == []


async def test_a_form_is_taken_where_files_are(client: httpx.AsyncClient) -> None:
    """Every other route takes JSON alone, whatever is in the form: 415."""
    for path in ("/issues", "/issues/WF-12/comments", f"/attachments/{WORKSPACE}/binding"):
        method = "PUT" if path.endswith("binding") else "POST"
        response = await client.request(method, path, files={"file": ("a", b"x")})
        assert response.status_code == 415


async def test_a_file_has_the_bound_of_every_body(
    client: httpx.AsyncClient, server: Server, stand_in: StandInEngine
) -> None:
    """A form over 1 MiB is 413 where it says so, 400 where it does not; one below is taken."""
    content = b"x" * (limits.BODY_BYTES_MAX - 1_000)
    assert (await client.post("/attachments", files={"file": ("a", content)})).status_code == 201
    stand_in.asked.clear()
    whole = form(part(content=b"x" * limits.BODY_BYTES_MAX))
    response = await client.post("/attachments", content=whole, headers={"Content-Type": TYPE})
    assert (response.status_code, response.json()["code"]) == (413, "payload_too_large")
    chunked = f"Transfer-Encoding: chunked\r\nContent-Type: {TYPE}\r\n"
    raw = request("POST /api/attachments", headers=chunked).replace(b"Content-Length: 0\r\n", b"")
    raw += b"%x\r\n" % len(whole) + whole + b"\r\n0\r\n\r\n"
    status, problem = answer(await server.exchange(raw))
    assert (status, problem["code"]) == (400, "body_too_large")
    assert stand_in.asked == []


@given(st.binary() | st.lists(st.sampled_from([part(), b"--b", b"\r\n", b"--", b": x"])))
def test_no_bytes_crash_the_reader(raw: bytes | list[bytes]) -> None:
    """Any bytes are one file with a name, or a 400 that names a field."""
    raw = raw if isinstance(raw, bytes) else b"".join(raw)
    refusal = None
    try:
        fields = body.upload(raw, "b")
    except WakefulError as error:
        refusal = error
    if refusal is None:
        assert fields["filename"]
        assert isinstance(fields["content"], bytes)
    else:
        assert refusal.kind.status == 400
        assert "field" in refusal.details


@given(st.binary(max_size=300))
def test_every_content_arrives(content: bytes) -> None:
    """Whatever a file holds is read back, unless it holds the form's own boundary."""
    if b"--b" not in content:
        assert body.upload(form(part(content=content)), "b")["content"] == content


@pytest.mark.parametrize(
    ("filename", "disposition"),
    [
        ("plan.txt", "attachment; filename=plan.txt"),
        ('a "b"; c.html', 'attachment; filename="a \\"b\\"; c.html"'),
        ("Übersicht.svg", "attachment; filename*=UTF-8''%C3%9Cbersicht.svg"),
        ("a\u202egpj.exe", "attachment; filename*=UTF-8''a%E2%80%AEgpj.exe"),
    ],
)
async def test_a_download_is_kept_and_not_run(
    client: httpx.AsyncClient, stand_in: StandInEngine, filename: str, disposition: str
) -> None:
    """RFC 6266: a file goes out as bytes to save; no type, frame or script of it means anything."""
    content = b"<script>alert(1)</script>"

    async def html(_asked: Asked) -> Any:
        return FileContent(filename=filename, content=content)

    stand_in.answer = html
    response = await client.get(f"/attachments/{UUID(int=1)}/content")
    assert (response.status_code, response.content) == (200, content)
    assert response.headers["content-disposition"] == disposition
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.headers["x-content-type-options"] == "nosniff"
    policy = response.headers["content-security-policy"].split("; ")
    assert {"default-src 'none'", "sandbox"} <= set(policy)
    assert response.headers["cross-origin-resource-policy"] == "same-origin"
    assert response.headers["cache-control"] == "no-store"


async def test_a_kept_answer_is_told_by_the_whole_form(
    server: Server, stand_in: StandInEngine
) -> None:
    """W-033: an upload with a key counts as another request when one byte of the file differs."""
    async with server.client(MEMBER, **{"Idempotency-Key": "k"}) as client:
        for content in (b"x", b"x", b"y"):
            await client.post("/attachments", files={"file": ("a", content)})
    asked = [each for each in stand_in.asked if isinstance(each, CreateAttachment)]
    digests = [each.once.digest for each in asked if each.once is not None]
    assert digests[0] == digests[1] != digests[2]
