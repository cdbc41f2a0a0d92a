"""Who may do what: the exact status of a sound request, for every route and every sort of caller.

A route that is missing here fails a test, so a new one gets its line with it: by its name, in the
order of the description of the API; `docs/use/access.md` is made of it. Callers:

- `owner`, `admin`, `member`: members of the workspace in these roles, and `creator`, a plain member
  whose things they are: author, uploader, owner of the agent or token, receiver, who left the rule;
- `run`: an agent's run on the issue for the creator; `orphan`: one that nobody stands behind;
- `outsider`: a member of another workspace; `instance`: an administrator of the instance who is no
  member; `daemon`: the token of the workspace's daemon; `nobody`: no token.

Requests name the workspace and concern an agent that every member may wake; in `PRIVATE` it is a
private agent of the creator.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

Row = Mapping[str, int]


def _table(text: str) -> Mapping[str, Row]:
    """Return the rows of a table by their first column; a line with # is a heading."""
    lines = [line.split() for line in text.strip().splitlines() if not line.startswith("#")]
    callers = lines[0][1:]
    rows = {name: dict(zip(callers, map(int, row), strict=True)) for name, *row in lines[1:]}
    assert len(rows) == len(lines) - 1, "a route has two lines"
    return rows


MATRIX: Final = _table("""
route                    owner admin creator member run orphan outsider instance daemon nobody
# Workspaces and agents
get_me                   200   200   200     200    200 200    200      200      403    401
list_workspaces          200   200   200     200    200 200    200      200      403    401
create_workspace         201   201   201     201    403 403    201      201      403    401
get_workspace            200   200   200     200    200 200    404      404      403    401
update_workspace         200   200   403     403    403 403    404      404      403    401
delete_workspace         204   403   403     403    403 403    404      404      403    401
list_members             200   200   200     200    200 200    404      404      403    401
add_member               201   201   403     403    403 403    404      404      403    401
remove_member            204   204   403     403    403 403    404      404      403    401
list_tokens              200   200   200     200    403 403    404      404      403    401
create_token             201   201   201     201    403 403    404      404      403    401
revoke_token             404   404   204     404    403 403    404      404      403    401
list_agents              200   200   200     200    200 200    404      404      403    401
create_agent             201   201   201     201    403 403    404      404      403    401
get_agent                200   200   200     200    200 200    404      404      403    401
update_agent             200   200   200     403    403 403    404      404      403    401
archive_agent            200   200   200     403    403 403    404      404      403    401
unarchive_agent          200   200   200     403    403 403    404      404      403    401
# Catalogues
list_statuses            200   200   200     200    200 200    404      404      403    401
create_status            201   201   403     403    403 403    404      404      403    401
get_status               200   200   200     200    200 200    404      404      403    401
update_status            200   200   403     403    403 403    404      404      403    401
archive_status           200   200   403     403    403 403    404      404      403    401
unarchive_status         200   200   403     403    403 403    404      404      403    401
list_squads              200   200   200     200    200 200    404      404      403    401
create_squad             201   201   201     201    403 403    404      404      403    401
get_squad                200   200   200     200    200 200    404      404      403    401
update_squad             200   200   200     200    403 403    404      404      403    401
archive_squad            200   200   200     200    403 403    404      404      403    401
unarchive_squad          200   200   200     200    403 403    404      404      403    401
list_labels              200   200   200     200    200 200    404      404      403    401
create_label             201   201   201     201    201 201    404      404      403    401
get_label                200   200   200     200    200 200    404      404      403    401
update_label             200   200   200     200    403 403    404      404      403    401
delete_label             204   204   204     204    403 403    404      404      403    401
list_properties          200   200   200     200    200 200    404      404      403    401
create_property          201   201   201     201    403 403    404      404      403    401
get_property             200   200   200     200    200 200    404      404      403    401
update_property          200   200   200     200    403 403    404      404      403    401
archive_property         200   200   200     200    403 403    404      404      403    401
unarchive_property       200   200   200     200    403 403    404      404      403    401
list_projects            200   200   200     200    200 200    404      404      403    401
create_project           201   201   201     201    403 403    404      404      403    401
get_project              200   200   200     200    200 200    404      404      403    401
update_project           200   200   200     200    403 403    404      404      403    401
archive_project          200   200   200     200    403 403    404      404      403    401
unarchive_project        200   200   200     200    403 403    404      404      403    401
# Issues
list_issues              200   200   200     200    200 200    404      404      403    401
create_issue             201   201   201     201    201 201    404      404      403    401
get_issue                200   200   200     200    200 200    404      404      403    401
update_issue             200   200   200     200    200 200    404      404      403    401
delete_issue             204   204   204     204    204 204    404      404      403    401
attach_label             204   204   204     204    204 204    404      404      403    401
detach_label             204   204   204     204    204 204    404      404      403    401
set_property             204   204   204     204    204 204    404      404      403    401
clear_property           204   204   204     204    204 204    404      404      403    401
patch_metadata           200   200   200     200    200 200    404      404      403    401
list_timeline            200   200   200     200    200 200    404      404      403    401
# Comments
list_comments            200   200   200     200    200 200    404      404      403    401
create_comment           201   201   201     201    201 201    404      404      403    401
get_comment              200   200   200     200    200 200    404      404      403    401
update_comment           200   200   200     403    403 403    404      404      403    401
delete_comment           204   204   204     403    403 403    404      404      403    401
resolve_comment          200   200   200     200    200 200    404      404      403    401
unresolve_comment        200   200   200     200    200 200    404      404      403    401
# Reactions
list_issue_reactions     200   200   200     200    200 200    404      404      403    401
add_issue_reaction       201   201   201     201    201 201    404      404      403    401
remove_issue_reaction    204   204   204     204    204 204    404      404      403    401
list_comment_reactions   200   200   200     200    200 200    404      404      403    401
add_comment_reaction     201   201   201     201    201 201    404      404      403    401
remove_comment_reaction  204   204   204     204    204 204    404      404      403    401
# Attachments
create_attachment        201   201   201     201    201 201    404      404      403    401
list_attachments         200   200   200     200    200 200    404      404      403    401
get_attachment           200   200   200     200    200 200    404      404      403    401
read_attachment          200   200   200     200    200 200    404      404      403    401
bind_attachment          200   200   200     404    404 404    404      404      403    401
delete_attachment        204   204   204     403    403 403    404      404      403    401
# Inbox
list_inbox               200   200   200     200    403 403    404      404      403    401
read_inbox_item          404   404   200     404    403 403    404      404      403    401
# Runs
list_runs                200   200   200     200    200 200    404      404      403    401
create_run               201   201   201     201    201 403    404      404      403    401
rerun_issue              202   202   202     202    202 403    404      404      403    401
get_run                  200   200   200     200    200 200    404      404      403    401
list_run_messages        200   200   200     200    200 200    404      404      403    401
cancel_run               200   200   200     200    200 403    404      404      403    401
# Wakeups
list_wakeup_events       200   200   200     200    200 200    200      200      403    401
list_wakeups             200   200   200     200    200 200    404      404      403    401
create_wakeup            201   201   201     201    201 403    404      404      403    401
preview_wakeup           200   200   200     200    200 403    404      404      403    401
get_wakeup               200   200   200     200    200 200    404      404      403    401
replace_wakeup           200   200   200     403    200 403    404      404      403    401
edit_wakeup_instruction  204   204   204     403    204 403    404      404      403    401
delete_wakeup            204   204   204     403    204 403    404      404      403    401
enable_wakeup            200   200   200     403    200 403    404      404      403    401
disable_wakeup           200   200   200     403    200 403    404      404      403    401
trigger_wakeup           204   204   204     403    204 403    404      404      403    401
check_in_to_wakeup       403   403   403     403    204 204    404      404      403    401
list_wakeup_runs         200   200   200     200    200 200    404      404      403    401
explain_wakeup           200   200   200     200    200 200    404      404      403    401
list_inventory           200   200   200     200    200 200    404      404      403    401
list_summaries           200   200   200     200    200 200    404      404      403    401
list_paused_wakeups      200   200   200     200    200 200    404      404      403    401
# Daemons
register_daemon          403   403   403     403    403 403    403      403      200    401
heartbeat                403   403   403     403    403 403    403      403      204    401
claim_tasks              403   403   403     403    403 403    403      403      200    401
claim_task               403   403   403     403    403 403    403      403      200    401
start_runs               403   403   403     403    403 403    403      403      200    401
complete_runs            403   403   403     403    403 403    403      403      200    401
prepare_lease            403   403   403     403    403 403    403      403      200    401
start_run                403   403   403     403    403 403    403      403      200    401
wait_local_directory     403   403   403     403    403 403    403      403      200    401
report_progress          403   403   403     403    403 403    403      403      204    401
append_messages          403   403   403     403    403 403    403      403      204    401
complete_run             403   403   403     403    403 403    403      403      200    401
fail_run                 403   403   403     403    403 403    403      403      200    401
get_run_status           403   403   403     403    403 403    403      403      200    401
# Instance
get_health               200   200   200     200    200 200    200      200      200    200
get_readiness            200   200   200     200    200 200    200      200      200    200
""")

PRIVATE: Final = _table("""
route                    owner admin creator member run orphan outsider instance daemon nobody
get_agent                404   404   200     404    200 404    404      404      403    401
update_agent             404   404   200     404    403 403    404      404      403    401
archive_agent            404   404   200     404    403 403    404      404      403    401
create_squad             400   400   201     400    403 403    404      404      403    401
create_run               403   403   201     403    201 403    404      404      403    401
rerun_issue              403   403   202     403    202 403    404      404      403    401
get_run                  200   200   200     200    200 200    404      404      403    401
list_run_messages        200   200   200     200    200 200    404      404      403    401
cancel_run               403   403   200     403    200 403    404      404      403    401
create_wakeup            403   403   201     403    201 403    404      404      403    401
preview_wakeup           403   403   200     403    200 403    404      404      403    401
get_wakeup               200   200   200     200    200 200    404      404      403    401
replace_wakeup           403   403   200     403    200 403    404      404      403    401
edit_wakeup_instruction  403   403   204     403    204 403    404      404      403    401
delete_wakeup            204   204   204     403    204 403    404      404      403    401
enable_wakeup            403   403   200     403    200 403    404      404      403    401
disable_wakeup           200   200   200     403    200 403    404      404      403    401
trigger_wakeup           403   403   204     403    204 403    404      404      403    401
list_wakeup_runs         200   200   200     200    200 200    404      404      403    401
explain_wakeup           200   200   200     200    200 200    404      404      403    401
""")

CALLERS: Final = tuple(MATRIX["get_me"])
