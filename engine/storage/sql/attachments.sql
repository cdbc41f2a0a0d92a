-- Files, their content, and what they hang on. The triggers of the table capture what a file is bound
-- to and taken off; an upload alone is nothing to them.

-- name: list
-- The files of an issue ($1) and of its comments that are not deleted, oldest first.
-- Index: attachment_issue_idx, comment_issue_idx, attachment_comment_idx.
SELECT count(*) OVER () AS total, a.id, a.filename, a.url, a.content_type, a.size_bytes,
       a.issue_id, a.comment_id, a.uploader_type, a.uploader_id, a.created_at
  FROM (
    SELECT x.* FROM attachment x WHERE x.issue_id = $1
    UNION ALL
    SELECT y.* FROM comment c JOIN attachment y ON y.comment_id = c.id
     WHERE c.issue_id = $1 AND c.deleted_at IS NULL) a
 ORDER BY a.created_at, a.id
 LIMIT $2 OFFSET $3;

-- name: get
-- A file, and what decides who sees it: `home_id` is the issue on which it can be seen, null for one
-- that hangs on nothing or on a deleted comment. Index: primary keys.
SELECT a.id, a.filename, a.url, a.content_type, a.size_bytes, a.issue_id, a.comment_id,
       a.uploader_type, a.uploader_id, a.created_at, a.workspace_id,
       coalesce(a.issue_id, CASE WHEN c.deleted_at IS NULL THEN c.issue_id END) AS home_id,
       coalesce(a.issue_id, c.issue_id) AS bound_issue_id
  FROM attachment a LEFT JOIN comment c ON c.id = a.comment_id
 WHERE a.id = $1;

-- name: content
-- What a file holds; no row for one that lies elsewhere.
SELECT f.content FROM attachment_content f WHERE f.attachment_id = $1;

-- name: unbound_bytes
-- What the files of a workspace ($1) take that hang on nothing; each counts as $2 bytes at least.
-- Index: attachment_unbound_workspace_idx, alone.
SELECT coalesce(sum(greatest(a.size_bytes, $2)), 0)::bigint
  FROM attachment a
 WHERE a.workspace_id = $1 AND a.unbound_at IS NOT NULL;

-- name: insert
INSERT INTO attachment (workspace_id, uploader_type, uploader_id, task_id, filename, url,
                        content_type, size_bytes)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
RETURNING id, filename, url, content_type, size_bytes, issue_id, comment_id, uploader_type,
          uploader_id, created_at;

-- name: insert_content
INSERT INTO attachment_content (attachment_id, content) VALUES ($1, $2);

-- name: lock
-- What a file hangs on. Locks: attachment NO KEY UPDATE, after its old and its new issue.
SELECT a.issue_id, a.comment_id FROM attachment a WHERE a.id = $1 FOR NO KEY UPDATE;

-- name: bind
-- A file ($1) locked by the caller hangs on the issue $2, on the comment $3, or on nothing.
-- Locks: the new target KEY SHARE, by its key. Captured: attachment.detached, attachment.attached.
UPDATE attachment SET issue_id = $2, comment_id = $3 WHERE id = $1
RETURNING id, filename, url, content_type, size_bytes, issue_id, comment_id, uploader_type,
          uploader_id, created_at;

-- name: delete_content
DELETE FROM attachment_content f WHERE f.attachment_id = $1;

-- name: delete
-- Captured: attachment.detached.
DELETE FROM attachment a WHERE a.id = $1;

-- name: forget_unbound
-- At most $2 files that have hung on nothing for $1 seconds, with their content; none that somebody
-- binds just now. Locks: these files. Index: attachment_unbound_idx, then primary keys.
WITH batch AS MATERIALIZED (
  SELECT a.id FROM attachment a
   WHERE a.unbound_at < (SELECT wakeful_now()) - make_interval(secs => $1)
   ORDER BY a.unbound_at
   LIMIT $2
     FOR UPDATE SKIP LOCKED
), content AS (
  DELETE FROM attachment_content f WHERE f.attachment_id = ANY (ARRAY(SELECT b.id FROM batch b))
)
DELETE FROM attachment a WHERE a.id = ANY (ARRAY(SELECT b.id FROM batch b));
