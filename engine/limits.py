"""Every bound in one place, each with its reason. Units are in the names."""

from __future__ import annotations

from typing import Final

# --- Rules: what a person or an agent may store (wakeups.md sections 1 and 2) ------------------
INSTRUCTION_BYTES_MAX: Final = 12_000  # W-002
AFTER_SECONDS_MIN: Final = 1  # W-005
INTERVAL_SECONDS_MIN: Final = 60  # W-005: nothing repeats faster than a minute
SCHEDULE_SECONDS_MAX: Final = 31_536_000  # W-005: one year
CRON_EXPRESSION_CHARS_MAX: Final = 120  # longer expressions only cost parse time
CHECK_IN_CHARS_MAX: Final = 500  # W-154
CRON_HORIZON_YEARS: Final = 10  # W-006: no occurrence within it is an error
EVENT_TYPES_MAX: Final = 25  # W-036: the whole catalogue
RULES_PER_ISSUE_MAX: Final = 32  # W-013: enabled ones; migrations/0013 holds it
RULES_PER_WORKSPACE_MAX: Final = 1_000  # W-014

# --- Bodies in bytes (W-011, api.md) -----------------------------------------------------------
BODY_BYTES_MAX: Final = 1_048_576  # refused before any route runs
BODY_RULE_BYTES_MAX: Final = 32_768
BODY_ENABLE_BYTES_MAX: Final = 1_024
BODY_CHECK_IN_BYTES_MAX: Final = 8_192
BODY_INSTRUCTION_BYTES_MAX: Final = 160_000  # W-011: the old text and the new one, as escapes
UPLOAD_HEAD_BYTES_MAX: Final = 16_384  # of a form, up to its file: 1 MiB of headers costs a second
JSON_DEPTH_MAX: Final = 64  # far above any real body, far below the recursion limit

# --- Runs (wakeups.md section 8) ---------------------------------------------------------------
NOTE_BYTES_MAX: Final = 40_000  # W-089
EVIDENCE_BYTES_MAX: Final = 65_536  # W-085: an offline night must not slow dispatch down
REFERENCE_BYTES_MAX: Final = 256  # W-089: one value of a fact reduced to references
SUMMARY_CHARS_MAX: Final = 160  # W-095
ACTORS_MAX: Final = 32  # W-065: distinct actors and source runs kept per receipt
RECEIPTS_PER_DISPATCH_MAX: Final = 100  # W-066
LAST_ERROR_CHARS_MAX: Final = 500  # W-253
PREPARE_LEASE_SECONDS: Final = 45  # W-105
CLAIM_RECOVERY_SECONDS: Final = 90  # W-100, W-105
RUNTIME_OFFLINE_SECONDS: Final = 150  # W-097
HEARTBEAT_WRITE_SECONDS: Final = 60  # api.md: kept in memory, written at most once a minute
RUN_TOKEN_SECONDS: Final = 86_400  # W-192
RECONNECT_GRACE_SECONDS: Final = 10_800  # W-097: a daemon that is silent may come back for so long
DISPATCHED_SECONDS_MAX: Final = 300  # W-097: a claim nobody starts, renews or redelivers is lost
RUNNING_SECONDS_MAX: Final = 9_000  # W-097: and silent for longer than the grace: lost
QUEUED_SECONDS_MAX: Final = 7_200  # W-109: an ordinary run; wakeup runs wait for their runtime
RECOVERED_RUNS_MAX: Final = 500  # of each sort in one call of recovery, one short transaction
RECOVERY_PAUSE_SECONDS: Final = 1  # before the next, when a bound or a lock left something behind
NETWORK_ATTEMPTS_MAX: Final = 3  # W-110: a provider's line breaks and comes back
NETWORK_RETRY_SECONDS: Final = 5  # W-110: before the last of them
CLAIM_TASKS_MAX: Final = 100
CLAIM_WAIT_SECONDS_MAX: Final = 30  # W-103

# --- Dispatch (wakeups.md section 6, architecture 4) -------------------------------------------
GROUP_RULES_MAX: Final = 32  # larger groups hold locks too long for writers
BULK_ISSUES_MAX: Final = 96  # of timers and sweeps in one group; a fact waits for it, 60 ms
BULK_PLACES_MIN: Final = (
    4  # in each group of facts while bulk waits: facts that never end stop no timer
)
DISPATCH_MS_MAX: Final = 2_000  # W-077: statement budget of one dispatch
DISPATCH_LOCK_MS_MAX: Final = 50  # W-077: how long the single retry waits for a lock
CONTENTION_RETRIES_MAX: Final = 3  # W-071: all within a second
CONTENTION_PAUSES_SECONDS: Final = (0.02, 0.1, 0.3)  # with jitter; writers queue, so short first
BARRED_SECONDS_MAX: Final = 60  # a failing rule stays out of groups for 1, 2, 4 .. 60 s
SWEEP_SECONDS: Final = 30  # W-072
HINT_SECONDS: Final = 2  # how long a hint that nobody took up keeps others from being sent
SWEEP_RULES_MAX: Final = 100  # W-075
ALARM_LATE_SECONDS: Final = 15  # three looks at the clock that did not happen: it is stuck
CLOCK_CHECK_SECONDS: Final = 5  # how soon a suspended machine or a set clock is noticed
DUE_ISSUES_MAX: Final = 4_000  # issues with due timers fanned out per look
DUE_PAUSE_SECONDS: Final = 0.05  # before the next look, when there were more
RING_PAUSE_SECONDS: Final = 1  # before the next look or sweep, when one failed or there was more
ERROR_TEXT_MS_MAX: Final = 100  # W-077: statement budget of storing why a rule failed

# --- Several engines (wakeups.md W-082, W-083) ---------------------------------------------------
OTHERS_FIRST_SECONDS: Final = 0.25  # what another engine works first is looked at after it
BUSY_SECONDS: Final = 30  # how often an engine that writes keeps the others from pausing
LEAVE_SECONDS_MAX: Final = 1  # an engine that stops says so to the others, or does not
PLAN_SECONDS_MAX: Final = 3_600  # W-082: no plan is older than an hour
JOB_SECONDS_MAX: Final = 45  # W-082: of one planned job
LEASE_HEARTBEAT_SECONDS: Final = 10  # W-082
LEASE_STALE_SECONDS: Final = 60  # W-082
RETENTION_DAYS: Final = 7  # W-068: of processed receipts
RETENTION_PAUSE_SECONDS: Final = 86_400  # W-074: what comes of age meanwhile wakes nobody by itself
RETENTION_ROWS_MAX: Final = 1_000  # W-068: of one sweep
RETENTION_MS_MAX: Final = 2_000  # W-068: its statement's own budget
UNBOUND_SECONDS: Final = 86_400  # a file that hangs on nothing: bound soon, or never
UNBOUND_ROWS_MAX: Final = 100  # of one sweep: their content is deleted piece by piece

# --- Actors ------------------------------------------------------------------------------------
INBOX_MAX: Final = 1_024  # a full inbox is an overload signal, not a queue to grow
RESIDENT_ACTORS_MAX: Final = 100_000  # least recently used idle actors leave above it
RESTARTS_MAX: Final = 5  # supervised restarts of one actor in RESTART_WINDOW_SECONDS
RESTART_WINDOW_SECONDS: Final = 60
RESTART_BACKOFF_SECONDS_MIN: Final = 0.1  # doubles: 3.1 s pass over the five restarts
MESSAGES_PER_TURN: Final = 64  # then other tasks get the loop, also under synchronous handlers
WORKER_THREADS_MAX: Final = 40  # blocking calls at a time (S-069); abandoned ones keep their place

# --- Lists (api.md) ----------------------------------------------------------------------------
PAGE_DEFAULT: Final = 50
PAGE_MAX: Final = 100
OFFSET_MAX: Final = 1_000_000

# --- Tracker texts -----------------------------------------------------------------------------
NAME_CHARS_MAX: Final = 200
TITLE_CHARS_MAX: Final = 500
COMMENT_BYTES_MAX: Final = 262_144
DESCRIPTION_BYTES_MAX: Final = 262_144
STOP_GRACE_SECONDS: Final = 25  # S-077
READY_SECONDS_MAX: Final = 3  # W-258: a broken database shows within five

# --- Embedded PostgreSQL and migrations ---------------------------------------------------------
POSTGRES_START_SECONDS: Final = 600  # recovery reads about 0.25 GB of WAL a second; disks differ
POSTGRES_STOP_SECONDS: Final = 10  # a fast stop takes 16 ms, but hangs in a re-initialising server
POSTGRES_QUIT_SECONDS: Final = 10  # the postmaster itself kills its children after 5 s
POSTGRES_READY_POLL_SECONDS: Final = 0.005  # postmaster.pid is the only sign of readiness
POSTGRES_LOG_BYTES_MAX: Final = 8_388_608  # moved aside once; two such files at most
SOCKET_PATH_BYTES_MAX: Final = 107  # sun_path of unix(7) without its final zero
MIGRATION_LOCK_SECONDS: Final = 600  # another process may be building a large index
MIGRATION_LOCK_POLL_SECONDS: Final = 0.1  # a waiter inside SQL blocks concurrent index builds

# --- Schedules ---------------------------------------------------------------------------------
CALENDAR_YEAR_MIN: Final = 1900  # before it, and after the next, zone arithmetic may leave what a
CALENDAR_YEAR_MAX: Final = 9900  # datetime can hold; a cron rule has no occurrence out there

# --- Gateway to the database (architecture 3; stack.md 3) --------------------------------------
DISPATCH_CONNECTIONS: Final = 2  # one group and one retry at the same time
CLAIM_CONNECTIONS: Final = 2  # daemons never wait behind a page of the web
API_CONNECTIONS: Final = 3
BACKGROUND_CONNECTIONS: Final = 1  # retention never takes part in a race
CLAIM_MS_MAX: Final = 5_000  # statement budgets of the lanes; dispatch has DISPATCH_MS_MAX
API_MS_MAX: Final = 10_000
BACKGROUND_MS_MAX: Final = 30_000
BACKGROUND_LOCK_MS_MAX: Final = (
    200  # its one connection waits for nobody; the next plan tries again
)
TRANSACTION_MS_MAX: Final = 45_000  # also bounds deferred triggers in COMMIT (no statement budget)
UNIT_SECONDS_MAX: Final = 60  # a server that answers nothing at all: the connection is given up
LANE_WAITING_MAX: Final = 10_000  # units waiting for one lane; more is refused as overload
CONNECT_SECONDS_MAX: Final = 3  # one attempt: six round trips between continents
RECONNECT_SECONDS_MAX: Final = 5  # a unit waits that long for a server to come back
RECONNECT_PAUSE_SECONDS_MIN: Final = 0.05  # doubles up to the next line
RECONNECT_PAUSE_SECONDS_MAX: Final = 1.0
CLOSE_SECONDS_MAX: Final = 2  # a polite goodbye to a server that may be gone
KEEPALIVE_IDLE_SECONDS: Final = 30  # W-073: 30 + 3 x 10 finds a silent break within 60 s
KEEPALIVE_INTERVAL_SECONDS: Final = 10
KEEPALIVE_PROBES_MAX: Final = 3
UNACKNOWLEDGED_MS_MAX: Final = 45_000  # the same for data sent and never acknowledged
STATEMENTS_CACHED_MAX: Final = 1_000  # prepared statements a connection; every named query fits
HINTS_MAX: Final = 4_096  # notifications waiting for a slow consumer; more become one sweep

# --- Metrics (wakeups.md section 23) --------------------------------------------------------------
SCRAPE_SECONDS_MAX: Final = 4  # for the figures of the database: Prometheus gives a scrape 10
SCRAPE_MS_MAX: Final = 2_000  # statement budget of one of them
SCRAPE_WORKSPACES_MAX: Final = 100  # those that wait longest: a series each, and kept for weeks
SCRAPE_MARKS_MAX: Final = 240  # an hour at 15 s: how long a transaction may take to be counted
SCRAPE_MARGIN_SECONDS: Final = 60  # a receipt was processed before its transaction ended, 45 s
LOST_HINT_SECONDS: Final = 2  # a younger input may have a hint that is still under way
HINT_SLACK_SECONDS: Final = 1  # between the clocks of the database and of who heard a hint
HINTS_REMEMBERED_MAX: Final = 50_000  # by issue; what is older is not judged

# --- Simulation ----------------------------------------------------------------------------------
SIMULATION_QUIET_SECONDS_MAX: Final = 120  # an engine still busy then, at one instant, never rests

# --- HTTP (api.md; stack.md 4) -------------------------------------------------------------------
IDEMPOTENCY_SECONDS: Final = 86_400  # W-033: how long an answer is kept
IDEMPOTENCY_KEY_CHARS_MAX: Final = 255  # W-033
BODY_SECONDS_MAX: Final = 30  # a body that trickles in longer keeps the instance from sleeping
LINGER_SECONDS_MAX: Final = 2  # how long a refused body is read on, so that its sender sees why
LINGER_BYTES_MAX: Final = 16_777_216  # the same in bytes; closing at once would reset the answer
GOODBYE_SECONDS_MAX: Final = 1  # for connections that are left when no request is any more
CONNECTION_BACKLOG: Final = 1_024  # not yet accepted: a restart of all daemons at once
WRITE_BYTES: Final = 65_536  # of an answer are written at a time
WRITE_SECONDS_MAX: Final = 30  # for that much; a client slower than 2 kB a second is not reading
KEEP_ALIVE_SECONDS: Final = 75  # longer than the pauses of a client that polls once a minute
HEADER_CHARS_MAX: Final = 512  # credentials, workspaces and capabilities are far shorter
QUERY_BYTES_MAX: Final = 8_192  # of a request's query string
FIELD_CHARS_MAX: Final = 100  # of a field's name repeated in an error
NAMED_EVENT_CHARS_MAX: Final = 100  # of an unknown event type repeated in an error

# --- Tracker ------------------------------------------------------------------------------------
EMAIL_CHARS_MAX: Final = 254  # RFC 5321, a path without its brackets
SLUG_CHARS_MAX: Final = 50  # part of addresses and headers
ISSUE_PREFIX_CHARS_MAX: Final = 10  # stands in front of every identifier
ISSUE_NUMBER_DIGITS_MAX: Final = 9  # any such number fits the column; more is no identifier
INSTRUCTIONS_BYTES_MAX: Final = 65_536  # of an agent: part of every prompt
SETTINGS_BYTES_MAX: Final = 65_536  # of a workspace
METADATA_BYTES_MAX: Final = 65_536  # of an issue; rewritten with its row at every update
INVOKERS_MAX: Final = 1_000  # people named by one private agent
CONCURRENT_TASKS_MAX: Final = 1_000  # of one agent; the column's check
STAGE_MAX: Final = 1_000  # W-132
METADATA_DEPTH_MAX: Final = 16  # far above what scripts keep; every merge goes down all levels
METADATA_KEYS_MAX: Final = 500  # of an issue, at all levels: comparing and showing takes each
METADATA_NAMES_MAX: Final = 100  # keys at the top: a fact names those that changed
METADATA_NAME_CHARS_MAX: Final = 100  # and one of them
STATUS_KEY_CHARS_MAX: Final = 32  # the column's check
LABELS_OF_ISSUE_MAX: Final = 100  # every view of an issue has them all
PROPERTIES_BYTES_MAX: Final = 65_536  # of an issue; rewritten with its row at every update
PROPERTY_VALUE_BYTES_MAX: Final = 4_096  # a field of a form, no document
PROPERTY_OPTIONS_MAX: Final = 100  # a list that a person picks from
SQUAD_MEMBERS_MAX: Final = 100  # every view of a squad has them all
SQUAD_INSTRUCTIONS_BYTES_MAX: Final = 16_384  # part of the note of its leader's run: NOTE_BYTES_MAX
ISSUE_HOPS_MAX: Final = 64  # sub-issues of sub-issues: bounds the search for a circle
SEARCH_CHARS_MAX: Final = 200  # a literal search reads every text of the workspace
MENTIONS_MAX: Final = 32  # agents that one comment can wake
TOKEN_SECONDS_MAX: Final = 315_360_000  # ten years; longer is a token without an end
EMOJI_BYTES_MAX: Final = 64  # of a reaction: the longest emoji sequences have about 40
UNBOUND_BYTES_MAX: Final = 1_073_741_824  # of a workspace's files that hang on nothing: 1 GiB a day
UNBOUND_BYTES_MIN: Final = 4_096  # what each of them counts at least: links take room, too
FILENAME_CHARS_MAX: Final = 255  # what file systems take; the file itself is bounded by its body

# --- Ordinary runs and reports of daemons (api.md, Runs) -----------------------------------------
COALESCED_COMMENTS_MAX: Final = 100  # comments merged into one pending run; more make another run
RUNTIMES_MAX: Final = 100  # of one daemon, and in one call
CLAIM_CANDIDATES_MAX: Final = 200  # deferred runs whose time has come, looked at by one claim
CLAIM_ROUNDS_MAX: Final = 3  # looks of one attempt, and attempts without a pause between them
CLAIM_SPARE_AGENTS: Final = 4  # looked at beyond max_tasks: another claim may empty the best ones
CLAIM_PAUSE_SECONDS_MIN: Final = 0.02  # between two looks of a waiting claim
CLAIM_BUSY_SECONDS: Final = 0.05  # before the next look at runs that others hold; W-103 has 100 ms
WAITING_CLAIMS_MAX: Final = 10_000  # a waiting claim is small, but not nothing
RUN_ERROR_CHARS_MAX: Final = 4_000  # a longer error is cut: a report is never lost for its length
FAILURE_REASON_CHARS_MAX: Final = 64
PROGRESS_BYTES_MAX: Final = 1_000  # one line of a page
MESSAGE_LINES_MAX: Final = 1_000  # of a transcript in one call; bodies are bounded, too
URL_BYTES_MAX: Final = 2_000

# --- Wakeup rules, shown -------------------------------------------------------------------------
RULES_LISTED_MAX: Final = 1_000  # of one issue: those switched on first, old history falls off
RULE_RUNS_LISTED_MAX: Final = 10  # the latest runs of a rule
INVENTORY_SEARCH_BYTES_MAX: Final = 256  # W-207
PAUSED_LISTED_MAX: Final = 200  # W-150: more of them is no list, but an alarm
SUMMARY_PREVIEWS_MAX: Final = 3  # W-211: what a card of a board has room for
NEXT_TIMES_MAX: Final = 5  # W-034, W-214: coming times of a rule
MATCHED_FACTS_MAX: Final = 10  # W-215: the latest facts of a rule
CHANGE_LOCK_MS_MAX: Final = 1_000  # a change of a rule waits for an idle writer no longer than that
DELETION_LOCK_MS_MAX: Final = 700  # who deletes gives way before the server sees a deadlock (1 s)
