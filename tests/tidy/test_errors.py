"""The table of errors: each code has advice, something raises it, and the page is current."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Final

from engine.advice import ADVICE
from engine.errors import KINDS
from tests.tidy import error_page, sources
from tests.tidy.sources import Source

NEW_ERRORS: Final = frozenset({"WakefulError", "__init__"})


def raised_codes(source: Source) -> Iterator[str]:
    """Yield every text that a module makes an error of: `WakefulError(code, ...)`, `code=...`."""
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]) if (
                name in NEW_ERRORS
            ):
                yield from texts(first)
            case ast.FunctionDef(args=ast.arguments(kwonlyargs=names, kw_defaults=defaults)):
                for argument, default in zip(names, defaults, strict=True):
                    if argument.arg == "code" and default is not None:
                        yield from texts(default)
            case ast.keyword(arg="code", value=value):
                yield from texts(value)
            case _:
                pass


def texts(node: ast.expr) -> Iterator[str]:
    """Yield the texts in an expression: one, or those between which it chooses."""
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def unraised(codes: Iterable[str], modules: Iterable[Source]) -> set[str]:
    """Return the codes that no module makes an error of."""
    return set(codes) - {code for source in modules for code in raised_codes(source)}


def test_every_code_is_raised_somewhere() -> None:
    """No code stands in the table that nothing raises."""
    assert unraised(KINDS, sources.python(under=sources.PRODUCT)) == set()


def test_a_code_that_is_only_compared_is_not_raised() -> None:
    """A code counts as raised where an error is made of it, and not where one is looked at."""
    text = (
        "raise WakefulError('a', 'b')\n"
        "def made(*, code: str = 'c') -> None: ...\n"
        "made(code='d' if x else 'e')\n"
        "super().__init__('f')\n"
        "error.code == 'g'\n"
    )
    assert unraised("abcdefg", [Source("x.py", text)]) == {"b", "g"}


def test_every_code_has_advice() -> None:
    """Each code says in whole sentences why it comes and what to do, and there is no other."""
    assert set(ADVICE) == set(KINDS)
    for code, advice in ADVICE.items():
        for text in (advice.cause, advice.remedy):
            assert text[0].isupper() or text[0] == "`", (code, text)
            assert text.endswith("."), (code, text)
            assert "|" not in text, (code, text)


def test_the_page_of_errors_is_current() -> None:
    """docs/errors.md is what `make errors` writes."""
    assert sources.read(error_page.PAGE).text == error_page.page()
