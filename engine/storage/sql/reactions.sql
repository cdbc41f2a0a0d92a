-- Reactions to issues and to comments. The triggers on both tables capture what is added and removed;
-- what stands already is neither.

-- name: list_of_issue
-- The reactions to an issue ($1) and to its comments that are not deleted, oldest first.
-- Index: the unique ones, comment_issue_idx.
SELECT count(*) OVER () AS total, r.id, r.target_type, r.target_id, r.emoji, r.actor_type,
       r.actor_id, r.created_at
  FROM (
    SELECT i.id, 'issue' AS target_type, i.issue_id AS target_id, i.emoji, i.actor_type,
           i.actor_id, i.created_at
      FROM issue_reaction i
     WHERE i.issue_id = $1
    UNION ALL
    SELECT x.id, 'comment', x.comment_id, x.emoji, x.actor_type, x.actor_id, x.created_at
      FROM comment c JOIN comment_reaction x ON x.comment_id = c.id
     WHERE c.issue_id = $1 AND c.deleted_at IS NULL) r
 ORDER BY r.created_at, r.id
 LIMIT $2 OFFSET $3;

-- name: list_of_comment
-- The reactions to a comment, oldest first. Index: the unique one.
SELECT count(*) OVER () AS total, x.id, 'comment' AS target_type, x.comment_id AS target_id,
       x.emoji, x.actor_type, x.actor_id, x.created_at
  FROM comment_reaction x
 WHERE x.comment_id = $1
 ORDER BY x.created_at, x.id
 LIMIT $2 OFFSET $3;

-- name: add_to_issue
-- One that stands is written over with itself, so that it can be answered: no trigger looks at that.
-- Locks: issue KEY SHARE, held by the caller; the reaction that stands; the listening lock where the
-- insert is captured.
INSERT INTO issue_reaction (issue_id, workspace_id, actor_type, actor_id, emoji)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (issue_id, actor_type, actor_id, emoji) DO UPDATE SET emoji = EXCLUDED.emoji
RETURNING id, 'issue' AS target_type, issue_id AS target_id, emoji, actor_type, actor_id,
          created_at, xmax = 0 AS created;

-- name: add_to_comment
-- The same for a comment.
INSERT INTO comment_reaction (comment_id, workspace_id, actor_type, actor_id, emoji)
VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (comment_id, actor_type, actor_id, emoji) DO UPDATE SET emoji = EXCLUDED.emoji
RETURNING id, 'comment' AS target_type, comment_id AS target_id, emoji, actor_type, actor_id,
          created_at, xmax = 0 AS created;

-- name: remove_from_issue
-- Locks: the reaction, after the issue. Index: the unique one.
DELETE FROM issue_reaction r
 WHERE r.issue_id = $1 AND r.actor_type = $2 AND r.actor_id = $3 AND r.emoji = $4;

-- name: remove_from_comment
DELETE FROM comment_reaction r
 WHERE r.comment_id = $1 AND r.actor_type = $2 AND r.actor_id = $3 AND r.emoji = $4;
