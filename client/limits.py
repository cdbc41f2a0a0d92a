"""Every bound of the client, each with its reason. Units are in the names."""

from __future__ import annotations

from typing import Final

# --- Calls ---------------------------------------------------------------------------------------
CONNECT_SECONDS_MAX: Final = 5  # a server that is there accepts within a few round trips
ANSWER_SECONDS_MAX: Final = 60  # longer than any budget of the server for one call
ERROR_CHARS_MAX: Final = 300  # of an answer that is no problem document, shown to a person
PAGE_MAX: Final = 100  # what the server gives in one list
PAGES_MAX: Final = 100  # of a list that is read to its end
SOURCE_BUSY_PAUSE_SECONDS: Final = 0.25  # W-202

# --- The daemon ----------------------------------------------------------------------------------
CLAIM_WAIT_SECONDS: Final = 30  # the longest that a claim may wait (W-103)
CLAIM_GRACE_SECONDS: Final = 15  # what the answer of a claim may take beyond its waiting
HEARTBEAT_SECONDS: Final = 30  # a runtime counts as offline after 150 s (W-097): five chances
LEASE_RENEW_SECONDS: Final = 15  # a third of the prepare lease (W-105)
STATUS_SECONDS: Final = 1  # how soon a running command learns of a cancel
PAUSE_SECONDS_MIN: Final = 0.1  # doubles while the server is away
PAUSE_SECONDS_MAX: Final = 5  # a restarted server is found within that
STOP_SECONDS_MAX: Final = 5  # after SIGTERM a command has that long, then comes SIGKILL
REPORT_SECONDS_MAX: Final = 10  # a stopping daemon tries that long to report; W-110 covers the rest
PIPE_SECONDS_MAX: Final = 2  # what left the process group may keep a pipe open: not waited for
READ_BYTES: Final = 65_536  # one read from a pipe
OUTPUT_BYTES_MAX: Final = 200_000  # becomes a comment, which may have 262,144 bytes
ERROR_BYTES_MAX: Final = 4_000  # the end of standard error says what went wrong
CONCURRENT_RUNS_MAX: Final = 64  # of one daemon
