-- The topics that do not go along with their shards. No parameters.
-- Rows: topic, reason, whether it is held (else it is catching up), since, failures, last error, shards.
select topic, reason, held, min(since), max(failures),
       coalesce((array_agg(last_error order by since desc, shard) filter (where last_error <> ''))[1], ''), count(*)
  from {{schema}}.outbox_lane group by topic, reason, held order by topic, reason, held
