CREATE OR REPLACE FUNCTION public.wakeup_set_union(key text, old jsonb, new jsonb)
 RETURNS jsonb
 LANGUAGE sql
 IMMUTABLE PARALLEL SAFE
AS $function$
  SELECT jsonb_build_object(
           key, coalesce(jsonb_agg(x.value ORDER BY x.place) FILTER (WHERE x.rank <= 32), '[]'))
      || CASE WHEN count(*) > 32 THEN jsonb_build_object(key || '_more', true) ELSE '{}' END
    FROM (
      SELECT e.value, min(e.place) AS place, row_number() OVER (ORDER BY min(e.place)) AS rank
        FROM jsonb_array_elements(old || new) WITH ORDINALITY AS e (value, place)
       GROUP BY e.value) x
$function$
;
