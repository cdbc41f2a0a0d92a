"""Carrying out a change at most once, however often its request arrives (W-033)."""

from __future__ import annotations

from typing import Any, Final

from engine import limits
from engine.domain.commands import Command, Kept
from engine.errors import WakefulError
from engine.service.registry import Handler, Work
from engine.storage import queries

_sql: Final = queries.load("once")


async def carry_out(work: Work, command: Command, handler: Handler) -> Any:
    """Return the result of the change, or what was `Kept` of it when it is in the database already.

    The key is taken, and the answer kept, in the transaction of the change: a refused or failed one
    leaves the key free, and a twin that arrives meanwhile waits and gets the first one's answer.
    Locks the key first of all. Raises `idempotency_key_reused` for the key of another request.

    The caller of W-033 is who acts, a person or an agent: not the token, and not the run, so that
    the next attempt of a run (W-110) does not repeat what the first one has done.
    """
    once = command.once
    if once is None:
        return await handler(work, command)
    caller = f"{work.caller.actor_type}:{work.caller.actor_id}"
    place = (caller, once.route, once.key)
    lifetime = limits.IDEMPOTENCY_SECONDS
    taken = (*place, command.workspace_id, once.digest, lifetime)
    if not await work.session.fetchval(_sql.take, *taken):
        row = await work.session.fetchrow(_sql.get, *place)
        if row is None:
            raise WakefulError("contention", "the key was just given up; try again")
        if row["digest"] != once.digest:
            message = "the key was used for another request"
            raise WakefulError("idempotency_key_reused", message, field="Idempotency-Key")
        return Kept(row["status"], row["body"])
    result = await handler(work, command)
    kept = once.render(result)
    await work.session.execute(_sql.keep, *place, kept.status, kept.body)
    return result
