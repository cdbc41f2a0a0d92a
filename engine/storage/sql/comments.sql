-- Comments. A deleted one is a tombstone, which nobody sees any more.

-- name: list
-- The comments of an issue, oldest first. Index: comment_issue_idx.
SELECT count(*) OVER () AS total, c.id, c.issue_id, c.parent_id,
       coalesce(comment_thread_root(c.parent_id), c.id) AS thread_id, c.author_type, c.author_id,
       c.content AS body, c.resolved_at, c.source_task_id, c.created_at, c.updated_at
  FROM comment c
 WHERE c.issue_id = $1 AND c.deleted_at IS NULL
 ORDER BY c.created_at, c.id
 LIMIT $2 OFFSET $3;

-- name: parent
-- A comment of this issue that can be replied to. Not locked: the insert does that, when the issue is
-- held: in the order in which a deletion locks them.
SELECT c.author_type, c.author_id FROM comment c
 WHERE c.id = $1 AND c.issue_id = $2 AND c.deleted_at IS NULL;

-- name: insert
-- Locks: parent KEY SHARE, by its key; the listening lock where the insert is captured.
INSERT INTO comment AS c (
  issue_id, workspace_id, author_type, author_id, content, parent_id, source_task_id)
VALUES ($1, $2, $3, $4, $5, $6, $7)
RETURNING c.id, c.issue_id, c.parent_id,
          coalesce(comment_thread_root(c.parent_id), c.id) AS thread_id, c.author_type,
          c.author_id, c.content AS body, c.resolved_at, c.source_task_id, c.created_at,
          c.updated_at;
