-- Comments. A deleted one is a tombstone: its text is gone, its place in the thread is not.
-- Locks, in this order: agents, issue, pending runs, then the comment, then what capture locks. A
-- deletion of the issue takes them in this order, too.

-- name: list
-- The comments of an issue, oldest first, tombstones included. Index: comment_issue_idx.
SELECT count(*) OVER () AS total, c.id, c.issue_id, c.parent_id,
       coalesce(comment_thread_root(c.parent_id), c.id) AS thread_id, c.author_type, c.author_id,
       CASE WHEN c.deleted_at IS NULL THEN c.content ELSE '' END AS body, c.resolved_at,
       c.resolved_by_type, c.resolved_by_id, c.source_task_id, c.deleted_at, c.created_at,
       c.updated_at
  FROM comment c
 WHERE c.issue_id = $1
 ORDER BY c.created_at, c.id
 LIMIT $2 OFFSET $3;

-- name: get
-- One comment that is not deleted. Index: primary key.
SELECT c.id, c.issue_id, c.parent_id,
       coalesce(comment_thread_root(c.parent_id), c.id) AS thread_id, c.author_type, c.author_id,
       c.content AS body, c.resolved_at, c.resolved_by_type, c.resolved_by_id, c.source_task_id,
       c.deleted_at, c.created_at, c.updated_at
  FROM comment c
 WHERE c.id = $1 AND c.deleted_at IS NULL;

-- name: place
-- Where a comment is and whose, deleted or not. What is decided on it is locked afterwards.
SELECT c.issue_id, c.workspace_id, c.author_type, c.author_id FROM comment c WHERE c.id = $1;

-- name: parent
-- A comment of this issue that can be replied to. Not locked: the insert does that, when the issue is
-- held: in the order in which a deletion locks them.
SELECT c.author_type, c.author_id FROM comment c
 WHERE c.id = $1 AND c.issue_id = $2 AND c.deleted_at IS NULL;

-- name: lock
-- A comment about to change. Locks: comment NO KEY UPDATE, after the issue.
SELECT c.content, c.deleted_at, c.resolved_at FROM comment c WHERE c.id = $1
   FOR NO KEY UPDATE;

-- name: hold_live
-- Whether the comment is there and not deleted, and stays so until COMMIT. Locks: comment SHARE,
-- after the issue.
SELECT true FROM comment c WHERE c.id = $1 AND c.deleted_at IS NULL FOR SHARE;

-- name: insert
-- Locks: parent KEY SHARE, by its key; the listening lock where the insert is captured.
INSERT INTO comment AS c (
  issue_id, workspace_id, author_type, author_id, content, parent_id, source_task_id)
VALUES ($1, $2, $3, $4, $5, $6, $7)
RETURNING c.id, c.issue_id, c.parent_id,
          coalesce(comment_thread_root(c.parent_id), c.id) AS thread_id, c.author_type,
          c.author_id, c.content AS body, c.resolved_at, c.resolved_by_type, c.resolved_by_id,
          c.source_task_id, c.deleted_at, c.created_at, c.updated_at;

-- name: set_content
-- A comment ($1) locked by the caller gets another text. Captured: comment.updated.
UPDATE comment SET content = $2, revision = revision + 1, updated_at = wakeful_now()
 WHERE id = $1;

-- name: delete
-- A comment ($1) locked by the caller becomes a tombstone; nothing brings its text back. Captured:
-- comment.deleted.
UPDATE comment
   SET deleted_at = wakeful_now(), content = '', revision = revision + 1,
       updated_at = wakeful_now()
 WHERE id = $1;

-- name: resolve
-- The same, dealt with by $2, $3. Captured: comment.resolved.
UPDATE comment
   SET resolved_at = wakeful_now(), resolved_by_type = $2, resolved_by_id = $3,
       revision = revision + 1, updated_at = wakeful_now()
 WHERE id = $1;

-- name: unresolve
-- The same, open again. Captured: comment.unresolved.
UPDATE comment
   SET resolved_at = NULL, resolved_by_type = NULL, resolved_by_id = NULL,
       revision = revision + 1, updated_at = wakeful_now()
 WHERE id = $1;

-- name: mentioned_before
-- Those of the agents $1 that a text has mentioned already, by id ($2) or by name ($3).
-- Index: primary key of agent.
SELECT a.id FROM agent a
 WHERE a.id = ANY ($1)
   AND (a.id = ANY ($2) OR lower(a.name) IN (SELECT lower(n) FROM unnest($3::text[]) n));
