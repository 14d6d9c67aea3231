-- Puts on record that an event is about to be sent alone: if its relay ends over it, the next owner knows which one it was.
-- $1 shard, $2 claim_id, $3 claim_version, $4 anchor, $5 position. Rows changed: 1, or 0 if the shard is another's.
-- Index: outbox_shard_pkey.
update {{schema}}.outbox_shard
   set suspect_tries = case when suspect = $5::bigint then suspect_tries + 1 else 1 end, suspect = $5::bigint
 where shard = $1::smallint and claim_id = $2::text::uuid and claim_version = $3::bigint and {{schema}}.anchor() = $4::text
