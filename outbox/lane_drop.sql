-- Removes lanes that have caught up, under the owner's tokens.
-- $1 shards, $2 claim_ids, $3 claim_versions: the tokens, one a lane; $4 anchor; $5 topics. No rows. Index: outbox_lane_pkey.
delete from {{schema}}.outbox_lane l
 using unnest($1::smallint[], $2::text[]::uuid[], $3::bigint[], $5::text[]) t(shard, claim_id, claim_version, topic)
  join {{schema}}.outbox_shard s on s.shard = t.shard and s.claim_id = t.claim_id and s.claim_version = t.claim_version
 where l.shard = t.shard and l.topic = t.topic and {{schema}}.anchor() = $4::text
