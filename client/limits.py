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
FILE_BYTES_MAX: Final = (
    1_044_480  # the server takes 1 MiB, of which 4 KiB are for the form around it
)

# --- The daemon ----------------------------------------------------------------------------------
CLAIM_WAIT_SECONDS: Final = 30  # the longest that a claim may wait (W-103)
CLAIM_WAIT_SECONDS_OWING: Final = (
    1  # while a registration is owed: it comes when nothing is in hand
)
CLAIM_GRACE_SECONDS: Final = 15  # what the answer of a claim may take beyond its waiting
HEARTBEAT_SECONDS: Final = 30  # a runtime counts as offline after 150 s (W-097): five chances
LEASE_RENEW_SECONDS: Final = 15  # a third of the prepare lease (W-105)
STATUS_SECONDS: Final = 1  # how soon a running command learns of a cancel, if there are few
STATUS_CALLS_PER_SECOND_MAX: Final = 8  # of all commands together: more of them learn it later
STATUS_ANSWER_SECONDS: Final = 10  # a question is asked again sooner than it times out elsewhere
PAUSE_SECONDS_MIN: Final = 0.1  # doubles while the server is away
PAUSE_SECONDS_MAX: Final = 5  # a restarted server is found within that and its jitter
INTERNAL_ERRORS_MAX: Final = 30  # of one call: two minutes for a bad version to give way
PAUSE_JITTER: Final = 0.5  # a pause is that share shorter or longer, or all daemons come at once
STOP_SECONDS_MAX: Final = 5  # after SIGTERM a command has that long, then comes SIGKILL
GRACE_SECONDS: Final = 25  # a stopping daemon lets commands run that long; as `wakeful serve` does
REPORT_SECONDS_MAX: Final = 10  # a stopping daemon tries that long to report; W-110 covers the rest
PIPE_SECONDS_MAX: Final = 2  # what left the process group may keep a pipe open: not waited for
READ_BYTES: Final = 65_536  # one read from a pipe
OUTPUT_BYTES_MAX: Final = 200_000  # becomes a comment, which may have 262,144 bytes
ERROR_BYTES_MAX: Final = 4_000  # the end of standard error says what went wrong
CONCURRENT_RUNS: Final = 4  # by default
CONCURRENT_RUNS_MAX: Final = 64  # of one daemon

# --- Transcripts: what a command prints, line by line --------------------------------------------
LINE_CHARS_MAX: Final = 800  # a longer line is sent in parts
MESSAGE_LINES_MAX: Final = 200  # in one call: 960 kB where every character takes six bytes of JSON
MESSAGE_SECONDS: Final = 1  # between two calls of one run
BACKLOG_LINES_MAX: Final = 1_000  # not sent yet: then the oldest are left out, and that is said
TRANSCRIPT_LINES_MAX: Final = 20_000  # of a run; after them only the last ones follow at the end
FLUSH_SECONDS_MAX: Final = 5  # the end of a run is reported that much later for its last lines
